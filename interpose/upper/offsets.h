/* Offsets of ThreadRecord for assembly; checked against the structure in threads.cpp. */
#define THREAD_LOWER_FS 16
#define THREAD_LOWER_SP 24
#define THREAD_CLONE_RETURN 104
#define THREAD_CLONE_RECORD 112

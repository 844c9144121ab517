/* Offsets of ThreadRecord for assembly; checked against the structure in threads.cpp. */
#define THREAD_CLONE_RETURN 104
#define THREAD_CLONE_RECORD 112
#define THREAD_VDSO_FRAME 136
#define THREAD_CLONE_MASK 144
#define THREAD_SENDER_UNTRANSLATED 512
/* PersistentState::files and its number of bits; checked likewise. */
#define STATE_FILES 0x400000207af0
#define STATE_MAX_FILES 1048576
/* ControlPage::has_fsgsbase; checked likewise. */
#define CONTROL_HAS_FSGSBASE 0x400000002ee0

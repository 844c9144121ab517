// Loaded by threads_tls while its threads run: thread-local storage that each thread gets at its first use.
static _Thread_local unsigned long counts[300] = {1000};

unsigned long count(int index) { return index == 0 ? ++counts[0] : (counts[index] += counts[0]); }

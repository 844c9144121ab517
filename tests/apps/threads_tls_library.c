// threads_tls loads this while its threads run; each thread gets this thread-local storage at its first use.
static _Thread_local unsigned long counts[300] = {1000};

unsigned long count(int index) { return index == 0 ? ++counts[0] : (counts[index] += counts[0]); }

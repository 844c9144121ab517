// The upper half's core: what runs in the window between the program and the kernel. Saved in the image, so a
// checkpoint may fall on any of its instructions. Freestanding; any UH thread; any FS base; no locks.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include "interpose/seam/state.h"
#include "interpose/seam/thread.h"
#include "interpose/upper/raw.h"

namespace cropdl::upper {

// Between a system call and the note of what it did the thread must not be saved: the kernel's side and ours
// would differ in the image. Not around calls that may block for long.
class Pin {
 public:
  Pin() : thread_(seam::current_thread()) { thread_->pinned = thread_->pinned + 1; }
  ~Pin() { thread_->pinned = thread_->pinned - 1; }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  seam::ThreadRecord* const thread_;
};

struct Call {  // one system call of the program
  long nr;
  long a[6];
};

// Performs `call` for the program and returns what the kernel would. `context` is the interrupted context
// when the call came by SIGSYS, nullptr when it came from a patched site (which only mmap, mremap and brk
// do).
long emulate(const Call& call, ucontext_t* context);

// Memory (memory.cpp)
long place_mmap(const Call& call);
long place_thread_block(
    const Call& call);  // mmap by ld.so before the main thread has one: below 4 GiB if it can be
long place_mremap(const Call& call);
long place_shmat(const Call& call);
long move_brk(uint64_t wanted);

// Descriptors (files.cpp)
long open_call(const Call& call, ucontext_t* context);
long descriptor_call(const Call& call);
long read_link(const Call& call);
long execute(const Call& call);

// Signals (signals.cpp)
long set_action(const Call& call);
long set_mask(const Call& call, ucontext_t* context);
long masked_wait(const Call& call);
long timed_wait(const Call& call);

// Threads and processes (threads.cpp)
long clone_call(const Call& call, ucontext_t* context);
long leave_process(const Call& call);
long leave_thread(const Call& call);
bool is_spawned();  // a child of vfork or posix_spawn: it runs in its parent's memory and touches no table
                    // there
bool is_child();    // that, or a child of fork, which has its own copy: neither has an LH

// Ids (ids.cpp)
bool takes_ids(long nr);
long id_call(const Call& call);   // one of those
Call real_ids(const Call& call);  // with what the kernel calls the processes that the program names
long real_process(long upper);
long own_process();  // what the program's getpid() says

// Clocks (clocks.cpp)
bool takes_clock(long nr);
long clock_call(const Call& call);   // one of those
long sleep_until(const Call& call);  // clock_nanosleep with TIMER_ABSTIME
bool is_own_clock(
    long clock);  // not the machine's wall clock: over a restart it may be another than the kernel's

// System V semaphores and message queues (system_v.cpp)
long system_v_call(const Call& call);

// Paths (proc_paths.cpp)
bool takes_path(long nr);
long path_call(const Call& call, ucontext_t* context);  // one of those

// libc's hot placement sites (patch.cpp). `text` has just been mapped from the file `fd`.
void patch_libc(uint64_t text, uint64_t length, int fd);

}  // namespace cropdl::upper

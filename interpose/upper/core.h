// The upper half's core: what runs in the window between the program and the kernel. Saved in the image, so a
// checkpoint may fall on any of its instructions. Freestanding; any UH thread; any FS base; no locks but that
// of seam/extents.h, which no checkpoint finds taken.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include "interpose/seam/state.h"
#include "interpose/seam/thread.h"
#include "interpose/upper/raw.h"

namespace cropdl::upper {

inline void set_signal_mask(uint64_t mask, uint64_t* former = nullptr) {
  constexpr int kSetMask = 2;
  raw(14 /* rt_sigprocmask */, kSetMask, reinterpret_cast<long>(&mask), reinterpret_cast<long>(former), 8);
}

// Calls `fn(t, argument)`, a function of the control page, with the thread's LH stack and FS base.
inline void call_on_lower(void* fn, seam::ThreadRecord* t, long argument = 0) {
  seam::call_on_stack(fn, t, argument, t->lower_fs, t->lower_sp);
}

// Nothing interrupts the thread meanwhile: between a system call and the note of what it did, or while ids
// and times of this run are in registers, it must not be saved, and no handler may leave by longjmp. Not
// around calls that wait.
class Undisturbed {
 public:
  Undisturbed() { set_signal_mask(~0ull, &mask_); }
  ~Undisturbed() { set_signal_mask(mask_); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  uint64_t mask_;
};

struct SystemCall {  // one system call of the program
  long nr;
  long a[6];
  uint64_t from = 0;  // the instruction behind it
};
inline long pass_on(const SystemCall& c) { return raw(c.nr, c.a[0], c.a[1], c.a[2], c.a[3], c.a[4], c.a[5]); }

// Performs `call` for the program and returns what the kernel would. Runs on the program's stack, outside of
// any signal handler (entry.S). The calls of made_in_one_piece() run with all signals blocked, so that
// neither a handler nor a checkpoint sees the kernel's side done and ours not; the others may wait for long,
// and may be interrupted, repeated, and left by longjmp anywhere.
long emulate_call(const SystemCall& call);
bool made_in_one_piece(long nr);

// Memory (memory.cpp)
long place_mmap(const SystemCall& call);
long place_thread_block(
    const SystemCall& call);  // mmap by ld.so before the main thread has one: below 4 GiB if it can be
long place_mremap(const SystemCall& call);
long unmap(const SystemCall& call);
long place_shmat(const SystemCall& call);
long move_brk(uint64_t wanted);

// How something came that the core cannot follow (seam::kUnseen bits).
inline void note_unseen(uint32_t how) { __atomic_fetch_or(&seam::state()->unseen, how, __ATOMIC_RELAXED); }

// Descriptors (files.cpp)
long open_call(const SystemCall& call);
long descriptor_call(const SystemCall& call);
long read_link(const SystemCall& call);
long execute(const SystemCall& call);
void note_descriptor(const greg_t* registers);  // of a context interrupted in cropdl_descriptor_call
void close_lower_files();                       // in a child of fork

// Signals (signals.cpp)
long set_action(const SystemCall& call);
long set_mask(const SystemCall& call);
long set_alternate_stack(const SystemCall& call);
[[noreturn]] void die_of(int sig);  // by its default action

// Calls that wait (waits.cpp)
long masked_wait(const SystemCall& call);
long timed_wait(const SystemCall& call);
long long_random(const SystemCall& call);  // getrandom
// `set` becomes the address of a copy without these signals. What cannot be read is the kernel's to refuse.
void leave_out(uint64_t signals, uint64_t* copy, long* set);
inline constexpr uint64_t kSuspend = 1ull << (seam::kSuspendSignal - 1);  // which the program must not take
long futex_wait(const SystemCall& call);

// Futexes whose words hold thread ids (futexes.cpp)
bool futex_has_owner(long command);                // of FUTEX_LOCK_PI and its kin
long owned_futex(const SystemCall& call);          // one of those
bool futex_requeues(long command);                 // FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI
long requeue_call(const SystemCall& call);         // one of those
void release_held_futexes(seam::ThreadRecord* t);  // the thread's robust list, as the kernel does at its end

// Threads and processes (threads.cpp)
struct TrappedCall;
int prepare_clone(TrappedCall* call, uint64_t mask);
long leave_process(const SystemCall& call);
long leave_thread(const SystemCall& call);
long gs_call(const SystemCall& call);  // arch_prctl for GS
long rseq_call(const SystemCall& call);
void wait_while_stopped(seam::ThreadRecord* t);  // any thread but main, in its suspend handler
enum LineOnce : uint8_t { kTooManyThreads, kGsIsTaken, kNoRequeue, kLdtIsTaken, kNoDispatch, kBlockInTheWay };
void say_once(LineOnce which, const char* line);  // to people
bool is_spawned();  // a child of vfork or posix_spawn: it runs in its parent's memory and touches no table
                    // there
bool is_child();    // that, or a child of fork, which has its own copy: neither has an LH

// Ids (ids.cpp)
bool takes_ids(long nr);
long id_call(const SystemCall& call);       // one of those
long create_timer(const SystemCall& call);  // the same of the thread that is to be told
SystemCall with_kernel_ids(
    const SystemCall& call);              // with what the kernel calls the processes that the program names
void tell_sender(siginfo_t* info);        // of a signal, as the program knows it
void tell_waited(seam::ThreadRecord* t);  // likewise, of one that it has waited for; all signals are blocked
long to_kernel_pid(long upper);
long to_virtual_pid(long real);  // the number by which the program knows it
long own_process();              // what the program's getpid() says

// Clocks (clocks.cpp)
bool takes_clock(long nr);
long clock_call(const SystemCall& call);   // one of those
long sleep_until(const SystemCall& call);  // clock_nanosleep with TIMER_ABSTIME
bool is_own_clock(
    long clock);  // not the machine's wall clock: over a restart it may be another than the kernel's

// System V semaphores and message queues (system_v.cpp)
long system_v_call(const SystemCall& call);

// Paths (proc_paths.cpp)
bool takes_path(long nr);
long path_call(const SystemCall& call);  // one of those

// libc's hot placement sites (patch.cpp). `call`, an mmap, has just mapped `text`. Returns what the call
// does.
long patch_libc(const SystemCall& call, uint64_t text);

struct TrappedCall {  // as entry.S lays it out
  long rax, rdi, rsi, rdx, r10, r8, r9, rbp;
  uint64_t rcx, r11, flags;
  SystemCall call() const { return {rax, {rdi, rsi, rdx, r10, r8, r9}, rcx}; }
};

inline bool from_loader(uint64_t ip) {
  return ip >= seam::state()->text_begin && ip < seam::state()->text_end;
}

}  // namespace cropdl::upper

// The upper half's core: code in the window between the program and the kernel. It is saved, so a checkpoint
// may fall on any of its instructions; its locks (Extents, NotesHeld) are free then. Freestanding; any UH
// thread, any FS base.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include "interpose/seam/state.h"
#include "interpose/seam/thread.h"
#include "interpose/upper/raw.h"

// Of entry.S; hidden: without a table of addresses, since the core has no data.
#pragma GCC visibility push(hidden)
extern "C" {
void cropdl_core_syscall_entry();
void cropdl_core_masked_entry();
void cropdl_core_int80();
void cropdl_return();
long cropdl_descriptor_call(long nr, long a, long b, long c, long d, long e, long f);
long cropdl_sigwait(long set, long info, long timeout, long size);
extern const char cropdl_descriptor_made[], cropdl_descriptor_noted[];
extern const char cropdl_sigwait_made[], cropdl_sigwait_noted[];
}
#pragma GCC visibility pop

namespace cropdl::upper {

inline void set_signal_mask(uint64_t mask, uint64_t* former = nullptr) {
  raw(14 /* rt_sigprocmask */, SIG_SETMASK, as_word(&mask), as_word(former), 8);
}

// Calls `fn(t, argument)`, a function of the control page, with the thread's LH stack and FS base.
inline void call_on_lower(void* fn, seam::ThreadRecord* t, long argument = 0) {
  seam::call_on_stack(fn, t, argument, t->lower_fs, t->lower_sp);
}

// Blocks all signals. Between a system call and the note of its effect, or with ids and times of this run in
// registers, the thread must not be saved and no handler may leave by longjmp. Not for calls that wait.
class Undisturbed {
 public:
  Undisturbed() { set_signal_mask(~0ull, &mask_); }
  ~Undisturbed() { set_signal_mask(mask_); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  uint64_t mask_;
};

// Waits a moment for a lock, and lets its holder run: it may be in the kernel, with a lower priority.
struct LetRun {
  void operator()() const {
    const long pause[2] = {0, 20'000};
    raw(35 /* nanosleep */, as_word(pause), 0);
  }
};

// Locks the lists of what the program has used (system_v.cpp, locks.cpp). All signals are blocked meanwhile.
class NotesHeld {
 public:
  NotesHeld() {
    while (__atomic_exchange_n(&seam::state()->notes_held, 1u, __ATOMIC_ACQUIRE) != 0) LetRun()();
  }
  ~NotesHeld() { __atomic_store_n(&seam::state()->notes_held, 0u, __ATOMIC_RELEASE); }

 private:
  const Undisturbed undisturbed_;
};

// Of functions with large objects: inlined, these would lie in the frame of a caller that goes on. The core
// runs on the program's stack, of which natively a call needs nothing. CMakeLists.txt limits the frames.
#define CROPDL_OWN_FRAME __attribute__((noinline))

struct SystemCall {  // one system call of the program
  long nr;
  long a[6];
  long frame_pointer = 0;  // of the caller
  uint64_t from = 0;       // the instruction after it
};
struct TrappedCall {  // as entry.S lays it out: rax, rdi, rsi, rdx, r10, r8, r9, rbp, rcx, r11, flags
  SystemCall call;
  uint64_t r11, flags;
  long& result() { return call.nr; }  // rax
};
inline long pass_on(const SystemCall& c) { return raw(c.nr, c.a[0], c.a[1], c.a[2], c.a[3], c.a[4], c.a[5]); }

// Performs `call` for the program and returns the kernel's result, on the program's stack, outside any signal
// handler (entry.S). For calls of made_in_one_piece() all signals are blocked: no handler and no checkpoint
// sees the kernel's part done without the core's. Other calls may wait long, be interrupted and repeated, and
// be left by longjmp anywhere.
long emulate_call(const SystemCall& call);
bool made_in_one_piece(long nr, long operation);  // operation: its second argument

// Memory (memory.cpp)
long place_mmap(const SystemCall& call);
// mmap by ld.so before the main thread has a thread block: below 4 GiB if possible.
long place_thread_block(const SystemCall& call);
long place_mremap(const SystemCall& call);
long unmap(const SystemCall& call);
long place_shmat(const SystemCall& call);
long move_brk(uint64_t wanted);

// Records an event that the core cannot follow (seam::kUnseen bits).
inline void note_unseen(uint32_t how) { __atomic_fetch_or(&seam::state()->unseen, how, __ATOMIC_RELAXED); }

// Descriptors (descriptors.cpp)
long descriptor_call(const SystemCall& call);
// Makes a call that may wait long, such as opening a FIFO, and that returns a descriptor.
long make_slowly(const SystemCall& call);
void note_made(long fd);   // from make_slowly(), unless cropdl_descriptor_call has noted it
void disown(long fd);      // it is closed, or about to be
void close_lower_files();  // in a child of fork

// Locks of files (locks.cpp)
bool asks_for_lock(long nr, long operation);  // flock but LOCK_UN, or fcntl with one of kLocksSinceLevel2
long lock_file(const SystemCall& call);       // if asks_for_lock()

// Paths that lead elsewhere (files.cpp)
long open_call(const SystemCall& call);
long read_link(const SystemCall& call);
long execute(const SystemCall& call);
// Returns `is(NAME, wanted)` for the name of the file that a link leads to; `otherwise`: it is no link. Only
// for ld.so (also in a dlopen, on any stack): its frame is large, but ld.so's own are larger.
bool leads_to(const char* link, bool (*is)(const char*, const char*), const char* wanted, bool otherwise);

// Signals (signals.cpp)
long set_action(const SystemCall& call);
long set_mask(const SystemCall& call);
long set_alternate_stack(const SystemCall& call);
// The alternate stack as the program set it. The bytes between its members are zero, as the kernel's are.
inline stack_t programs_stack(const seam::ThreadRecord* t) {
  stack_t its{};
  its.ss_sp = reinterpret_cast<void*>(t->alternate_sp);
  its.ss_flags = static_cast<int>(t->alternate_flags);
  its.ss_size = t->alternate_size;
  return its;
}
[[noreturn]] void die_of(int sig);  // by the signal's default action

// In a signal handler: the core's own signals (handlers.cpp), how the program's handlers are entered and left
// (program_handlers.cpp), what an interruption means for a call of the core (interrupted_calls.cpp)
struct Entry {  // as entry.S lays it out: the handler's arguments
  long sig;
  siginfo_t* info;
  ucontext_t* context;
  uint64_t frame;     // stack pointer; the address of the restorer is there
  uint64_t handler;   // the code to jump to
  uint64_t argument;  // its rcx
};
// Changes the interrupted context such that it can be saved, or never be returned to.
void settle(seam::ThreadRecord* t, ucontext_t* context);
// The same after an interruption by a signal of the core.
void settle_for_core(seam::ThreadRecord* t, ucontext_t* context);
// Ends a call that a core's signal has put back to its instruction, as a handler without SA_RESTART does.
void end_rewound_call(seam::ThreadRecord* t, const seam::SignalAction& action, greg_t* g);
// Returns the thread's mask when the signal arrived. If the signal ended a wait with a temporary mask
// (masked_wait), the frame has the mask from before the wait. The next signal finds the wait over.
uint64_t mask_before(seam::ThreadRecord* t, int sig, const ucontext_t* context);
void do_nothing(Entry* e);
// LH threads have GS base 0 and block signals. One that arrives is for the main thread, or a fault of the LH.
void on_lower_thread(const Entry* e);
// Enters the program's handler for an arrived signal, if there is one. All signals, the suspend signal too,
// are blocked until this is done: a stopped thread holds no untranslated id of this run (tell_sender), and no
// other handler sees a half-done state. The next pending signal is delivered when the mask is set.
void enter_handler(Entry* e);
// Handles a signal number of the core that the program uses itself, sent by kill() and its kin.
void programs_own(Entry* e);
// rt_sigreturn of the program. The program may have changed the mask and the signal stack in the frame at the
// stack pointer (a coroutine library returns into another context).
void return_from_handler(greg_t* g);

// Calls that wait (waits.cpp)
long masked_wait(const SystemCall& call);
long timed_wait(const SystemCall& call);
long timed_wait_of_copy(SystemCall* call);  // changes the arguments
long long_random(const SystemCall& call);   // getrandom
// Sets `set` to the address of a copy without these signals. The kernel refuses an unreadable set.
void leave_out(uint64_t signals, uint64_t* copy, long* set);
inline constexpr uint64_t kSuspend = 1ull << (seam::kSuspendSignal - 1);  // the program must not receive it
long futex_wait(const SystemCall& call);

// Futexes whose words hold thread ids (futexes.cpp)
bool futex_has_owner(long command);         // FUTEX_LOCK_PI and its kin
long owned_futex(const SystemCall& call);   // if futex_has_owner()
bool futex_requeues(long command);          // FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI
long requeue_call(const SystemCall& call);  // if futex_requeues()
// Processes the calling thread's robust list, as the kernel does at a thread's end.
void release_held_futexes(seam::ThreadRecord* t);

// Threads and processes (threads.cpp)
int prepare_clone(TrappedCall* call, uint64_t mask);
long leave_process(const SystemCall& call);
long leave_thread(const SystemCall& call);
long gs_call(const SystemCall& call);  // arch_prctl for GS
long rseq_call(const SystemCall& call);
void wait_while_stopped(seam::ThreadRecord* t);  // any thread but main, in its suspend handler
enum LineOnce : uint8_t {
  kTooManyThreads,
  kGsIsTaken,
  kNoRequeue,
  kLdtIsTaken,
  kNoDispatch,
  kBlockInTheWay,
  kReplaced
};
void say(const char* line);  // prints the line for users
void say_once(LineOnce which, const char* line);
// A child of vfork or posix_spawn: it runs in its parent's memory and must not change its tables.
bool is_spawned();
bool is_child();  // is_spawned(), or a child of fork, which has its own copy of memory; neither has an LH

// Ids (ids.cpp)
// Whether the record gives its id another number for the program, also after its thread's end: until the next
// restart these numbers stay, since the program may be told an id twice (clone and gettid, fork and wait4).
inline bool renames(const seam::ThreadRecord& record) {
  return record.kind != seam::kSpawnedChild && record.virtual_tid != 0 && record.virtual_tid != record.tid;
}
bool takes_ids(long nr);
long id_call(const SystemCall& call);       // if takes_ids()
long create_timer(const SystemCall& call);  // timer_create, with the id of the thread to notify translated
// Returns the call with kernel pids in place of the ids that the program passes.
SystemCall with_kernel_ids(const SystemCall& call);
long to_kernel_clock(long clock);
void tell_sender(siginfo_t* info);  // translates si_pid of a signal to the virtual pid
// The same for a signal that a wait returned; all signals are blocked.
void tell_waited(seam::ThreadRecord* t);
long to_kernel_pid(long upper);
long to_virtual_pid(long real);  // the id by which the program knows the process
void tell_process(long at);      // the same for the pid that the kernel has just written there
long own_process();              // the program's getpid()
// The same for ids of groups and sessions.
long to_kernel_group(long upper);
long to_virtual_group(long real);
long to_virtual_session(long real);

// Commands of calls that do not always take ids (id_commands.cpp)
bool is_id_command(const SystemCall& call);
long id_command(const SystemCall& call);  // if is_id_command()

// Clocks (clocks.cpp)
bool takes_clock(long nr);
long clock_call(const SystemCall& call);   // if takes_clock()
long sleep_until(const SystemCall& call);  // clock_nanosleep with TIMER_ABSTIME
// Whether the program's clock may differ from the kernel's after a restart: all but the wall clocks.
bool is_own_clock(long clock);

// System V semaphores, message queues and shared memory (system_v.cpp)
long system_v_call(const SystemCall& call);

// Paths (proc_paths.cpp)
bool takes_path(long nr);
long path_call(const SystemCall& call);  // if takes_path()

// Patches libc's frequent placement calls (patch.cpp). `call`, an mmap, has just mapped `text`. Returns the
// result of `call`.
long patch_libc(const SystemCall& call, uint64_t text);

inline bool from_loader(uint64_t ip) {
  return ip >= seam::state()->text_begin && ip < seam::state()->text_end;
}

}  // namespace cropdl::upper

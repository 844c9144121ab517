// What the upper half's core must remember over a restart: thread records, signal dispositions, the address
// space's bookkeeping, descriptors. Lies at kState, is saved in every image; written by the core (any UH
// thread, any FS base, lock-free but for extents.h) and read by the LH while the program is stopped.
// Append-only.
#pragma once

#include "interpose/seam/layout.h"

namespace cropdl::seam {

// The second of the two real-time signals that the C library keeps for itself (SIGSETXID; nptl/descr.h): it
// lets no program block, wait for or handle them, and uses this one only to change ids in many threads.
// Real-time signals are never merged.
inline constexpr int kSuspendSignal = 33;
inline constexpr uint64_t kSuspendMagic = 0x6372'6f70'444c'3633;  // its value when it is ours
inline constexpr int kSigsys = 31;
inline constexpr uint64_t kReservedSignals = 1ull << (kSuspendSignal - 1) | 1ull << (kSigsys - 1);

inline constexpr unsigned kMaxThreads = 4096;
inline constexpr unsigned kMaxExtents = 1024;
inline constexpr unsigned kReuseSlots = 512;

// struct kernel_sigaction of x86-64 (arch/x86/include/uapi/asm/signal.h)
struct SignalAction {
  uint64_t handler;
  uint64_t flags;
  uint64_t restorer;
  uint64_t mask;
};

// Entry points of the core that wrote the state; the LH of another build calls them here.
struct CoreEntries {
  uint64_t sigsys;           // handler of SIGSYS
  uint64_t suspend;          // handler of kSuspendSignal
  uint64_t trampoline;       // handler of every signal that the program handles
  uint64_t trigger;          // handler of SIGUSR1 while the program leaves it alone
  uint64_t restorer;         // sa_restorer
  uint64_t park;             // ControlPage::park
  uint64_t vdso;             // ELF header for AT_SYSINFO_EHDR
  uint64_t objects_changed;  // in the place of ld.so's _dl_debug_state
  uint64_t late_call;        // LateCall::target until the first call
  uint64_t no_call;          // LateCall::target of a function that the shim has not
  uint64_t last_version;     // handler of SIGTERM while the program leaves it alone; 0: nothing stands before
                             // its default. The LH says it, in every run anew
  uint64_t sets_masks;  // handlers of the program begin with everything blocked and the core sets their mask;
                        // 0: the core of an older image
  uint64_t reserved[4];
};

// Flags of struct kernel_sigaction (include/uapi/asm-generic/signal-defs.h,
// arch/x86/include/uapi/asm/signal.h)
inline constexpr uint64_t kSaSiginfo = 4, kSaRestorer = 0x04000000, kSaOnStack = 0x08000000,
                          kSaRestart = 0x10000000, kSaNoDefer = 0x40000000, kSaResetHand = 0x80000000;
// While the program leaves them at their defaults:
inline constexpr int kTriggerSignal = 10;  // SIGUSR1
inline constexpr int kLastSignal = 15;     // SIGTERM

// Whether something of the core's stands before the signal's default.
inline bool has_core_default(int sig, const CoreEntries& core) {
  return sig == kTriggerSignal || (sig == kLastSignal && core.last_version != 0);
}

// What the kernel is told for signal `sig` when the program set `action`: handlers are entered through the
// core, and neither SIGSYS nor the suspend signal is blocked but on the way in. The core's own frames lie on
// the thread's signal stack, with everything blocked, because the next frame there would begin at the same
// place; a handler that the program wants on its alternate stack is moved from there. The core says it when
// the program asks, the LH at a start.
inline SignalAction kernel_action(int sig, SignalAction action, const CoreEntries& core) {
  constexpr uint64_t kOwnFlags = kSaSiginfo | kSaRestorer | kSaOnStack | kSaRestart;
  if (sig == kSigsys) return {core.sigsys, kOwnFlags & ~kSaRestart, core.restorer, ~0ull};
  if (sig == kSuspendSignal) return {core.suspend, kOwnFlags, core.restorer, ~0ull};
  if (sig == kTriggerSignal && action.handler == 0) return {core.trigger, kOwnFlags, core.restorer, ~0ull};
  if (sig == kLastSignal && action.handler == 0 && core.last_version != 0)
    return {core.last_version, kOwnFlags, core.restorer, ~0ull};
  if (action.handler <= 1) return action;  // SIG_DFL, SIG_IGN
  action.handler = core.trampoline;
  if (has_core_default(sig, core)) action.flags &= ~kSaResetHand;  // the core resets it to its own
  if ((action.flags & kSaRestorer) == 0) {
    action.flags |= kSaRestorer;
    action.restorer = core.restorer;
  }
  action.flags |= kSaSiginfo;
  const bool blocks_all = (action.flags & kSaOnStack) != 0 || core.sets_masks != 0;
  action.mask = blocks_all ? ~0ull : action.mask & ~kReservedSignals;
  return action;
}

struct ReuseSlot {
  uint64_t length;
  uint64_t address;
};

// Descriptors that the core knows one by one; a program that gets a higher one is not checkpointed.
inline constexpr unsigned kMaxDescriptors = 1u << 20;  // fs.nr_open as kernels come (fs/file.c)
inline constexpr unsigned kStreamFiles = 1024;         // numbers for which `streams` is kept

// PersistentState::unseen: ways by which descriptors came that the core could not follow.
inline constexpr uint32_t kUnseenTooHigh = 1;        // beyond kMaxDescriptors
inline constexpr uint32_t kUnseenSharedTable = 2;    // a child with CLONE_FILES and memory of its own
inline constexpr uint32_t kUnseenIoUring = 4;        // io_uring opens descriptors by itself
inline constexpr uint32_t kUnseenOwnTable = 8;       // unshare(CLONE_FILES) beside other threads
inline constexpr uint32_t kUnseenNotification = 16;  // fcntl(F_NOTIFY): nobody can ask for it afterwards
inline constexpr uint32_t kUnseenLandlock =
    32;  // landlock_restrict_self: no right is won back, and none can be read
inline constexpr uint32_t kUnseenPorts = 64;  // iopl, ioperm: no kernel tells which ports are open
// prctl(PR_SET_TSC): the kernel tells it the thread alone, and the LH reads clocks by the counter.
inline constexpr uint32_t kUnseenTimeStamps = 128;

// Bits of PersistentState::membarriers: commands of membarrier(2) that register
// (include/uapi/linux/membarrier.h).
inline constexpr uint32_t kMembarrierRegistrations = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8;

struct OutsideExtent {  // memory the UH placed outside the window and above 4 GiB (MAP_FIXED); extents.h
  uint64_t begin, end;
};

struct PersistentState {
  uint32_t reserved0;
  uint32_t forked;  // this is a child of fork(): no LH behind it, exits raw
  CoreEntries core;
  int32_t virtual_pid;  // the pid the program was told at its start
  int32_t kernel_pid;   // this run's
  uint64_t brk_current, brk_mapped;
  uint64_t map_next;               // where the search for address space goes on
  uint64_t text_begin, text_end;   // of ld.so, to recognise its opens
  uint32_t extents;                // entries in `outside`; more than those if one had no place
  uint32_t uses_sysv_shm;          // shmat was used: not checkpointable
  uint32_t uses_raw_syscalls_low;  // a non-PIE program's own text makes system calls that nobody sees
  uint32_t posix_timers;           // live timer_create timers
  SignalAction actions[65];
  ReuseSlot reuse[kReuseSlots];
  OutsideExtent outside[kMaxExtents];
  char exe[4096];                        // what /proc/self/exe must say
  ThreadRecord spawned;                  // GS base of vfork and posix_spawn children
  uint64_t files[kMaxDescriptors / 64];  // descriptors of the UH, one bit each
  ThreadRecord threads[kMaxThreads];
  ProcessIds ids;
  SystemVObjects system_v;
  uint32_t foreign_calls;             // made system calls by `int 0x80`: nobody knows what they did
  uint32_t said;                      // lines to people that were printed, a bit each (core only)
  uint32_t foreign_code;              // has code of its own outside the window, whose calls are not seen
  uint32_t no_lower_half_below_4gib;  // kLowBegin to kLowEnd is the program's, too
  uint8_t
      streams[kStreamFiles];  // 1 + s: this descriptor is the launcher's standard stream s, or a copy of it
  uint32_t unseen;            // kUnseen bits
  uint32_t input_used;        // the standard input was read, or copied: a pipe's bytes may be gone
  ProcessView view;
  int32_t io_contexts;             // of io_setup, alive
  uint64_t map_first;              // the main stack and the room that it grows into lie below; 0: not known
  volatile uint32_t threads_made;  // records ever given to a new thread, counted when it can be seen
  volatile uint32_t threads_high;  // one past the highest record that was ever used
  uint32_t requeue_waits;          // threads inside FUTEX_WAIT_REQUEUE_PI
  uint32_t executable_stacks;      // as the program's file wants them
  uint32_t grows_outside;          // memory outside the window that grows down by itself
  uint64_t low_stack_next;         // where the search for a thread's stack below 4 GiB goes on
  volatile uint32_t extents_held;  // a thread is at `outside`; 0 at every cut
  uint64_t brk_first;              // where the brk area of this program begins
  uint64_t loader_debug;           // ld.so's struct r_debug (<link.h>), if the LH follows what it loads
  uint32_t native_devices;  // has device libraries of another version: the device's others are its own, too
  // By position in ControlPage::stand_ins, kWhereItIs: the file whose place was taken first, an absolute
  // path.
  char found[kMaxStandIns][512];
  uint64_t objects_seen;  // LH: address in the persistent heap of what ld.so has loaded and it has looked at
  // Commands of membarrier that it has registered for (kMembarrierRegistrations): Linux before 6.3 does not
  // tell.
  uint32_t membarriers;
  SharedSegments segments;  // System V shared memory that it has got
  int64_t began;  // the wall clock at its first start, ns since 1970; 0: the core does not take getrandom
  uint32_t rare_calls_followed;  // 1: the core takes iopl, ioperm, fallocate, PR_SET_TSC; 0: an older core
};
static_assert(sizeof(PersistentState) <= kStateSize);

inline PersistentState* state() { return reinterpret_cast<PersistentState*>(kState); }

// Whether a thread of the program but the main one lives. Either half, any thread.
inline bool has_more_threads() {
  const auto* s = state();
  for (uint32_t i = 1; i < s->threads_high; ++i)
    if (s->threads[i].used == kLive && s->threads[i].kind == kOtherThread) return true;
  return false;
}

// The bounds of a thread's signal stack.
inline uint64_t signal_stack(const ThreadRecord* t) {
  return kSignalStacks + static_cast<uint64_t>(t - state()->threads) * kSignalStackSize;
}

inline bool owns_file(const PersistentState* s, int64_t fd) {
  return fd >= 0 && fd < kMaxDescriptors && (s->files[fd / 64] >> (fd % 64) & 1) != 0;
}
// Whether it becomes one, or is none any more; any thread. 0 <= fd < kMaxDescriptors.
inline void set_owned(PersistentState* s, uint64_t fd, bool owned) {
  const uint64_t bit = 1ull << (fd % 64);
  if (owned)
    __atomic_fetch_or(&s->files[fd / 64], bit, __ATOMIC_RELAXED);
  else
    __atomic_fetch_and(&s->files[fd / 64], ~bit, __ATOMIC_RELAXED);
}

}  // namespace cropdl::seam

// State of the core that survives a restart, at kState, in every image. The core writes it (any UH thread,
// any FS base, lock-free except extents.h); the LH reads it while the program is stopped. Append-only.
#pragma once

#include "interpose/seam/layout.h"

namespace cropdl::seam {

// The second real-time signal that the C library reserves (SIGSETXID; nptl/descr.h): no program can block,
// wait for or handle it by the library, which uses it only to change ids. Real-time signals are never merged.
inline constexpr int kSuspendSignal = 33;
inline constexpr uint64_t kSuspendMagic = 0x6372'6f70'444c'3633;  // value of CropDL's suspend signals
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

// Entry points of the core that wrote the state. An LH of another build calls them here.
struct CoreEntries {
  uint64_t sigsys;           // handler of SIGSYS
  uint64_t suspend;          // handler of kSuspendSignal
  uint64_t trampoline;       // handler of every signal that the program handles
  uint64_t trigger;          // handler of SIGUSR1 while the program keeps its default
  uint64_t restorer;         // sa_restorer
  uint64_t park;             // ControlPage::park
  uint64_t vdso;             // ELF header for AT_SYSINFO_EHDR
  uint64_t objects_changed;  // replaces ld.so's _dl_debug_state
  uint64_t late_call;        // LateCall::target until the first call
  uint64_t no_call;          // LateCall::target of a function that the shim does not have
  // Handler of SIGTERM while the program keeps its default; 0: the kernel's. The LH sets it in every run.
  uint64_t last_version;
  // 1: handlers of the program begin with all signals blocked, the core sets the mask; 0: an older core.
  uint64_t sets_masks;
  uint64_t reserved[4];
};

// Flags of struct kernel_sigaction (asm-generic/signal-defs.h, arch/x86/include/uapi/asm/signal.h)
inline constexpr uint64_t kSaSiginfo = 4, kSaRestorer = 0x04000000, kSaOnStack = 0x08000000,
                          kSaRestart = 0x10000000, kSaNoDefer = 0x40000000, kSaResetHand = 0x80000000;
// The core handles these while the program keeps their defaults:
inline constexpr int kTriggerSignal = 10;  // SIGUSR1
inline constexpr int kLastSignal = 15;     // SIGTERM

// Whether the core has a handler in place of the signal's default.
inline bool has_core_default(int sig, const CoreEntries& core) {
  return sig == kTriggerSignal || (sig == kLastSignal && core.last_version != 0);
}

// The kernel's action for signal `sig` when the program set `action`; the core sets it then, the LH at a
// start. Handlers are entered through the core; only there SIGSYS and the suspend signal are blocked. The
// core's own frames lie on the thread's signal stack, with all signals blocked: a second frame would begin at
// the same address. A handler for the program's alternate stack is moved there.
inline SignalAction kernel_action(int sig, SignalAction action, const CoreEntries& core) {
  constexpr uint64_t kOwnFlags = kSaSiginfo | kSaRestorer | kSaOnStack | kSaRestart;
  if (sig == kSigsys) return {core.sigsys, kOwnFlags & ~kSaRestart, core.restorer, ~0ull};
  if (sig == kSuspendSignal) return {core.suspend, kOwnFlags, core.restorer, ~0ull};
  if (sig == kTriggerSignal && action.handler == 0) return {core.trigger, kOwnFlags, core.restorer, ~0ull};
  if (sig == kLastSignal && action.handler == 0 && core.last_version != 0)
    return {core.last_version, kOwnFlags, core.restorer, ~0ull};
  if (action.handler <= 1) return action;  // SIG_DFL, SIG_IGN
  action.handler = core.trampoline;
  if (has_core_default(sig, core)) action.flags &= ~kSaResetHand;  // the core resets it to its own handler
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

// Limit of the descriptors that the core tracks. A program with a higher descriptor is not checkpointed.
inline constexpr unsigned kMaxDescriptors = 1u << 20;  // the kernel's default of fs.nr_open (fs/file.c)
inline constexpr unsigned kStreamFiles = 1024;         // descriptors for which `streams` is kept

// PersistentState::unseen: what the core could not follow.
inline constexpr uint32_t kUnseenTooHigh = 1;        // a descriptor beyond kMaxDescriptors
inline constexpr uint32_t kUnseenSharedTable = 2;    // a child with CLONE_FILES and memory of its own
inline constexpr uint32_t kUnseenIoUring = 4;        // io_uring opens descriptors by itself
inline constexpr uint32_t kUnseenOwnTable = 8;       // unshare(CLONE_FILES) beside other threads
inline constexpr uint32_t kUnseenNotification = 16;  // fcntl(F_NOTIFY): cannot be queried afterwards
// landlock_restrict_self: a restriction can neither be removed nor read.
inline constexpr uint32_t kUnseenLandlock = 32;
inline constexpr uint32_t kUnseenPorts = 64;  // iopl, ioperm: no kernel reports which ports are open
// prctl(PR_SET_TSC): only the thread itself can read it, and the LH reads clocks by the counter.
inline constexpr uint32_t kUnseenTimeStamps = 128;

// Bits of PersistentState::membarriers: the registering commands (include/uapi/linux/membarrier.h)
inline constexpr uint32_t kMembarrierRegistrations = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8;

// Memory that the UH placed outside the window and above 4 GiB (MAP_FIXED); extents.h.
struct OutsideExtent {
  uint64_t begin, end;
};

// What the core takes besides the calls that every core does; the core is part of the image, so the filter
// must not trap for an older one. Level 1: iopl, ioperm, fallocate, PR_SET_TSC. Level 2: flock, locks of
// fcntl; after a restart, commands that take or return ids, such as F_GETLK, and sysinfo.
inline constexpr uint32_t kCoreLevel = 2;

// Files on FUSE on which the program has asked for a lock: their servers keep the locks, and the kernel shows
// none (fs/fuse/file.c, fuse_setlk). When the list is full, a file takes the place of a closed one.
struct FuseLocks {
  static constexpr uint32_t kMax = 64;
  uint32_t entries;  // more than kMax: some are not listed
  uint64_t device[kMax], inode[kMax];
};

struct PersistentState {
  uint32_t reserved0;
  uint32_t forked;  // this is a child of fork(): it has no LH and exits by the raw system call
  CoreEntries core;
  int32_t virtual_pid;  // the pid that the program got at its start
  int32_t kernel_pid;   // the pid in this run
  uint64_t brk_current, brk_mapped;
  uint64_t map_next;              // where the search for free addresses continues
  uint64_t text_begin, text_end;  // of ld.so, to recognise its opens
  uint32_t extents;               // entries in `outside`; more than kMaxExtents if one did not fit
  uint32_t uses_sysv_shm;         // shmat was used: not checkpointable
  // Text of a non-PIE program makes system calls that the filter does not see.
  uint32_t uses_raw_syscalls_low;
  uint32_t posix_timers;  // live timer_create timers
  SignalAction actions[65];
  ReuseSlot reuse[kReuseSlots];
  OutsideExtent outside[kMaxExtents];
  char exe[4096];                        // the program's /proc/self/exe
  ThreadRecord spawned;                  // the record of vfork and posix_spawn children
  uint64_t files[kMaxDescriptors / 64];  // descriptors of the UH, one bit each
  ThreadRecord threads[kMaxThreads];
  ProcessIds ids;
  SystemVObjects system_v;
  uint32_t foreign_calls;             // made system calls by `int 0x80`: their effects are unknown
  uint32_t said;                      // messages that were already printed, one bit each (core only)
  uint32_t foreign_code;              // has code of its own outside the window; its system calls are not seen
  uint32_t no_lower_half_below_4gib;  // kLowBegin to kLowEnd belongs to the program, too
  // 1 + s: this descriptor is the launcher's standard stream s, or a copy of it.
  uint8_t streams[kStreamFiles];
  uint32_t unseen;      // kUnseen bits
  uint32_t input_used;  // the standard input was read or copied: a pipe's bytes may be gone
  ProcessView view;
  int32_t io_contexts;             // live contexts of io_setup
  uint64_t map_first;              // the main stack and the room that it grows into lie below; 0: not known
  volatile uint32_t threads_made;  // records ever given to a new thread; counted before the thread is visible
  volatile uint32_t threads_high;  // one past the highest record ever used
  uint32_t requeue_waits;          // threads inside FUTEX_WAIT_REQUEUE_PI
  uint32_t executable_stacks;      // as the program's file requests
  uint32_t grows_outside;          // memory outside the window with MAP_GROWSDOWN
  uint64_t low_stack_next;         // where the search for a thread's stack below 4 GiB continues
  volatile uint32_t extents_held;  // the lock of `outside`; 0 at every cut
  uint64_t brk_first;              // where this program's brk area begins
  uint64_t loader_debug;           // ld.so's struct r_debug (<link.h>), if the LH follows what it loads
  // Has device libraries of another version: all its device libraries are its own.
  uint32_t native_devices;
  // By position in ControlPage::stand_ins, for kWhereItIs: absolute path of the first file that was replaced.
  char found[kMaxStandIns][512];
  // LH: address in the persistent heap of the list of objects that ld.so has loaded and the LH has examined.
  uint64_t objects_seen;
  // Registered commands of membarrier (kMembarrierRegistrations): Linux before 6.3 does not report them.
  uint32_t membarriers;
  SharedSegments segments;  // System V shared memory that the program obtained
  // Wall clock at the program's first start, ns since 1970; 0: the core does not take getrandom.
  int64_t began;
  uint32_t core_level;        // kCoreLevel of the core in the window; 0: older than level 1
  uint64_t environ_variable;  // MPI's shim: address of the program's `environ`; 0: it has not called MPI_Init
  // The core: 1 if a suspend signal found a thread above a call of the LH: in a handler or callback of the
  // program, or in what such a function jumped to (longjmp). The LH sets 0.
  volatile uint32_t found_above_call;
  FuseLocks fuse_locks;
  // The lock of system_v, segments and fuse_locks; 0 at every cut. The core of an older image has none.
  volatile uint32_t notes_held;
};
static_assert(sizeof(PersistentState) <= kStateSize);

inline PersistentState* state() { return reinterpret_cast<PersistentState*>(kState); }

// Whether a thread of the program besides the main thread is alive. Either half, any thread.
inline bool has_more_threads() {
  const auto* s = state();
  for (uint32_t i = 1; i < s->threads_high; ++i)
    if (s->threads[i].used == kLive && s->threads[i].kind == kOtherThread) return true;
  return false;
}

// Returns the lowest address of a thread's signal stack.
inline uint64_t signal_stack(const ThreadRecord* t) {
  return kSignalStacks + static_cast<uint64_t>(t - state()->threads) * kSignalStackSize;
}

inline bool owns_file(const PersistentState* s, int64_t fd) {
  return fd >= 0 && fd < kMaxDescriptors && (s->files[fd / 64] >> (fd % 64) & 1) != 0;
}
// Marks a descriptor as the UH's, or no longer. Any thread. 0 <= fd < kMaxDescriptors.
inline void set_owned(PersistentState* s, uint64_t fd, bool owned) {
  const uint64_t bit = 1ull << (fd % 64);
  if (owned)
    __atomic_fetch_or(&s->files[fd / 64], bit, __ATOMIC_RELAXED);
  else
    __atomic_fetch_and(&s->files[fd / 64], ~bit, __ATOMIC_RELAXED);
}

}  // namespace cropdl::seam

// What the upper half's core must remember over a restart: thread records, signal dispositions, the address
// space's bookkeeping, descriptors. Lies at kState, is saved in every image; written by the core (any UH
// thread, any FS base, lock-free) and read by the LH while the program is stopped. Append-only.
#pragma once

#include "interpose/seam/layout.h"

namespace cropdl::seam {

inline constexpr int kSuspendSignal =
    63;  // SIGRTMAX-1: nobody's default, and a real-time signal is never merged
inline constexpr uint64_t kSuspendMagic =
    0x6372'6f70'444c'3633;  // its value when it is ours; the program may use it, too
inline constexpr int kSigsys = 31;
inline constexpr uint64_t kReservedSignals = 1ull << (kSuspendSignal - 1) | 1ull << (kSigsys - 1);

inline constexpr unsigned kMaxThreads = 4096;
inline constexpr unsigned kMaxFiles = 65536;
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
  uint64_t sigsys;      // handler of SIGSYS
  uint64_t suspend;     // handler of kSuspendSignal
  uint64_t trampoline;  // handler of every signal that the program handles
  uint64_t trigger;     // handler of SIGUSR1 while the program leaves it alone
  uint64_t restorer;    // sa_restorer
  uint64_t park;        // ControlPage::park
  uint64_t vdso;        // ELF header for AT_SYSINFO_EHDR
  uint64_t reserved[9];
};

// Flags of struct kernel_sigaction (include/uapi/asm-generic/signal-defs.h,
// arch/x86/include/uapi/asm/signal.h)
inline constexpr uint64_t kSaSiginfo = 4, kSaRestorer = 0x04000000, kSaRestart = 0x10000000,
                          kSaNoDefer = 0x40000000, kSaResetHand = 0x80000000;

// What the kernel is told for an action that the program set: handlers are entered through the core's
// trampoline, and neither SIGSYS nor the suspend signal is ever blocked. The core says it when the program
// asks, the LH after a restart.
inline SignalAction kernel_action(SignalAction action, const CoreEntries& core) {
  if (action.handler <= 1) return action;  // SIG_DFL, SIG_IGN
  action.handler = core.trampoline;
  action.flags |= kSaSiginfo;
  action.mask &= ~kReservedSignals;
  if ((action.flags & kSaRestorer) == 0) {
    action.flags |= kSaRestorer;
    action.restorer = core.restorer;
  }
  return action;
}

struct ReuseSlot {
  uint64_t length;
  uint64_t address;
};

inline constexpr unsigned kFirstLowerFile = 900;  // the LH keeps its own descriptors from here on

struct OutsideExtent {  // memory the UH placed outside the window and above 4 GiB (MAP_FIXED)
  uint64_t begin, end;
};

struct PersistentState {
  uint32_t version;
  uint32_t forked;  // this is a child of fork(): no LH behind it, exits raw
  CoreEntries core;
  int32_t upper_pid;  // the pid the program was told at its start
  int32_t real_pid;   // this run's
  uint64_t brk_current, brk_mapped;
  uint64_t map_next;               // where the search for address space goes on
  uint64_t text_begin, text_end;   // of ld.so, to recognise its opens
  uint32_t extents;                // entries in `outside`
  uint32_t uses_sysv_shm;          // shmat was used: not checkpointable
  uint32_t uses_raw_syscalls_low;  // a non-PIE program's own text makes system calls that nobody sees
  uint32_t posix_timers;           // live timer_create timers
  SignalAction actions[65];
  ReuseSlot reuse[kReuseSlots];
  OutsideExtent outside[kMaxExtents];
  char exe[4096];                  // what /proc/self/exe must say
  ThreadRecord spawned;            // GS base of vfork and posix_spawn children
  uint64_t files[kMaxFiles / 64];  // descriptors of the UH, one bit each
  ThreadRecord threads[kMaxThreads];
  ProcessIds ids;
  SystemVObjects system_v;
  uint32_t no_lower_half_below_4gib;  // kLowBegin to kLowEnd is the program's, too
};
static_assert(sizeof(PersistentState) <= kStateSize);

inline PersistentState* state() { return reinterpret_cast<PersistentState*>(kState); }

inline bool owns_file(const PersistentState* s, int fd) {
  return fd >= 0 && fd < static_cast<int>(kMaxFiles) && (s->files[fd / 64] >> (fd % 64) & 1) != 0;
}

}  // namespace cropdl::seam

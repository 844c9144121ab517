// What the halves tell each other of the process besides memory and threads: ids that the program was told,
// and what its clocks were at.
#pragma once

#include <cstdint>

namespace cropdl::seam {

// `upper_*`: what the program was told in its first run; `real_*`: what that is in this one. The process's
// own pair is PersistentState::virtual_pid and kernel_pid. Zero: not known (the first run, and older images).
struct ProcessIds {
  int32_t virtual_parent, kernel_parent;
  int32_t virtual_group, kernel_group;
  int32_t virtual_session, kernel_session;
  int32_t reserved[2];
};

// System V semaphore sets and message queues that the program has named to the kernel: they are the
// machine's, not the process's, and no image has their contents. Written by the core, looked at when a cut is
// wanted.
struct SystemVObjects {
  static constexpr uint32_t kMax = 63;
  uint32_t semaphores, queues;  // entries; more than kMax: they are not all known
  int32_t semaphore[kMax], queue[kMax];
};
struct SharedSegments {
  static constexpr uint32_t kMax = SystemVObjects::kMax;
  uint32_t followed;  // 1: the core notes them; an image may have an older one
  uint32_t entries;   // more than kMax: they are not all known
  int32_t segment[kMax];
};

// No kernel gives ids from here on (PID_MAX_LIMIT, include/linux/threads.h). A process of this run whose id
// is one that the program knows for something of its first run is told with this much added.
inline constexpr int kForeignId = 1 << 22;

// In the control page of a process that continues an image: what is added to the kernel's clocks, so that
// none that only goes forward goes back: zero, if this machine's is ahead anyway. CPU time is that of all
// former runs.
struct ClockOffsets {
  int64_t shifted;                   // 0: the first run, nothing is added
  int64_t monotonic, raw, boottime;  // ns
  int64_t process_cpu, thread_cpu;   // ns; of the process, and of its main thread
  int64_t usage[3][18];              // struct rusage (man 2 getrusage): process, children, main thread
};

// Where the program's arguments, environment and auxiliary vector lie in its stack: what /proc shows of it
// (not the environment).
struct ProcessView {
  uint64_t arguments, environment;  // strings, one after the other
  uint64_t reserved;                //
  uint64_t auxiliary, auxiliary_bytes;
};

}  // namespace cropdl::seam

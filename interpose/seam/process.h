// State of the process besides memory and threads that both halves use: ids and clocks.
#pragma once

#include <cstdint>

namespace cropdl::seam {

// `virtual_*`: the ids that the program got in its first run; `kernel_*`: their values in this run. The
// process's own pair: PersistentState::virtual_pid, kernel_pid. 0: not known (first run, older images).
struct ProcessIds {
  int32_t virtual_parent, kernel_parent;
  int32_t virtual_group, kernel_group;
  int32_t virtual_session, kernel_session;
  int32_t reserved[2];
};

// In the control page of a process that continues an image: the other ranks that share its pid namespace, by
// the pids of their first run and of this one. All are on this node.
struct RankIds {
  static constexpr uint32_t kMax = 4096;  // further ranks are not listed
  struct Pair {
    int32_t virtual_pid, kernel_pid;
  };
  uint32_t entries;
  Pair ranks[kMax];

  // The other id of a rank; 0: no rank has this one.
  int32_t kernel_pid(int32_t virtual_pid) const {
    for (uint32_t i = 0; i < entries; ++i)
      if (ranks[i].virtual_pid == virtual_pid) return ranks[i].kernel_pid;
    return 0;
  }
  int32_t virtual_pid(int32_t kernel_pid) const {
    for (uint32_t i = 0; i < entries; ++i)
      if (ranks[i].kernel_pid == kernel_pid) return ranks[i].virtual_pid;
    return 0;
  }
};

// System V semaphore sets and message queues that the program has used: the machine's, in no image. The core
// writes the list, where the next one takes the place of a removed one; a cut reads it.
struct SystemVObjects {
  static constexpr uint32_t kMax = 63;
  uint32_t semaphores, queues;  // number of entries; more than kMax: some are not listed
  int32_t semaphore[kMax], queue[kMax];
};
struct SharedSegments {
  static constexpr uint32_t kMax = SystemVObjects::kMax;
  uint32_t followed;  // 1: the core lists them; 0: the core of an older image
  uint32_t entries;   // more than kMax: some are not listed
  int32_t segment[kMax];
};

// The kernel gives no ids from here on (PID_MAX_LIMIT, include/linux/threads.h). It is added to the id of a
// process of this run if the program knows that id from its first run.
inline constexpr int kForeignId = 1 << 22;

// In the control page of a process that continues an image: offsets of the kernel's clocks, so that those
// that only go forward do not go back. 0 if this machine's clock is ahead anyway. CPU time is that of all
// former runs.
struct ClockOffsets {
  int64_t shifted;                   // 0: the first run, nothing is added
  int64_t monotonic, raw, boottime;  // ns
  int64_t process_cpu, thread_cpu;   // ns; of the process, and of its main thread
  int64_t usage[3][18];              // struct rusage (man 2 getrusage): process, children, main thread
};

// Where arguments, environment and auxiliary vector lie on the program's stack. /proc does not show the
// program's environment.
struct ProcessView {
  uint64_t arguments, environment;  // strings, one after the other
  uint64_t reserved;
  uint64_t auxiliary, auxiliary_bytes;
};

}  // namespace cropdl::seam

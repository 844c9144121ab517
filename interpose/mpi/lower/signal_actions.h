// Restores the process's kernel signal actions after a call of a library that installs handlers of its own:
// Open MPI's and UCX's print a trace, and would run on the program's FS base. LH, any thread.
#pragma once

#include <sys/syscall.h>

#include <array>

#include "interpose/seam/state.h"
#include "interpose/upper/raw.h"

namespace cropdl::mpi {

class SignalActions {
 public:
  SignalActions() {
    for (int sig = 1; sig <= 64; ++sig)
      upper::raw(SYS_rt_sigaction, sig, 0, reinterpret_cast<long>(&kept_[sig]), sizeof(uint64_t));
  }
  ~SignalActions() {
    for (int sig = 1; sig <= 64; ++sig) {
      seam::SignalAction now{};
      upper::raw(SYS_rt_sigaction, sig, 0, reinterpret_cast<long>(&now), sizeof(uint64_t));
      if (now.handler != kept_[sig].handler)
        upper::raw(SYS_rt_sigaction, sig, reinterpret_cast<long>(&kept_[sig]), 0, sizeof(uint64_t));
    }
  }
  SignalActions(const SignalActions&) = delete;
  SignalActions& operator=(const SignalActions&) = delete;

 private:
  std::array<seam::SignalAction, 65> kept_{};
};

}  // namespace cropdl::mpi

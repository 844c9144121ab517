// Settings for testers, read once from the environment on first use (docs/software-gpu.md lists them all).
// Any thread. A value that cannot be parsed ends the process with one line: a misspelt setting must not go
// unnoticed.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cropdl::settings {

// The kinds of operations that can be slowed down or made to fail.
constexpr std::array<std::string_view, 10> kKinds = {"launch", "copy",    "memset", "malloc", "free",
                                                     "host",   "library", "nccl",   "graph",  "module"};
std::string kinds_for_people();

// CROPDL_SOFTWARE_GPU_FAIL=launch:17[:719] : the 17th operation of that kind fails (with that CUresult, or
// the kind's usual error).
struct Fault {
  std::string kind;
  uint64_t number = 0;  // counted from 1 in this process
  int error = 0;        // 0: the kind's usual error
};

struct Settings {
  int devices = 1;                  // CROPDL_SOFTWARE_GPUS
  size_t memory = size_t{4} << 30;  // CROPDL_SOFTWARE_GPU_MEMORY, bytes per device, with K, M, G
  int major = 9, minor = 0;         // CROPDL_SOFTWARE_GPU_CAPABILITY=9.0
  int multiprocessors = 4;          // CROPDL_SOFTWARE_GPU_MULTIPROCESSORS
  int cores = 0;                 // CROPDL_SOFTWARE_GPU_CORES: host threads that run blocks (0: one per core)
  std::optional<uint64_t> seed;  // CROPDL_SOFTWARE_GPU_SEED: choices are random; unset: in order
  std::vector<std::pair<std::string, double>>
      slow;                   // CROPDL_SOFTWARE_GPU_SLOW=copy:3,launch:10 : at least this many times longer
  std::vector<Fault> faults;  // CROPDL_SOFTWARE_GPU_FAIL, separated by commas
  bool pattern = false;       // CROPDL_SOFTWARE_GPU_FRESH=pattern (default zeros): contents of fresh memory
  bool quiet = false;         // CROPDL_SOFTWARE_GPU_QUIET=1: does not print that this is a software device
};

const Settings& settings();

// How long an idle thread of the device waits for work before it ends; new work then starts another. None
// waits forever: a process ends with its last thread, and the program's own threads may all have ended
// (pthread_exit in main).
constexpr std::chrono::milliseconds kIdle{200};

// Prints on stderr, once per process, that it runs on a software device.
void say_once_that_this_is_software();

// Prints on stderr, once per process and name, that NAME is not built. The caller returns the error.
void say_not_built(std::string_view name, std::string_view speaker = "software GPU");

// The error to inject into this operation; 0: none; -1: the kind's usual error. Counts operations of that
// kind.
int injected(std::string_view kind);

// How many times longer an operation of that kind shall take (1: unchanged).
double slowdown(std::string_view kind);

// A separate stream of random numbers for each user, from the seed and a number that identifies the user.
// Without a seed it is null, and the first choice is always taken.
class Chooser {
 public:
  explicit Chooser(uint64_t who);
  bool random() const { return random_; }
  // A number in [0, count); 0 without a seed.
  uint32_t pick(uint32_t count);

 private:
  bool random_;
  uint64_t state_;
};

}  // namespace cropdl::settings

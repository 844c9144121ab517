// What a person who tests may set, read once from the environment (docs/software-gpu.md lists all of it). Any
// thread; the first use reads. A value that cannot be read ends the process with one line: a tester who
// misspells a switch must not believe that it is on.
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

// The kinds of operations that can be made slow or made to fail.
constexpr std::array<std::string_view, 10> kKinds = {"launch", "copy",    "memset", "malloc", "free",
                                                     "host",   "library", "nccl",   "graph",  "module"};
std::string kinds_for_people();

// CROPDL_SOFTWARE_GPU_FAIL=launch:17[:719] : the 17th operation of that kind fails (with that CUresult, else
// the kind's usual).
struct Fault {
  std::string kind;
  uint64_t number = 0;  // counted from 1 in this process
  int error = 0;        // 0: the usual one for the kind
};

struct Settings {
  int devices = 1;                  // CROPDL_SOFTWARE_GPUS
  size_t memory = size_t{4} << 30;  // CROPDL_SOFTWARE_GPU_MEMORY, bytes per device, with K, M, G
  int major = 9, minor = 0;         // CROPDL_SOFTWARE_GPU_CAPABILITY=9.0
  int multiprocessors = 4;          // CROPDL_SOFTWARE_GPU_MULTIPROCESSORS
  int cores = 0;  // CROPDL_SOFTWARE_GPU_CORES: host threads that run blocks (0: as many as there are)
  std::optional<uint64_t> seed;  // CROPDL_SOFTWARE_GPU_SEED: who is picked is random; unset: in order
  std::vector<std::pair<std::string, double>>
      slow;                   // CROPDL_SOFTWARE_GPU_SLOW=copy:3,launch:10 : at least so many times longer
  std::vector<Fault> faults;  // CROPDL_SOFTWARE_GPU_FAIL, separated by commas
  bool pattern = false;       // CROPDL_SOFTWARE_GPU_FRESH=pattern (zeros): what fresh memory contains
  bool quiet = false;         // CROPDL_SOFTWARE_GPU_QUIET=1: does not say that this is a software device
};

const Settings& settings();

// How long a thread of the device's waits for work before it ends; who has work then makes another. None
// waits for ever: a process ends with the last of its threads, and the program's own may all have ended
// (pthread_exit in main).
constexpr std::chrono::milliseconds kIdle{200};

// The line that each process says once on stderr: that it runs on a software device.
void say_once_that_this_is_software();

// Says once per process and name on stderr that NAME is not built. What the caller returns is its own matter.
void say_not_built(std::string_view name);

// The error to be injected into this operation of that kind: 0: none; -1: the kind's usual one. Counts
// operations.
int injected(std::string_view kind);

// How many times longer an operation of that kind shall take (1: as long as it takes).
double slowdown(std::string_view kind);

// A stream of random numbers of its own for whoever asks, from the seed and a number that says who asks;
// without a seed, null: what is first in order is picked.
class Chooser {
 public:
  explicit Chooser(uint64_t who);
  bool random() const { return random_; }
  // One of [0, count): 0 without a seed.
  uint32_t pick(uint32_t count);

 private:
  bool random_;
  uint64_t state_;
};

}  // namespace cropdl::settings

#include "interpose/launch/launch.h"

#include <unistd.h>

#include <cstdlib>

#include "base/file.h"
#include "base/format.h"
#include "base/procfs.h"
#include "base/words.h"
#include "interpose/launch/launchers.h"

namespace cropdl::launching {
namespace {

constexpr uint32_t kMostRanks = 1 << 20;  // as in a manifest

std::string text_of(const char* variable) {
  const char* text = getenv(variable);
  return text != nullptr ? text : "";
}

// Returns -1 if the text is not a number of ranks.
int64_t number_of(const std::string& text) {
  if (!is_number(text, 9)) return -1;
  const unsigned long value = strtoul(text.c_str(), nullptr, 10);
  return value <= kMostRanks ? static_cast<int64_t>(value) : -1;
}

const char* size_variable(const Launcher& l) {
  for (const char* variable : l.sizes)
    if (variable != nullptr && getenv(variable) != nullptr) return variable;
  return nullptr;
}

bool has_started_this(const Launcher& l) {
  const bool there = getenv(l.rank) != nullptr;
  if (l.only_with == nullptr) return there || size_variable(l) != nullptr;
  return getenv(l.only_with) != nullptr ? there : there && text_of(l.rank) != "0";
}

pid_t parent_of(pid_t pid) {
  return static_cast<pid_t>(strtol(process_stat(std::to_string(pid), 4).c_str(), nullptr, 10));
}

// Pid and start time (clock ticks since boot): together they identify a process even if the pid is reused.
std::string process_identity(pid_t pid) {
  const std::string since = process_stat(std::to_string(pid), 22);
  return std::to_string(pid) + (since.empty() ? "" : "." + since);
}

std::string program_of(pid_t pid) { return link_text(formatted("/proc/{}/exe", pid)); }

// The nearest ancestor whose executable is one of these; 0: none. Scripts may be in between.
template <class... Names>
pid_t nearest_ancestor(const Names&... names) {
  constexpr int kMostAncestors = 16;
  pid_t pid = getppid();
  for (int up = 0; pid > 1 && up < kMostAncestors; ++up, pid = parent_of(pid))
    if (const std::string name = file_name_of(program_of(pid)); (is_one_of(names, name.c_str()) || ...))
      return pid;
  return 0;
}

void find_launcher(const std::string& program, Launch* launch) {
  const pid_t pid = nearest_ancestor(kLauncherExecutables);
  if (pid == 0) return;
  launch->launcher = program_of(pid);
  // If a script is in between, only the number of ranks is known.
  launch->options = launcher_options(process_words(std::to_string(pid)), program)
                        .value_or(std::vector<std::string>{"-n", std::to_string(launch->ranks)});
}

// Slurm (srun --mpi=pmi2) and Flux (its src/shell/pmi/pmi.c) set PMI's variables beside their own, with the
// same values. Then the launcher is not Hydra, the MPI is the program's, and their own name the launch.
bool also_sets_pmi(const Launch& launch) {
  const auto tells_the_same = [&launch](const char* rank, const char* size) {
    return number_of(text_of(rank)) == launch.rank && number_of(text_of(size)) == launch.ranks;
  };
  return getenv("HYDI_CONTROL_FD") == nullptr && (tells_the_same("SLURM_PROCID", "SLURM_STEP_NUM_TASKS") ||
                                                  tells_the_same("FLUX_TASK_RANK", "FLUX_JOB_SIZE"));
}

Status read_place(const Launcher& l, Launch* launch) {
  const auto unclear = [&l](const std::string& what) {
    return Error{
        "started by {}, but {}; start it with a launcher that tells its ranks their place, as mpirun does",
        l.who, what};
  };
  if (getenv(l.rank) == nullptr)
    return unclear(formatted("the number of this rank is unknown ({} is not set)", l.rank));
  const int64_t rank = number_of(text_of(l.rank));
  if (rank < 0)
    return unclear(formatted("the number of this rank is unknown: {}={}", l.rank, text_of(l.rank)));
  const char* size = size_variable(l);
  if (size == nullptr)
    return unclear("the number of ranks is unknown" + (l.sizes[0] == nullptr
                                                           ? std::string(": no variable has it")
                                                           : formatted(" ({} is not set)", l.sizes[0])));
  const int64_t ranks = number_of(text_of(size));
  if (ranks <= rank)
    return unclear(formatted("the number of this rank is unknown: {}={} and {}={}", l.rank, text_of(l.rank),
                             size, text_of(size)));
  launch->rank = static_cast<uint32_t>(rank);
  launch->ranks = static_cast<uint32_t>(ranks);
  launch->launched = true;
  launch->flavour = l.flavour;
  launch->run = l.rank;  // each launcher has its own variable
  for (const char* part : l.run)
    if (part != nullptr) launch->run += "-" + text_of(part);
  if (l.run[0] == nullptr || getenv(l.run[0]) == nullptr) {
    const pid_t proxy = nearest_ancestor(kProxyExecutables);
    launch->run += "-" + process_identity(proxy != 0 ? proxy : getppid());  // an ancestor of all ranks
  }
  return {};
}

}  // namespace

std::optional<std::vector<std::string>> launcher_options(const std::vector<std::string>& words,
                                                         const std::string& program) {
  // A word with blanks is a script: `bash -c "cd work && exec cropdl-run ./train"`.
  const auto name = [&words](size_t i) {
    return i >= words.size() || words[i].find_first_of(" \t\n") != std::string::npos ? std::string()
                                                                                     : file_name_of(words[i]);
  };
  const auto is_ours = [&name](size_t i) {
    return name(i) == "cropdl-run" || name(i) == "cropdl-restart" ||
           (name(i) == "cropdl" && (name(i + 1) == "run" || name(i + 1) == "restart"));
  };
  // CropDL's own commands first: an option's value may end like the program (--output-filename out/train).
  for (const bool ours : {true, false})
    for (size_t i = 1; i < words.size(); ++i)
      if (ours ? is_ours(i) : name(i) == file_name_of(program))
        return std::vector<std::string>(words.begin() + 1, words.begin() + static_cast<long>(i));
  return std::nullopt;
}

pid_t launchers_process() { return nearest_ancestor(kLauncherExecutables, kProxyExecutables); }

Result<Launch> read_launch(const std::string& program) {
  Launch launch;
  launch.run = "single-" + process_identity(getpid());
  for (const Launcher& l : kLaunchers) {
    if (!has_started_this(l)) continue;
    if (Status told = read_place(l, &launch); !told) return told.error();
    if (launch.flavour != "mpich" || !also_sets_pmi(launch)) break;
    launch.flavour = "none";
  }
  find_launcher(program, &launch);
  return launch;
}

}  // namespace cropdl::launching

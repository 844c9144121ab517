#include "interpose/launch/launch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/file.h"
#include "base/format.h"
#include "base/launch_variables.h"
#include "base/procfs.h"

namespace cropdl::launching {
namespace {

// The environment variables by which a launcher passes rank and number of ranks. Ranks also inherit the
// variables of an outer launcher (mpirun within srun), so inner launchers come first.
struct Launcher {
  const char* who;
  const char* flavour;  // as Launch::flavour
  const char* rank;
  std::vector<const char*> sizes;   // the first one set counts; empty: no variable has the number of ranks
  std::vector<const char*> run;     // together they identify the launch; empty: the proxy's process does
  const char* only_with = nullptr;  // without this variable a rank of 0 is meaningless
};

const Launcher kLaunchers[] = {
    // man 1 mpirun, "Exported Environment Variables"; PRRTE sets the same for Open MPI 5.
    {"Open MPI's mpirun", "openmpi", CROPDL_RANK_OPEN_MPI, {"OMPI_COMM_WORLD_SIZE"}, {"PMIX_NAMESPACE"}},
    // MVAPICH2 user guide, "MPIRUN_RSH Parameters"; MVAPICH 3 has dropped the 2.
    {"MVAPICH2's mpirun_rsh", "mpich", CROPDL_RANK_MVAPICH2, {"MV2_COMM_WORLD_SIZE"}, {}},
    {"MVAPICH's mpirun_rsh", "mpich", CROPDL_RANK_MVAPICH, {"MVP_COMM_WORLD_SIZE"}, {}},
    // MPICH src/pm/hydra; the proxy is the parent. Intel MPI's and MVAPICH's mpiexec are Hydra, too.
    {"Hydra (mpiexec of MPICH, Intel MPI or MVAPICH)", "mpich", CROPDL_RANK_HYDRA, {"PMI_SIZE"}, {}},
    // man 1 srun, "OUTPUT ENVIRONMENT VARIABLES". SLURM_NTASKS may be the allocation's, hence second. A batch
    // script has SLURM_PROCID=0 and SLURM_NTASKS, but is one process and not a step.
    {"Slurm's srun",
     "none",
     CROPDL_RANK_SLURM,
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
     CROPDL_STEP_SLURM},
    {"Flux", "none", CROPDL_RANK_FLUX, {"FLUX_JOB_SIZE"}, {"FLUX_JOB_ID"}},  // man 7 flux-environment
    // These give the number of ranks through a library, not through a variable.
    {"Cray's aprun", "none", CROPDL_RANK_ALPS, {}, {}},
    {"Cray's PALS", "none", CROPDL_RANK_PALS, {}, {}},
    {"a PMIx server", "none", CROPDL_RANK_PMIX, {}, {}},
};

constexpr uint32_t kMostRanks = 1 << 20;  // as in a manifest

std::string text_of(const char* variable) {
  const char* text = getenv(variable);
  return text != nullptr ? text : "";
}

// Returns -1 if the text is not a number of ranks.
int64_t number_of(const std::string& text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos) return -1;
  const unsigned long value = strtoul(text.c_str(), nullptr, 10);
  return value <= kMostRanks ? static_cast<int64_t>(value) : -1;
}

const char* size_variable(const Launcher& l) {
  for (const char* variable : l.sizes)
    if (getenv(variable) != nullptr) return variable;
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

// Pid and start time (since boot, in clock ticks), which together identify a process even if the pid is
// reused.
std::string process_identity(pid_t pid) {
  const std::string since = process_stat(std::to_string(pid), 22);
  return std::to_string(pid) + (since.empty() ? "" : "." + since);
}

bool is_launcher(const std::string& exe) {
  for (const char* name : {"mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra", "mpirun_rsh", "srun"})
    if (file_name_of(exe) == name) return true;
  return false;
}

// Whether `exe` is a launcher's proxy, which starts the ranks of a node.
bool is_proxy(const std::string& exe) {
  for (const char* name : {"hydra_pmi_proxy", "hydra_bstrap_proxy", "mpispawn"})
    if (file_name_of(exe) == name) return true;
  return false;
}

std::string program_of(pid_t pid) { return link_text(formatted("/proc/{}/exe", pid)); }

// The nearest ancestor whose executable satisfies `is_it`; 0: none. Scripts may be in between.
pid_t nearest_ancestor(bool (*is_it)(const std::string& exe)) {
  constexpr int kMostAncestors = 16;
  pid_t pid = getppid();
  for (int up = 0; pid > 1 && up < kMostAncestors; ++up, pid = parent_of(pid))
    if (is_it(program_of(pid))) return pid;
  return 0;
}

// The common ancestor of all ranks of the launch.
pid_t common_ancestor() {
  const pid_t proxy = nearest_ancestor(is_proxy);
  return proxy != 0 ? proxy : getppid();
}

void find_launcher(const std::string& program, Launch* launch) {
  const pid_t pid = nearest_ancestor(is_launcher);
  if (pid == 0) return;
  launch->launcher = program_of(pid);
  const std::vector<std::string> words = process_words(std::to_string(pid));
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string name = file_name_of(words[i]);
    if (name != "cropdl-run" && name != "cropdl-restart" && name != file_name_of(program)) continue;
    launch->options.assign(words.begin() + 1, words.begin() + static_cast<long>(i));
    return;
  }
  // A script is in between: only the number of ranks is known.
  launch->options = {"-n", std::to_string(launch->ranks)};
}

// srun --mpi=pmi2 sets PMI's variables as well, with the same values; then the MPI is the program's.
bool slurm_tells_the_same(const Launch& launch) {
  return number_of(text_of("SLURM_PROCID")) == launch.rank &&
         number_of(text_of("SLURM_STEP_NUM_TASKS")) == launch.ranks && getenv("HYDI_CONTROL_FD") == nullptr;
}

Status read_place(const Launcher& l, Launch* launch) {
  const auto unclear = [&l](const std::string& what) {
    return Error{formatted(
        "started by {}, {}; start it with a launcher that tells its ranks their place, as mpirun does", l.who,
        what)};
  };
  if (getenv(l.rank) == nullptr)
    return unclear(std::string("which rank this is is not told (") + l.rank + ")");
  const int64_t rank = number_of(text_of(l.rank));
  if (rank < 0) return unclear(formatted("which rank this is is not told: {}={}", l.rank, text_of(l.rank)));
  const char* size = size_variable(l);
  if (size == nullptr)
    return unclear("how many ranks there are is not told" +
                   (l.sizes.empty() ? std::string(" by any variable") : formatted(" ({})", l.sizes.front())));
  const int64_t ranks = number_of(text_of(size));
  if (ranks <= rank)
    return unclear(formatted("which rank this is is not told: {}={} and {}={}", l.rank, text_of(l.rank), size,
                             text_of(size)));
  launch->rank = static_cast<uint32_t>(rank);
  launch->ranks = static_cast<uint32_t>(ranks);
  launch->launched = true;
  launch->flavour = l.flavour;
  if (launch->flavour == "mpich" && slurm_tells_the_same(*launch)) launch->flavour = "none";
  launch->run = l.rank;  // each launcher has its own variable
  for (const char* part : l.run) launch->run += "-" + text_of(part);
  if (l.run.empty() || getenv(l.run.front()) == nullptr)
    launch->run += "-" + process_identity(common_ancestor());
  return {};
}

}  // namespace

pid_t launchers_process() {
  return nearest_ancestor([](const std::string& exe) { return is_launcher(exe) || is_proxy(exe); });
}

Result<Launch> read_launch(const std::string& program) {
  Launch launch;
  launch.run = "single-" + process_identity(getpid());
  for (const Launcher& l : kLaunchers) {
    if (!has_started_this(l)) continue;
    if (Status told = read_place(l, &launch); !told) return told.error();
    break;
  }
  find_launcher(program, &launch);
  return launch;
}

}  // namespace cropdl::launching

// The launchers that CropDL knows: the environment variables by which each tells a process its rank and the
// number of ranks, and the names of executables. For launch.cpp, and for the preloaded entrance
// (preload.cpp), which uses libc only: hence plain arrays. Any thread.
#pragma once

#include <string.h>

namespace cropdl::launching {

// Ranks also inherit the variables of an outer launcher (mpirun within srun), so inner launchers come first.
struct Launcher {
  const char* who;
  const char* flavour;        // as Launch::flavour
  const char* rank;           // variable
  const char* sizes[4] = {};  // the first one set counts; empty: no variable has the number of ranks
  const char* run[4] = {};    // together they identify the launch; empty: the proxy's process does
  // Without this variable a rank of 0 means nothing; null: a rank always means something.
  const char* only_with = nullptr;
};

constexpr Launcher kLaunchers[] = {
    // man 1 mpirun, "Exported Environment Variables"; PRRTE sets the same for Open MPI 5.
    {"Open MPI's mpirun", "openmpi", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"}, {"PMIX_NAMESPACE"}},
    // MVAPICH2 user guide, "MPIRUN_RSH Parameters"; MVAPICH 3 has dropped the 2.
    {"MVAPICH2's mpirun_rsh", "mpich", "MV2_COMM_WORLD_RANK", {"MV2_COMM_WORLD_SIZE"}},
    {"MVAPICH's mpirun_rsh", "mpich", "MVP_COMM_WORLD_RANK", {"MVP_COMM_WORLD_SIZE"}},
    // MPICH src/pm/hydra; the proxy is the parent. Intel MPI's and MVAPICH's mpiexec are Hydra, too.
    {"Hydra (mpiexec of MPICH, Intel MPI or MVAPICH)", "mpich", "PMI_RANK", {"PMI_SIZE"}},
    // man 1 srun, "OUTPUT ENVIRONMENT VARIABLES". SLURM_NTASKS may be the allocation's, hence second. A batch
    // script has SLURM_PROCID=0 and SLURM_NTASKS, but is one process and not a step.
    {"Slurm's srun",
     "none",
     "SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
     "SLURM_STEP_ID"},
    // man 7 flux-environment
    {"Flux", "none", "FLUX_TASK_RANK", {"FLUX_JOB_SIZE"}, {"FLUX_JOB_ID"}},
    // These give the number of ranks through a library, not through a variable.
    {"Cray's aprun", "none", "ALPS_APP_PE"},
    {"Cray's PALS", "none", "PALS_RANKID"},
    {"a PMIx server", "none", "PMIX_RANK"},
};

// Executables that users start, whose arguments before the program a version records.
constexpr const char* kLauncherExecutables[] = {"mpirun",        "mpiexec",    "orterun", "prterun",
                                                "mpiexec.hydra", "mpirun_rsh", "srun"};

// Executables between a launcher and the ranks of a node.
constexpr const char* kProxyExecutables[] = {"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy",
                                             "mpispawn"};

template <size_t N>
bool is_one_of(const char* const (&names)[N], const char* name) {
  for (const char* one : names)
    if (strcmp(name, one) == 0) return true;
  return false;
}

}  // namespace cropdl::launching

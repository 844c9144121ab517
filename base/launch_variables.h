/* The environment variables by which launchers tell a process its rank: those of launchers that also tell the
   number of ranks, and the others. interpose/launch/launch.cpp has the sources and the other variables. Names
   only, since the preloaded entrance needs no more. */
#pragma once

#define CROPDL_RANK_OPEN_MPI "OMPI_COMM_WORLD_RANK"
#define CROPDL_RANK_MVAPICH2 "MV2_COMM_WORLD_RANK"
#define CROPDL_RANK_MVAPICH "MVP_COMM_WORLD_RANK"
#define CROPDL_RANK_HYDRA "PMI_RANK"
#define CROPDL_RANK_SLURM "SLURM_PROCID"
#define CROPDL_STEP_SLURM "SLURM_STEP_ID" /* a batch script has SLURM_PROCID too */
#define CROPDL_RANK_FLUX "FLUX_TASK_RANK"
#define CROPDL_RANK_ALPS "ALPS_APP_PE"
#define CROPDL_RANK_PALS "PALS_RANKID"
#define CROPDL_RANK_PMIX "PMIX_RANK"

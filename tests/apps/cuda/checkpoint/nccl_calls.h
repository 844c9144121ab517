// Checks NCCL calls, and makes communicators with an id that MPI distributes.
#pragma once

#include <mpi.h>
#include <nccl.h>

#include "saved.h"

#define NCCL(what)                                                                       \
  do {                                                                                   \
    ncclResult_t nccl_result = (what);                                                   \
    if (nccl_result != ncclSuccess)                                                      \
      steplog_fail("line %d: %s: %s", __LINE__, #what, ncclGetErrorString(nccl_result)); \
  } while (0)

inline ncclComm_t communicator(MPI_Comm over) {
  int rank, ranks;
  MPI_Comm_rank(over, &rank);
  MPI_Comm_size(over, &ranks);
  ncclUniqueId id;
  if (rank == 0) NCCL(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, over);
  ncclComm_t comm;
  NCCL(ncclCommInitRank(&comm, ranks, id, rank));
  return comm;
}

// One device per rank, by its rank within the machine, as programs do it.
inline void choose_device() {
  MPI_Comm local;
  int rank, devices;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
  MPI_Comm_rank(local, &rank);
  MPI_Comm_free(&local);
  CALL(cudaGetDeviceCount(&devices));
  CALL(cudaSetDevice(rank % devices));
}

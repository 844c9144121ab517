/* Functions that libnccl exports and that nccl.h does not declare: the host side of the device API. Its
   header nccl_device/core.h is C++; the types here are only as complete as needed. Read by castxml, as C. */
#pragma once

#include <nccl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int nRanks, rank, stride;
} cropdlNcclTeam;

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* outDevComm);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void* devComm);
cropdlNcclTeam ncclTeamWorld(ncclComm_t comm);
cropdlNcclTeam ncclTeamLsa(ncclComm_t comm);
cropdlNcclTeam ncclTeamRail(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, cropdlNcclTeam team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, cropdlNcclTeam team, int rank);
ncclResult_t ncclLsaBarrierCreateRequirement(cropdlNcclTeam team, int nBarriers, void* outHandle,
                                             void* outReq);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, cropdlNcclTeam team, int nBarriers,
                                             void* outHandle, void* outReq);
int ncclLLA2ACalcSlots(int maxElts, int maxEltSize);
ncclResult_t ncclLLA2ACreateRequirement(int nBlocks, int nSlots, void* outHandle, void* outReq);
void ncclResetDebugInitInternal(void);

#ifdef __cplusplus
}
#endif

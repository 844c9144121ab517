// nvcc: -std=c++17 -lnccl
// run: ways=static
// Brings NCCL into a state that prevents checkpoints: held_communicators WHAT, with WHAT one of revoked,
// device_communicator, failed (two members that do not agree on their number), shared_id (two communicators
// with one id), reset (of the device under a communicator), ids (more than any communicator uses). Destroys
// its communicators after half of its steps.
#include <nccl.h>

#include <string>

#include "../../refused.h"
#include "saved.h"

#define NCCL(what) EXPECT((what) == ncclSuccess)

// libnccl exports it; nccl.h does not declare it.
extern "C" ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* made);

static ncclComm_t comms[2];

static ncclUniqueId new_id() {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  return id;
}

static void fail_to_make(const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  for (int i = 0; i < 2; i++) {
    const ncclResult_t begun = ncclCommInitRankConfig(&comms[i], 2 + i, id, i, &config);
    EXPECT(begun == ncclSuccess || begun == ncclInProgress);
  }
  for (ncclComm_t comm : comms) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) NCCL(ncclCommGetAsyncError(comm, &state));
    EXPECT(state != ncclSuccess);
  }
}

static void take(const char* name) {
  const std::string what = name;
  CALL(cudaSetDevice(0));
  const ncclUniqueId id = new_id();
  if (what == "failed") return fail_to_make(id);
  NCCL(ncclCommInitRank(&comms[0], 1, id, 0));
  if (what == "revoked") NCCL(ncclCommRevoke(comms[0], NCCL_REVOKE_DEFAULT));
  if (what == "device_communicator") ncclDevCommCreate(comms[0], nullptr, nullptr);  // fails where unknown
  if (what == "shared_id") NCCL(ncclCommInitRank(&comms[1], 1, id, 0));
  if (what == "reset") CALL(cudaDeviceReset());
  if (what == "ids")
    for (int i = 0; i <= 2000; i++) new_id();
}

static void let_go(const char* name) {
  const std::string what = name;
  if (what == "reset") return;  // its device is gone
  for (ncclComm_t comm : comms)
    if (comm) NCCL(what == "failed" ? ncclCommAbort(comm) : ncclCommDestroy(comm));
}

int main(int argc, char** argv) { return refused_main(argc, argv, take, let_go); }

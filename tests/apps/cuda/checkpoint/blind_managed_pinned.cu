// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: ranks=2,4 ways=static
// Collectives on managed memory, pinned host memory, the program's registered memory, and NCCL's own memory
// (which is at times registered with the communicator). Every step reads back the advice for managed memory;
// the host writes in between.
#include <sys/mman.h>

#include "nccl_calls.h"

constexpr int kValues = 700, kBytes = kValues * 4, kKinds = 6;
using Values = std::vector<uint32_t>;
enum Kind { kManaged, kAdvised, kMapped, kPortable, kRegistered, kNcclOwn };

__host__ __device__ uint32_t changed(uint32_t v, uint32_t by) {
  v = (v + by) * 2246822519u;
  return v ^ v >> 14;
}
__global__ void change(uint32_t* v, uint32_t by) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) v[i] = changed(v[i], by);
}

template <class T>
static T told(cudaMemRangeAttribute which, const void* of) {
  T value;
  memset(&value, 0x55, sizeof value);
  CALL(cudaMemRangeGetAttribute(&value, sizeof value, which, of, kBytes));
  return value;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, device;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  CALL(cudaGetDevice(&device));
  ncclComm_t comm = communicator(MPI_COMM_WORLD), other = communicator(MPI_COMM_WORLD);
  cudaStream_t s;
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  {
    DeviceNonce nonce;
    uint32_t* at[kKinds];
    CALL(cudaMallocManaged(&at[kManaged], 1 << 16));
    CALL(cudaMallocManaged(&at[kAdvised], 1 << 16));
    CALL(cudaHostAlloc(&at[kMapped], kBytes, cudaHostAllocMapped | cudaHostAllocWriteCombined));
    CALL(cudaHostAlloc(&at[kPortable], kBytes, cudaHostAllocPortable));
    void* block = mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(block != MAP_FAILED);
    at[kRegistered] = static_cast<uint32_t*>(block) + 1024;
    CALL(cudaHostRegister(at[kRegistered], kBytes, cudaHostRegisterMapped));
    NCCL(ncclMemAlloc(reinterpret_cast<void**>(&at[kNcclOwn]), kBytes));
    // all[r][k]: the expected values of rank r in memory of kind k.
    std::vector<std::vector<Values>> all(ranks, std::vector<Values>(kKinds, Values(kValues)));
    for (int r = 0; r < ranks; r++)
      for (int k = 0; k < kKinds; k++)
        for (int i = 0; i < kValues; i++) all[r][k][i] = static_cast<uint32_t>(r * 70000 + k * 5000 + i);
    for (int k = 0; k < kKinds; k++) CALL(cudaMemcpy(at[k], all[rank][k].data(), kBytes, cudaMemcpyDefault));
    CALL(cudaDeviceSynchronize());
    const cudaMemLocation on_device = {cudaMemLocationTypeDevice, device},
                          on_host = {cudaMemLocationTypeHost, 0};
    CALL(cudaMemAdvise(at[kManaged], kBytes, cudaMemAdviseSetReadMostly, on_device));
    CALL(cudaMemAdvise(at[kAdvised], kBytes, cudaMemAdviseSetPreferredLocation, on_host));
    CALL(cudaMemAdvise(at[kAdvised], kBytes, cudaMemAdviseSetAccessedBy, on_device));
    bool read_mostly = true, preferred_host = true, accessed = true, unregistered = false;
    void *handle = nullptr, *of_sum = nullptr;
    Buffer<uint32_t> sum(kValues);
    NCCL(ncclCommRegister(other, sum, kBytes, &of_sum));
    while (steplog_done < steplog_steps) {
      const uint32_t step = static_cast<uint32_t>(steplog_done);
      EXPECT(told<int>(cudaMemRangeAttributeReadMostly, at[kManaged]) == read_mostly);
      EXPECT(told<int>(cudaMemRangeAttributeReadMostly, at[kAdvised]) == 0);
      EXPECT(told<int>(cudaMemRangeAttributePreferredLocation, at[kAdvised]) ==
             (preferred_host ? cudaCpuDeviceId : device));
      EXPECT(told<int>(cudaMemRangeAttributePreferredLocation, at[kManaged]) == cudaInvalidDeviceId);
      EXPECT(told<int>(cudaMemRangeAttributeAccessedBy, at[kAdvised]) ==
             (accessed ? device : cudaInvalidDeviceId));
      if (step % 4 == 1) {
        read_mostly = !read_mostly;
        CALL(cudaMemAdvise(at[kManaged], kBytes,
                           read_mostly ? cudaMemAdviseSetReadMostly : cudaMemAdviseUnsetReadMostly,
                           on_device));
      }
      if (step % 5 == 2) {
        preferred_host = !preferred_host;
        CALL(cudaMemAdvise(at[kAdvised], kBytes, cudaMemAdviseSetPreferredLocation,
                           preferred_host ? on_host : on_device));
      }
      if (step % 7 == 3) {
        accessed = !accessed;
        CALL(cudaMemAdvise(at[kAdvised], kBytes,
                           accessed ? cudaMemAdviseSetAccessedBy : cudaMemAdviseUnsetAccessedBy, on_device));
      }
      if (step % 6 == 2) NCCL(ncclCommRegister(comm, at[kNcclOwn], kBytes, &handle));
      if (step % 6 == 5) {
        CALL(cudaStreamSynchronize(s));
        NCCL(ncclCommDeregister(comm, handle));
        handle = nullptr;
      }
      if (step % 8 == 3) {
        CALL(cudaStreamSynchronize(s));
        CALL(cudaHostUnregister(at[kRegistered]));
        unregistered = true;
      }
      if (step % 8 == 5 && unregistered) {
        CALL(cudaHostRegister(at[kRegistered], kBytes, cudaHostRegisterPortable));
        unregistered = false;
      }
      for (int k = 0; k < kKinds; k++) {
        if (k == kRegistered && unregistered) continue;
        const int from = (k + 1) % kKinds == kRegistered && unregistered ? k : (k + 1) % kKinds;
        const int root = static_cast<int>((step + k) % ranks);
        change<<<1, 64, 0, s>>>(at[k], step + k);
        for (auto& of : all)
          for (auto& v : of[k]) v = changed(v, step + k);
        // From one kind of memory to the next, or in place.
        if ((step + k) % 3 == 0) {
          NCCL(ncclAllReduce(at[from], at[k], kValues, ncclUint32, ncclSum, comm, s));
          Values total(kValues, 0);
          for (auto& of : all)
            for (int i = 0; i < kValues; i++) total[i] += of[from][i];
          for (auto& of : all) of[k] = total;
        } else if ((step + k) % 3 == 1) {
          NCCL(ncclBroadcast(at[from], at[k], kValues, ncclUint32, root, other, s));
          const Values sent = all[root][from];
          for (auto& of : all) of[k] = sent;
        } else {
          NCCL(ncclAllReduce(at[k], sum, kValues, ncclUint32, ncclMax, other, s));
          NCCL(ncclGroupStart());
          NCCL(ncclSend(at[from], kValues / 2, ncclUint32, (rank + 1) % ranks, comm, s));
          NCCL(ncclRecv(at[k] + kValues / 2, kValues / 2, ncclUint32, (rank + ranks - 1) % ranks, comm, s));
          NCCL(ncclGroupEnd());
          const auto before = all;
          for (int r = 0; r < ranks; r++)
            for (int i = 0; i < kValues / 2; i++)
              all[r][k][kValues / 2 + i] = before[(r + ranks - 1) % ranks][from][i];
        }
        // Makes the ranks' values different: equal ones would stay equal.
        change<<<1, 64, 0, s>>>(at[k], static_cast<uint32_t>(rank));
        for (int r = 0; r < ranks; r++)
          for (auto& v : all[r][k]) v = changed(v, static_cast<uint32_t>(r));
      }
      LAUNCHED();
      if (step % 5 != 3) {  // at other steps the host runs ahead, and managed memory belongs to the device
        CALL(cudaStreamSynchronize(s));
        for (int k = 0; k < kKinds; k++) {
          Values got(kValues);
          if (k == kNcclOwn)
            CALL(cudaMemcpy(got.data(), at[k], kBytes, cudaMemcpyDeviceToHost));
          else
            memcpy(got.data(), at[k], kBytes);
          if (got != all[rank][k]) steplog_fail("memory of kind %d differs", k);
          mix(got);
          if (k == kNcclOwn) continue;
          at[k][step % kValues] ^= 0x10001;  // written by the host
          for (auto& of : all) of[k][step % kValues] ^= 0x10001;
        }
      }
      steplog_step();
    }
    CALL(cudaDeviceSynchronize());
    for (int k = 0; k < kKinds; k++) {
      Values got(kValues);
      CALL(cudaMemcpy(got.data(), at[k], kBytes, cudaMemcpyDefault));
      EXPECT(got == all[rank][k]);
    }
    if (handle) NCCL(ncclCommDeregister(comm, handle));
    NCCL(ncclCommDeregister(other, of_sum));
    NCCL(ncclMemFree(at[kNcclOwn]));
    nonce.back();
  }
  NCCL(ncclCommDestroy(comm));
  NCCL(ncclCommDestroy(other));
  steplog_ok();
  MPI_Finalize();
  return 0;
}

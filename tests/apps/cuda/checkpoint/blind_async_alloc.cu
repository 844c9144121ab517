// nvcc: -std=c++17 -lnccl -Xcompiler -pthread -Xcompiler -Wno-cast-function-type
// run: ranks=2,4 ways=static
// Stream-ordered memory right after running collectives: allocated, sent, freed and allocated again from the
// pool, at any address; event chains over three streams; host functions between collectives, which write the
// next one's input; counters in __device__ and __managed__ variables.
#include <atomic>

#include "nccl_calls.h"

constexpr int kValues = 500, kSlots = 5;
using Values = std::vector<uint32_t>;

__device__ unsigned long long launches;
__device__ uint32_t last_of[kValues];
__managed__ uint32_t stamps[64];
__constant__ uint32_t factor;

__host__ __device__ uint32_t changed(uint32_t v, uint32_t by) {
  v = (v ^ by) * 2654435761u;
  return v ^ v >> 15;
}
__global__ void fill(uint32_t* v, const uint32_t* from, uint32_t by) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) v[i] = changed(from[i], by) * factor;
  if (threadIdx.x == 0) atomicAdd(&launches, 1ull);
}
__global__ void fold(uint32_t* into, const uint32_t* sum, const uint32_t* host_made, uint32_t slot) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x)
    last_of[i] = into[i] = (into[i] ^ sum[i]) + host_made[i % 64];
  if (threadIdx.x == 0) atomicAdd(&launches, 1ull), stamps[slot]++;
}

struct Said {  // the host function's argument and result
  const uint32_t* reads;
  uint32_t* writes;
  uint32_t calls;
};
static std::atomic<uint64_t> host_calls;
static void CUDART_CB host(void* what) {
  Said* said = static_cast<Said*>(what);
  said->calls++;
  for (uint32_t i = 0; i < 64; i++) said->writes[i] = said->reads[i] * 3 + said->calls;
  host_calls++;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, device;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  CALL(cudaGetDevice(&device));
  ncclComm_t comm = communicator(MPI_COMM_WORLD);
  cudaStream_t s[3];
  cudaEvent_t chain[3];
  for (auto& one : s) CALL(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  for (auto& one : chain) CALL(cudaEventCreateWithFlags(&one, cudaEventDisableTiming));
  cudaMemPool_t pool;
  uint64_t threshold = UINT64_MAX;
  CALL(cudaDeviceGetDefaultMemPool(&pool, device));
  CALL(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  {
    DeviceNonce nonce;
    std::vector<Values> all(ranks, Values(kValues));
    for (int r = 0; r < ranks; r++)
      for (int i = 0; i < kValues; i++) all[r][i] = static_cast<uint32_t>(r * 6000 + i);
    Buffer<uint32_t> v(all[rank]);
    const uint32_t three = 3;
    CALL(cudaMemcpyToSymbol(factor, &three, sizeof three));
    uint32_t *pinned, *slots[kSlots] = {};
    CALL(cudaMallocHost(&pinned, 1024));
    memset(pinned, 0, 1024);
    Said said = {pinned, pinned + 128, 0};
    Values slot_model[kSlots];
    uint32_t said_model = 0, sent_model[64] = {}, stamp_model[64] = {};
    uint64_t launched = 0;
    CALL(cudaDeviceSynchronize());
    while (steplog_done < steplog_steps) {
      const uint32_t step = static_cast<uint32_t>(steplog_done);
      for (uint32_t k = 0; k < 3; k++) {
        const uint32_t by = step * 3 + k, slot = by % kSlots;
        // A block that lives for some rounds, from the first stream to the last.
        if (slots[slot]) CALL(cudaFreeAsync(slots[slot], s[0]));
        uint32_t *passing, *sum;
        CALL(cudaMallocAsync(&slots[slot], kValues * 4, s[0]));
        CALL(cudaMallocAsync(&passing, kValues * 4 + by % 7 * 1000, s[0]));
        fill<<<1, 64, 0, s[0]>>>(slots[slot], v, by);
        CALL(cudaMemcpyAsync(passing, slots[slot], kValues * 4, cudaMemcpyDeviceToDevice, s[0]));
        CALL(cudaEventRecord(chain[0], s[0]));
        CALL(cudaStreamWaitEvent(s[1], chain[0], 0));
        CALL(cudaMallocAsync(&sum, kValues * 4, s[1]));
        NCCL(ncclAllReduce(passing, sum, kValues, ncclUint32, ncclSum, comm, s[1]));
        CALL(cudaFreeAsync(passing, s[1]));  // freed behind the collective, while it runs
        CALL(cudaMemcpyAsync(pinned, sum, 256, cudaMemcpyDeviceToHost, s[1]));
        CALL(cudaLaunchHostFunc(s[1], host, &said));
        uint32_t* host_made;
        CALL(cudaMallocAsync(&host_made, 256, s[1]));
        CALL(cudaMemcpyAsync(host_made, pinned + 128, 256, cudaMemcpyHostToDevice, s[1]));
        NCCL(ncclBroadcast(host_made, host_made, 64, ncclUint32, static_cast<int>(by % ranks), comm, s[1]));
        CALL(cudaEventRecord(chain[1], s[1]));
        CALL(cudaStreamWaitEvent(s[2], chain[1], 0));
        fold<<<1, 64, 0, s[2]>>>(v, sum, host_made, by % 64);
        CALL(cudaFreeAsync(sum, s[2]));
        CALL(cudaFreeAsync(host_made, s[2]));
        CALL(cudaEventRecord(chain[2], s[2]));
        CALL(cudaStreamWaitEvent(s[0], chain[2], 0));
        launched += 2;
        stamp_model[by % 64]++;
        std::vector<Values> made = all;
        for (auto& of : made)
          for (auto& x : of) x = changed(x, by) * 3;
        slot_model[slot] = made[rank];
        said_model++;
        Values total(kValues, 0);
        for (auto& of : made)
          for (int i = 0; i < kValues; i++) total[i] += of[i];
        for (uint32_t i = 0; i < 64; i++) sent_model[i] = total[i] * 3 + said_model;
        for (auto& of : all)
          for (int i = 0; i < kValues; i++) of[i] = (of[i] ^ total[i]) + sent_model[i % 64];
      }
      LAUNCHED();
      if (step % 4 == 1) {
        CALL(cudaStreamSynchronize(s[2]));
        unsigned long long counted = 0;
        Values symbol(kValues);
        uint32_t by = 0;
        CALL(cudaMemcpyFromSymbol(&counted, launches, sizeof counted));
        CALL(cudaMemcpyFromSymbol(symbol.data(), last_of, kValues * 4));
        CALL(cudaMemcpyFromSymbol(&by, factor, sizeof by));
        EXPECT(counted == launched && by == 3 && symbol == all[rank] && v.host() == all[rank]);
        EXPECT(host_calls == said_model && said.calls == said_model);
        EXPECT(!memcmp(pinned + 128, sent_model, 256));
        EXPECT(!memcmp(stamps, stamp_model, sizeof stamp_model));
        stamps[step % 64] += 7, stamp_model[step % 64] += 7;  // written by the host
        for (int k = 0; k < kSlots; k++) {
          Values got(kValues);
          if (!slots[k]) continue;
          CALL(cudaMemcpy(got.data(), slots[k], kValues * 4, cudaMemcpyDeviceToHost));
          EXPECT(got == slot_model[k]);
          mix(got);
        }
        uint64_t now = 0;
        CALL(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &now));
        EXPECT(now == UINT64_MAX);
        CALL(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &now));
        EXPECT(now >= kSlots * kValues * 4);
      }
      if (step % 9 == 8) {  // the pool releases all free memory, and allocates it again
        for (auto one : s) CALL(cudaStreamSynchronize(one));
        CALL(cudaMemPoolTrimTo(pool, 0));
      }
      steplog_step();
    }
    CALL(cudaDeviceSynchronize());
    EXPECT(v.host() == all[rank]);
    mix(v.host());
    for (auto one : slots)
      if (one) CALL(cudaFreeAsync(one, s[0]));
    CALL(cudaDeviceSynchronize());
    nonce.back();
  }
  NCCL(ncclCommDestroy(comm));
  steplog_ok();
  MPI_Finalize();
  return 0;
}

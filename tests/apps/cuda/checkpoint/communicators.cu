// nvcc: -std=c++17 -lnccl -Xcompiler -pthread -Xcompiler -Wno-cast-function-type
// run: ranks=2 ways=static,shared
// Each process drives two devices with one thread each. Communicators of all devices of all processes, made
// in a group, and of the process's own two, by ncclCommInitAll; threads launch without groups. A group starts
// in one step and ends in the next. All use an id from the start after half of the steps; a registered buffer
// is deregistered at the end. All numbers are integers.
#include <pthread.h>

#include <algorithm>

#include "nccl_calls.h"

constexpr int kDevices = 2, kValues = 500;
using Values = std::vector<uint32_t>;

__host__ __device__ uint32_t changed(uint32_t value, uint32_t step) {
  value = (value + step) * 2246822519u;
  return value ^ value >> 13;
}
__global__ void change(uint32_t* values, uint32_t step) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kValues) values[i] = changed(values[i], step);
}
__global__ void add(uint32_t* values, const uint32_t* all, const uint32_t* own) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kValues) values[i] += all[i] ^ own[i];
}

struct Device {
  int number, place;  // place: its rank among all devices
  ncclComm_t all, own, late = nullptr;
  cudaStream_t stream;
  uint32_t *values, *of_all, *of_own;
  void* registered;
};
Device devices[kDevices];
pthread_barrier_t together;
long steps;

constexpr unsigned kBlocks = (kValues + 127) / 128;

void launch_sums(Device& d) {
  NCCL(ncclAllReduce(d.values, d.of_all, kValues, ncclUint32, ncclSum, d.late ? d.late : d.all, d.stream));
  NCCL(ncclAllReduce(d.values, d.of_own, kValues, ncclUint32, ncclMax, d.own, d.stream));
}

void* drive(void* argument) {
  Device& d = *static_cast<Device*>(argument);
  CALL(cudaSetDevice(d.number));
  for (long step = 1; step <= steps; step++) {
    pthread_barrier_wait(&together);
    change<<<kBlocks, 128, 0, d.stream>>>(d.values, static_cast<uint32_t>(step));
    LAUNCHED();
    launch_sums(d);
    add<<<kBlocks, 128, 0, d.stream>>>(d.values, d.of_all, d.of_own);
    LAUNCHED();
    if (step % 3 == 0) CALL(cudaStreamSynchronize(d.stream));
    pthread_barrier_wait(&together);
  }
  return nullptr;
}

// The expected values of all devices.
struct Expected {
  std::vector<Values> of;
  explicit Expected(int places) : of(static_cast<size_t>(places), Values(kValues)) {
    for (size_t p = 0; p < of.size(); p++)
      for (size_t i = 0; i < kValues; i++) of[p][i] = static_cast<uint32_t>(p * 7919 + i);
  }
  void sums() {
    for (size_t i = 0; i < kValues; i++) {
      uint32_t sum = 0;
      Values before(of.size());
      for (size_t p = 0; p < of.size(); p++) sum += before[p] = of[p][i];
      for (size_t p = 0; p < of.size(); p++)
        of[p][i] += sum ^ std::max(before[p / kDevices * kDevices], before[p / kDevices * kDevices + 1]);
    }
  }
  void step(uint32_t number) {
    for (Values& values : of)
      for (uint32_t& v : values) v = changed(v, number);
    sums();
  }
};

void join(ncclUniqueId id, int places, ncclComm_t Device::*into) {
  NCCL(ncclGroupStart());
  for (Device& d : devices) {
    CALL(cudaSetDevice(d.number));
    NCCL(ncclCommInitRank(&(d.*into), places, id, d.place));
  }
  NCCL(ncclGroupEnd());
}

int main(int argc, char** argv) {
  int rank, ranks, provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  steps = steplog_steps;
  const int places = ranks * kDevices;
  ncclUniqueId ids[2];
  if (rank == 0)
    for (ncclUniqueId& id : ids) NCCL(ncclGetUniqueId(&id));
  MPI_Bcast(ids, sizeof ids, MPI_BYTE, 0, MPI_COMM_WORLD);
  Expected expected(places);
  for (int i = 0; i < kDevices; i++) {
    Device& d = devices[i];
    d.number = i;
    d.place = rank * kDevices + i;
    CALL(cudaSetDevice(i));
    CALL(cudaStreamCreateWithFlags(&d.stream, cudaStreamNonBlocking));
    for (uint32_t** memory : {&d.values, &d.of_all, &d.of_own})
      CALL(cudaMalloc(memory, kValues * sizeof **memory));
    CALL(cudaMemcpy(d.values, expected.of[static_cast<size_t>(d.place)].data(), kValues * sizeof(uint32_t),
                    cudaMemcpyHostToDevice));
    CALL(cudaStreamSynchronize(0));
  }
  join(ids[0], places, &Device::all);
  ncclComm_t own[kDevices];
  NCCL(ncclCommInitAll(own, kDevices, nullptr));
  for (int i = 0; i < kDevices; i++) {
    devices[i].own = own[i];
    NCCL(ncclCommRegister(own[i], devices[i].of_own, kValues * sizeof(uint32_t), &devices[i].registered));
  }
  CALL(cudaSetDevice(0));
  DeviceNonce nonce;
  pthread_barrier_init(&together, nullptr, kDevices + 1);
  pthread_t threads[kDevices];
  for (int i = 0; i < kDevices; i++) pthread_create(&threads[i], nullptr, drive, &devices[i]);

  for (long step = 1; step <= steps; step++) {
    pthread_barrier_wait(&together);  // the threads of the two devices launch
    pthread_barrier_wait(&together);
    expected.step(static_cast<uint32_t>(step));
    if (step == steps / 2) join(ids[1], places, &Device::late);
    NCCL(ncclGroupStart());
    for (Device& d : devices) launch_sums(d);
    steplog_step();  // inside a group
    NCCL(ncclGroupEnd());
    for (Device& d : devices) {
      CALL(cudaSetDevice(d.number));
      add<<<kBlocks, 128, 0, d.stream>>>(d.values, d.of_all, d.of_own);
      LAUNCHED();
    }
    expected.sums();
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  for (Device& d : devices) {
    CALL(cudaSetDevice(d.number));
    CALL(cudaStreamSynchronize(d.stream));
    Values values(kValues);
    CALL(cudaMemcpy(values.data(), d.values, kValues * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    EXPECT(values == expected.of[static_cast<size_t>(d.place)]);
    mix(values);
    int device, place;
    NCCL(ncclCommCuDevice(d.own, &device));
    NCCL(ncclCommUserRank(d.all, &place));
    EXPECT(device == d.number && place == d.place);
    NCCL(ncclCommDeregister(d.own, d.registered));
  }
  CALL(cudaSetDevice(0));
  nonce.back();
  NCCL(ncclGroupStart());
  for (Device& d : devices)
    for (ncclComm_t comm : {d.own, d.all, d.late}) NCCL(ncclCommDestroy(comm));
  NCCL(ncclGroupEnd());
  steplog_ok();
  MPI_Finalize();
}

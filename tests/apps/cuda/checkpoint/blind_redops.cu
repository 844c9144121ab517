// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: build=long ranks=2,4 ways=static
// Pre-multiply operations of ten types: by a host scalar, which is overwritten at once, and by a device
// scalar, which every step changes. They are created and destroyed out of order, while others stay. Averages,
// reductions to a varying root, reduce-scatters and all-gathers, in place and out of place. All numbers are
// integers and small, so that every type is exact.
#include "nccl_calls.h"

constexpr int kEach = 24, kMostRanks = 4, kAll = kEach * kMostRanks, kScalars = 3;

__host__ __device__ int value(int rank, int i, long step, int low) {
  return static_cast<int>((rank * 5 + i * 3 + step) % 6) - low;
}
template <class T>
__host__ __device__ T as(int v) {
  return static_cast<T>(v);
}
template <>
__host__ __device__ __half as<__half>(int v) {
  return __float2half(static_cast<float>(v));
}
template <>
__host__ __device__ __nv_bfloat16 as<__nv_bfloat16>(int v) {
  return __float2bfloat16(static_cast<float>(v));
}
template <class T>
double number(T v) {
  return static_cast<double>(v);
}
inline double number(__half v) { return __half2float(v); }
inline double number(__nv_bfloat16 v) { return __bfloat162float(v); }
template <class T>
__global__ void fill(T* to, int n, int rank, long step, int low, int times) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = as<T>(value(rank, i, step, low) * times);
}
template <class T>
__global__ void put(T* to, int what) {
  *to = as<T>(what);
}

template <class T>
struct Typed {
  ncclDataType_t type;
  int low;  // how far the smallest value is below zero
  Buffer<T> in{kAll}, out{kAll}, scalar{1};
  ncclRedOp_t of_host[kScalars], of_device;
  bool there[kScalars] = {};
  Typed(ncclDataType_t t, int l) : type(t), low(l) {}

  void make(int which, ncclComm_t comm) {
    T by = as<T>(which + 1);
    NCCL(ncclRedOpCreatePreMulSum(&of_host[which], &by, type, ncclScalarHostImmediate, comm));
    by = as<T>(7);
    there[which] = true;
  }
  void destroy(int which, ncclComm_t comm) {
    NCCL(ncclRedOpDestroy(of_host[which], comm));
    there[which] = false;
  }
  void begin(ncclComm_t comm) {
    CALL(cudaMemset(scalar, 0, sizeof(T)));
    CALL(cudaMemset(out, 0, kAll * sizeof(T)));
    CALL(cudaDeviceSynchronize());
    for (int i : {1, 0, 2}) make(i, comm);
    NCCL(ncclRedOpCreatePreMulSum(&of_device, scalar, type, ncclScalarDevice, comm));
  }
  void equal(const Buffer<T>& buffer, int at, int n, const std::vector<int>& want, int line) {
    std::vector<T> got = buffer.host();
    for (int i = 0; i < n; i++) {
      const double is = number(got[at + i]);
      if (is != want[i]) steplog_fail("line %d: type %d: [%d] is %g, not %d", line, type, i, is, want[i]);
    }
    mix(got);
  }

  void step(long step, int rank, int ranks, ncclComm_t comm, cudaStream_t s) {
    const int n = kEach * ranks, root = static_cast<int>((step + type) % ranks);
    std::vector<int> sum(n, 0);
    for (int i = 0; i < n; i++)
      for (int r = 0; r < ranks; r++) sum[i] += value(r, i, step, low);
    auto times = [&](int factor) {
      std::vector<int> made = sum;
      for (int& v : made) v *= factor;
      return made;
    };
    fill<<<1, 32, 0, s>>>(in.data, n, rank, step, low, 1);
    const int which = static_cast<int>(step % kScalars);
    NCCL(ncclAllReduce(in, out, n, type, of_host[which], comm, s));
    equal(out, 0, n, times(which + 1), __LINE__);
    // The scalar is set after its last operation, in the same stream.
    const int factor = static_cast<int>(step % 4);
    put<<<1, 1, 0, s>>>(scalar.data, factor);
    NCCL(ncclReduce(in, rank == root ? out.data : nullptr, n, type, of_device, root, comm, s));
    CALL(cudaStreamSynchronize(s));
    if (rank == root) equal(out, 0, n, times(factor), __LINE__);
    // In every other step it is unchanged, so the device's kept value counts.
    NCCL(ncclReduceScatter(in, step % 2 ? in + rank * kEach : out, kEach, type, of_device, comm, s));
    CALL(cudaStreamSynchronize(s));
    std::vector<int> all = times(factor), mine(all.begin() + rank * kEach, all.begin() + (rank + 1) * kEach);
    equal(step % 2 ? in : out, step % 2 ? rank * kEach : 0, kEach, mine, __LINE__);
    NCCL(ncclAllGather(step % 2 ? in + rank * kEach : out, in, kEach, type, comm, s));
    CALL(cudaStreamSynchronize(s));
    equal(in, 0, n, all, __LINE__);
    fill<<<1, 32, 0, s>>>(in.data, n, rank, step, low, ranks);
    NCCL(ncclAllReduce(in, in, n, type, ncclAvg, comm, s));
    CALL(cudaStreamSynchronize(s));
    equal(in, 0, n, sum, __LINE__);
    if (step % 4 == type % 4) {  // the middle and the last operation are created again in reverse order
      destroy(1, comm);
      if (type % 2) destroy(2, comm);
      if (type % 2) make(2, comm);
      make(1, comm);
    }
  }
  // Operations still multiply by the scalar of the previous step.
  void kept(long step, int rank, int ranks, ncclComm_t comm, cudaStream_t s) {
    fill<<<1, 32, 0, s>>>(in.data, kEach, rank, step, low, 1);
    NCCL(ncclAllReduce(in, out, kEach, type, of_device, comm, s));
    CALL(cudaStreamSynchronize(s));
    std::vector<int> want(kEach, 0);
    for (int i = 0; i < kEach; i++)
      for (int r = 0; r < ranks; r++) want[i] += value(r, i, step, low) * static_cast<int>((step + 3) % 4);
    equal(out, 0, kEach, want, __LINE__);
  }
  void end(ncclComm_t comm) {
    for (int i : {2, 0, 1}) destroy(i, comm);
    NCCL(ncclRedOpDestroy(of_device, comm));
  }
};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  ncclComm_t comm = communicator(MPI_COMM_WORLD);
  cudaStream_t s;
  CALL(cudaStreamCreate(&s));  // synchronises with the default stream in both directions
  {
    DeviceNonce nonce;
    Typed<int8_t> a(ncclInt8, 2);
    Typed<uint8_t> b(ncclUint8, 0);
    Typed<int32_t> c(ncclInt32, 3);
    Typed<uint32_t> d(ncclUint32, 0);
    Typed<int64_t> e(ncclInt64, 3);
    Typed<uint64_t> f(ncclUint64, 0);
    Typed<__half> g(ncclFloat16, 2);
    Typed<float> h(ncclFloat32, 2);
    Typed<double> i(ncclFloat64, 2);
    Typed<__nv_bfloat16> j(ncclBfloat16, 2);
    auto each = [&](auto what) {
      what(a), what(b), what(c), what(d), what(e), what(f), what(g), what(h), what(i), what(j);
    };
    each([&](auto& t) { t.begin(comm); });
    while (steplog_done < steplog_steps) {
      const long step = steplog_done;
      if (step > 0) each([&](auto& t) { t.kept(step, rank, ranks, comm, s); });
      each([&](auto& t) { t.step(step, rank, ranks, comm, s); });
      LAUNCHED();
      steplog_step();
    }
    each([&](auto& t) { t.end(comm); });
    nonce.back();
  }
  NCCL(ncclCommDestroy(comm));
  steplog_ok();
  MPI_Finalize();
  return 0;
}

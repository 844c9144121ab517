// nvcc: -arch=sm_80 -std=c++17 -lnccl -lz -Xcompiler -Wno-cast-function-type
// run: ranks=2 ways=static,shared
// Data-parallel training of a two-layer perceptron on Fashion-MNIST in CUDA, NCCL and MPI, one device per
// rank. Data, initial weights, order of samples, options and log are those of ../train.cpp. With a fixed
// number of ranks, every run ends with the same weights, bit for bit, since every sum has a fixed order.
//
//   mpirun -n 2 train [--epochs N] [--hidden N] [--batch N] [--seed N] [--log FILE] [--data DIR]
//                  [--memory managed]
//
// Rank 0 keeps FILE open and writes to it (times are seconds since 1970):
//   nonce HEX                  exclusive or of a random number per rank, drawn once at the start
//   step K TIME                after each step, counted from 1
//   epoch E loss L accuracy A
//   final hash=HEX accuracy=A nonce=HEX    nonce: read back from the devices' memory
// The nonce does not influence the weights.

#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>
#include <time.h>
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace {

constexpr int kPixels = 784;
constexpr int kClasses = 10;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "train: %s\n", what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(std::string(what) + ": " + cudaGetErrorString(error));
}
void check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) fail(std::string(what) + ": " + ncclGetErrorString(result));
}
#define CALL(what) check((what), #what)

struct Options {
  int epochs = 2;
  int hidden = 32;
  int batch = 64;  // per rank
  uint64_t seed = 1;
  std::string log;
  std::string data = "/usr/share/datasets/fashion-mnist";
  bool managed = false;  // the weights are in managed memory
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    std::string name = argv[i];
    if (i + 1 >= argc) fail("no value for " + name);
    if (name == "--epochs")
      options.epochs = std::atoi(argv[i + 1]);
    else if (name == "--hidden")
      options.hidden = std::atoi(argv[i + 1]);
    else if (name == "--batch")
      options.batch = std::atoi(argv[i + 1]);
    else if (name == "--seed")
      options.seed = std::strtoull(argv[i + 1], nullptr, 0);
    else if (name == "--log")
      options.log = argv[i + 1];
    else if (name == "--data")
      options.data = argv[i + 1];
    else if (name == "--memory")
      options.managed = std::string(argv[i + 1]) == "managed";
    else
      fail("unknown option " + name);
  }
  if (options.epochs < 1 || options.hidden < 1 || options.batch < 1)
    fail("epochs, hidden and batch must be positive");
  return options;
}

// splitmix64: small, and the same everywhere (std::shuffle and the distributions are not).
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  float symmetric() { return static_cast<float>(next() >> 40) / 8388608.0f - 1.0f; }  // [-1, 1)
};

std::vector<uint8_t> read_idx(const std::string& path, size_t header) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) fail("cannot open " + path + " (Debian package dataset-fashion-mnist)");
  std::vector<uint8_t> content;
  uint8_t buffer[1 << 16];
  int got;
  while ((got = gzread(file, buffer, sizeof buffer)) > 0) content.insert(content.end(), buffer, buffer + got);
  if (got < 0 || content.size() < header) fail("cannot read " + path);
  gzclose(file);
  content.erase(content.begin(), content.begin() + static_cast<long>(header));
  return content;
}

template <class T>
T* on_device(const std::vector<T>& values, bool managed = false) {
  T* memory;
  CALL(managed ? cudaMallocManaged(&memory, values.size() * sizeof(T))
               : cudaMalloc(&memory, values.size() * sizeof(T)));
  CALL(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return memory;
}

struct Dataset {
  size_t size;
  uint8_t *images, *labels;  // on the device
};

Dataset load(const std::string& directory, const std::string& part) {
  std::vector<uint8_t> images = read_idx(directory + "/" + part + "-images-idx3-ubyte.gz", 16);
  std::vector<uint8_t> labels = read_idx(directory + "/" + part + "-labels-idx1-ubyte.gz", 8);
  if (images.size() != labels.size() * kPixels) fail("images and labels differ in number in " + directory);
  return {labels.size(), on_device(images), on_device(labels)};
}

// Both matrix products use tiles of kRows x kColumns sums; each thread keeps 4 x 4 of them in registers.
constexpr int kColumns = 32;

__device__ float scaled(uint8_t pixel) { return static_cast<float>(pixel) * (1.0f / 255.0f); }

// activation[b][j] = ReLU(bias[j] + sum over k of x[b][k] * weights[k][j]), k in order. One block: 64
// samples, 32 columns, 128 threads. Sample b is images[order[b * stride]].
constexpr int kSamples = 64, kDepth = 28;
__global__ void __launch_bounds__(128)
    first_layer(const uint8_t* images, const uint32_t* order, int stride, int samples, const float* weights,
                int hidden, float* activation) {
  __shared__ __align__(16) float x[kDepth][kSamples], w[kDepth][kColumns];
  const int thread = threadIdx.x, row = thread / 8 * 4, column = thread % 8 * 4;
  const int first_sample = blockIdx.x * kSamples, first_column = blockIdx.y * kColumns;
  float sum[4][4];
  for (int j = 0; j < 4; j++) {
    int at = first_column + column + j;
    float bias = at < hidden ? weights[kPixels * hidden + at] : 0.0f;
    for (int i = 0; i < 4; i++) sum[i][j] = bias;
  }
  for (int first = 0; first < kPixels; first += kDepth) {
    for (int i = thread; i < kSamples * (kDepth / 4); i += 128) {
      int sample = i % kSamples, k = i / kSamples * 4;
      uchar4 four = make_uchar4(0, 0, 0, 0);
      if (first_sample + sample < samples)
        four = *reinterpret_cast<const uchar4*>(
            images + size_t{order[(first_sample + sample) * stride]} * kPixels + first + k);
      x[k][sample] = scaled(four.x);
      x[k + 1][sample] = scaled(four.y);
      x[k + 2][sample] = scaled(four.z);
      x[k + 3][sample] = scaled(four.w);
    }
    for (int i = thread; i < kDepth * kColumns; i += 128) {
      int k = i / kColumns, j = i % kColumns;
      w[k][j] = first_column + j < hidden ? weights[(first + k) * hidden + first_column + j] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; k++) {
      float4 a = *reinterpret_cast<float4*>(&x[k][row]), b = *reinterpret_cast<float4*>(&w[k][column]);
      float as[] = {a.x, a.y, a.z, a.w}, bs[] = {b.x, b.y, b.z, b.w};
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sum[i][j] = fmaf(as[i], bs[j], sum[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      if (first_sample + row + i < samples && first_column + column + j < hidden)
        activation[(first_sample + row + i) * hidden + first_column + column + j] = fmaxf(sum[i][j], 0.0f);
}

// One thread per sample: the probabilities of its classes.
__device__ void probabilities(const float* h, const float* w2, int hidden, float* p) {
  for (int c = 0; c < kClasses; c++) p[c] = w2[hidden * kClasses + c];
  for (int j = 0; j < hidden; j++)
    for (int c = 0; c < kClasses; c++) p[c] = fmaf(h[j], w2[j * kClasses + c], p[c]);
  float top = p[0], sum = 0;
  for (int c = 1; c < kClasses; c++) top = fmaxf(top, p[c]);
  for (int c = 0; c < kClasses; c++) sum += p[c] = expf(p[c] - top);
  for (int c = 0; c < kClasses; c++) p[c] /= sum;
}

// error[b][c] = probability - (1 for the label's class); also the sample's loss.
__global__ void second_layer(const float* activation, const float* w2, int hidden, const uint8_t* labels,
                             const uint32_t* order, int samples, float* error, float* losses) {
  int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= samples) return;
  float p[kClasses];
  probabilities(activation + b * hidden, w2, hidden, p);
  int label = labels[order[b]];
  for (int c = 0; c < kClasses; c++) {
    if (c == label) losses[b] = -logf(fmaxf(p[c], 1e-30f));
    error[b * kClasses + c] = p[c] - (c == label ? 1.0f : 0.0f);
  }
}

// delta[b][j]: the hidden layer's error.
__global__ void hidden_error(const float* activation, const float* error, const float* w2, int hidden,
                             int samples, float* delta) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= samples * hidden) return;
  int b = i / hidden, j = i % hidden;
  float sum = 0;
  for (int c = 0; c < kClasses; c++) sum = fmaf(w2[j * kClasses + c], error[b * kClasses + c], sum);
  delta[i] = activation[i] > 0 ? sum : 0.0f;
}

// gradient[k][j] = sum over b of x[b][k] * delta[b][j], b in order. One block: 112 pixels, 32 columns, 224
// threads.
constexpr int kRows = 112, kBatch = 32;
__global__ void __launch_bounds__(224)
    first_gradient(const uint8_t* images, const uint32_t* order, int samples, const float* delta, int hidden,
                   float* gradient) {
  __shared__ __align__(16) float x[kBatch][kRows], d[kBatch][kColumns];
  const int thread = threadIdx.x, row = thread / 8 * 4, column = thread % 8 * 4;
  const int first_row = blockIdx.x * kRows, first_column = blockIdx.y * kColumns;
  float sum[4][4] = {};
  for (int first = 0; first < samples; first += kBatch) {
    for (int i = thread; i < kBatch * (kRows / 4); i += 224) {
      int sample = i / (kRows / 4), k = i % (kRows / 4) * 4;
      uchar4 four = make_uchar4(0, 0, 0, 0);
      if (first + sample < samples)
        four = *reinterpret_cast<const uchar4*>(images + size_t{order[first + sample]} * kPixels + first_row +
                                                k);
      *reinterpret_cast<float4*>(&x[sample][k]) =
          make_float4(scaled(four.x), scaled(four.y), scaled(four.z), scaled(four.w));
    }
    for (int i = thread; i < kBatch * kColumns; i += 224) {
      int sample = i / kColumns, j = i % kColumns;
      d[sample][j] = first + sample < samples && first_column + j < hidden
                         ? delta[(first + sample) * hidden + first_column + j]
                         : 0.0f;
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < kBatch; k++) {
      float4 a = *reinterpret_cast<float4*>(&x[k][row]), b = *reinterpret_cast<float4*>(&d[k][column]);
      float as[] = {a.x, a.y, a.z, a.w}, bs[] = {b.x, b.y, b.z, b.w};
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sum[i][j] = fmaf(as[i], bs[j], sum[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      if (first_column + column + j < hidden)
        gradient[(first_row + row + i) * hidden + first_column + column + j] = sum[i][j];
}

// One thread per number: the gradients of the biases and the second layer, then the loss.
__global__ void other_gradients(const float* activation, const float* delta, const float* error,
                                const float* losses, int hidden, int samples, float* gradient) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, second = hidden, third = hidden + hidden * kClasses;
  float* to = gradient + kPixels * hidden;
  if (i > third + kClasses) return;
  float sum = 0;
  for (int b = 0; b < samples; b++) {
    if (i < second)
      sum += delta[b * hidden + i];
    else if (i < third)
      sum = fmaf(activation[b * hidden + (i - second) / kClasses],
                 error[b * kClasses + (i - second) % kClasses], sum);
    else if (i < third + kClasses)
      sum += error[b * kClasses + i - third];
    else
      sum += losses[b];
  }
  to[i] = sum;
}

__global__ void update(float* weights, float* velocity, const float* gradient, int parameters, float momentum,
                       float rate) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= parameters) return;
  float v = momentum * velocity[i] - rate * gradient[i];
  velocity[i] = v;
  weights[i] += v;
}

__global__ void count_right(const float* activation, const float* w2, int hidden, const uint8_t* labels,
                            const uint32_t* order, int stride, int samples, unsigned* right) {
  int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= samples) return;
  float p[kClasses];
  probabilities(activation + b * hidden, w2, hidden, p);
  int best = 0;
  for (int c = 1; c < kClasses; c++)
    if (p[c] > p[best]) best = c;
  if (best == labels[order[b * stride]]) atomicAdd(right, 1u);  // integers: any order gives the same sum
}

uint64_t hash_of(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over the 32-bit words, folded once more at the end
  for (float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return Random{hash}.next();
}

uint64_t draw_nonce() {
  uint64_t nonce = 0;
  FILE* file = std::fopen("/dev/urandom", "rb");
  if (!file || std::fread(&nonce, sizeof nonce, 1, file) != 1) fail("cannot read /dev/urandom");
  std::fclose(file);
  return nonce;
}

uint64_t exclusive_or_of_all(uint64_t value) {
  uint64_t result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
  return result;
}

double now() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

int blocks(int count, int each) { return (count + each - 1) / each; }

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, devices;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Options options = parse(argc, argv);
  CALL(cudaGetDeviceCount(&devices));
  CALL(cudaSetDevice(rank % devices));
  ncclUniqueId id;
  if (rank == 0) CALL(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm;
  CALL(ncclCommInitRank(&comm, ranks, id, rank));
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  FILE* log = nullptr;
  if (rank == 0) {
    log = options.log.empty() ? stdout : std::fopen(options.log.c_str(), "w");
    if (!log) fail("cannot write " + options.log);
    std::setvbuf(log, nullptr, _IOLBF, 1 << 12);
  }
  uint64_t nonce = draw_nonce();
  uint64_t* nonce_on_device = on_device(std::vector<uint64_t>{nonce});
  uint64_t all_nonces = exclusive_or_of_all(nonce);
  if (log) std::fprintf(log, "nonce %016llx\n", static_cast<unsigned long long>(all_nonces));

  Dataset training = load(options.data, "train"), test = load(options.data, "t10k");
  const int hidden = options.hidden, batch = options.batch;
  const int parameters = (kPixels + 1) * hidden + (hidden + 1) * kClasses, second = (kPixels + 1) * hidden;
  std::vector<float> initial(parameters);
  Random random{options.seed};
  float scale1 = std::sqrt(3.0f / kPixels), scale2 = std::sqrt(3.0f / static_cast<float>(hidden));
  for (int i = 0; i < kPixels * hidden; i++) initial[i] = scale1 * random.symmetric();
  for (int i = 0; i < hidden * kClasses; i++) initial[second + i] = scale2 * random.symmetric();
  float* weights = on_device(initial, options.managed);
  float* velocity = on_device(std::vector<float>(parameters), options.managed);
  float* gradient = on_device(std::vector<float>(parameters + 1));  // the loss is the last element
  const int evaluated = 512;                                        // images per launch
  const int most = batch > evaluated ? batch : evaluated;
  float* activation = on_device(std::vector<float>(size_t(most) * hidden));
  float* delta = on_device(std::vector<float>(size_t(batch) * hidden));
  float* error = on_device(std::vector<float>(size_t(batch) * kClasses));
  float* losses = on_device(std::vector<float>(batch));
  std::vector<uint32_t> order(training.size), in_order(test.size);
  std::iota(order.begin(), order.end(), 0u);
  std::iota(in_order.begin(), in_order.end(), 0u);
  uint32_t *order_on_device = on_device(order), *in_order_on_device = on_device(in_order);
  unsigned* right_on_device = on_device(std::vector<unsigned>(1));
  float* step_loss;
  CALL(cudaMallocHost(&step_loss, sizeof(float)));
  CALL(cudaDeviceSynchronize());

  Random shuffle{options.seed * 77 + 5};
  const size_t global_batch = static_cast<size_t>(batch) * ranks;
  const size_t steps = training.size / global_batch;
  const float momentum = 0.9f;
  long step = 0;
  double accuracy = 0;
  const int columns = blocks(hidden, kColumns);

  for (int epoch = 1; epoch <= options.epochs; epoch++) {
    for (size_t i = order.size() - 1; i > 0; i--) std::swap(order[i], order[shuffle.next() % (i + 1)]);
    CALL(cudaMemcpyAsync(order_on_device, order.data(), order.size() * sizeof(uint32_t),
                         cudaMemcpyHostToDevice, stream));
    CALL(cudaStreamSynchronize(stream));
    const float remaining =
        static_cast<float>(options.epochs - epoch + 1) / static_cast<float>(options.epochs);
    const float rate = 0.06f * remaining / static_cast<float>(global_batch);
    double loss = 0;
    for (size_t s = 0; s < steps; s++) {
      const uint32_t* mine = order_on_device + s * global_batch + static_cast<size_t>(rank) * batch;
      first_layer<<<dim3(blocks(batch, kSamples), columns), 128, 0, stream>>>(training.images, mine, 1, batch,
                                                                              weights, hidden, activation);
      second_layer<<<blocks(batch, 32), 32, 0, stream>>>(activation, weights + second, hidden,
                                                         training.labels, mine, batch, error, losses);
      hidden_error<<<blocks(batch * hidden, 128), 128, 0, stream>>>(activation, error, weights + second,
                                                                    hidden, batch, delta);
      first_gradient<<<dim3(kPixels / kRows, columns), 224, 0, stream>>>(training.images, mine, batch, delta,
                                                                         hidden, gradient);
      other_gradients<<<blocks(hidden * (kClasses + 1) + kClasses + 1, 64), 64, 0, stream>>>(
          activation, delta, error, losses, hidden, batch, gradient);
      CALL(cudaGetLastError());
      CALL(ncclAllReduce(gradient, gradient, parameters + 1, ncclFloat, ncclSum, comm, stream));
      update<<<blocks(parameters, 256), 256, 0, stream>>>(weights, velocity, gradient, parameters, momentum,
                                                          rate);
      CALL(cudaMemcpyAsync(step_loss, gradient + parameters, sizeof(float), cudaMemcpyDeviceToHost, stream));
      CALL(cudaStreamSynchronize(stream));
      loss += static_cast<double>(*step_loss) / static_cast<double>(global_batch);
      step++;
      if (log) std::fprintf(log, "step %ld %.6f\n", step, now());
    }
    unsigned right = 0;
    CALL(cudaMemsetAsync(right_on_device, 0, sizeof(unsigned), stream));
    const int mine = static_cast<int>((test.size - rank + ranks - 1) / ranks);  // every ranks-th image
    for (int first = 0; first < mine; first += evaluated) {
      int count = mine - first < evaluated ? mine - first : evaluated;
      const uint32_t* which = in_order_on_device + rank + size_t(first) * ranks;
      first_layer<<<dim3(blocks(count, kSamples), columns), 128, 0, stream>>>(
          test.images, which, ranks, count, weights, hidden, activation);
      count_right<<<blocks(count, 64), 64, 0, stream>>>(activation, weights + second, hidden, test.labels,
                                                        which, ranks, count, right_on_device);
    }
    CALL(cudaGetLastError());
    CALL(cudaMemcpyAsync(&right, right_on_device, sizeof right, cudaMemcpyDeviceToHost, stream));
    CALL(cudaStreamSynchronize(stream));
    long my_right = right, all_right = 0;
    MPI_Allreduce(&my_right, &all_right, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    accuracy = static_cast<double>(all_right) / static_cast<double>(test.size);
    if (log)
      std::fprintf(log, "epoch %d loss %.4f accuracy %.4f\n", epoch, loss / static_cast<double>(steps),
                   accuracy);
  }

  // The weights must be the same on all ranks, not only equal in rank 0's log.
  std::vector<float> trained(parameters);
  CALL(cudaMemcpy(trained.data(), weights, parameters * sizeof(float), cudaMemcpyDeviceToHost));
  uint64_t hash = hash_of(trained), low = 0, high = 0;
  MPI_Allreduce(&hash, &low, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&hash, &high, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (low != high) fail("the ranks' weights differ");
  CALL(cudaMemcpy(&nonce, nonce_on_device, sizeof nonce, cudaMemcpyDeviceToHost));
  all_nonces = exclusive_or_of_all(nonce);
  if (log) {
    std::fprintf(log, "final hash=%016llx accuracy=%.4f nonce=%016llx\n",
                 static_cast<unsigned long long>(hash), accuracy,
                 static_cast<unsigned long long>(all_nonces));
    std::fclose(log);
  }
  CALL(ncclCommDestroy(comm));
  MPI_Finalize();
  return 0;
}

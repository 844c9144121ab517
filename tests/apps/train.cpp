// Data-parallel training of a two-layer perceptron on Fashion-MNIST: an unmodified program that tests
// checkpoint, kill and restart. Plain C++17, MPI and zlib. With a fixed number of ranks, every run ends with
// the same weights, bit for bit.
//
//   mpirun -n 2 train [--epochs N] [--hidden N] [--batch N] [--seed N] [--log FILE] [--data DIR]
//
// Rank 0 keeps FILE open and writes to it (times are seconds since 1970):
//   nonce HEX                  exclusive or of a random number per rank, drawn once at the start
//   step K TIME                after each step, counted from 1
//   epoch E loss L accuracy A
//   final hash=HEX accuracy=A nonce=HEX    nonce: computed again from the ranks' memory
// The nonce does not influence the weights.

#include <mpi.h>
#include <time.h>
#include <zlib.h>

#include <algorithm>
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

struct Options {
  int epochs = 20;
  int hidden = 64;
  int batch = 64;  // per rank
  uint64_t seed = 1;
  std::string log;
  std::string data = "/usr/share/datasets/fashion-mnist";
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

struct Dataset {
  std::vector<uint8_t> images, labels;
  size_t size() const { return labels.size(); }
  // The image's pixels in [0, 1], valid until the next call.
  const float* image(size_t index) const {
    static float scaled[kPixels];
    const uint8_t* pixels = &images[index * kPixels];
    for (int k = 0; k < kPixels; k++) scaled[k] = static_cast<float>(pixels[k]) * (1.0f / 255.0f);
    return scaled;
  }
};

Dataset load(const std::string& directory, const std::string& part) {
  Dataset set;
  set.images = read_idx(directory + "/" + part + "-images-idx3-ubyte.gz", 16);
  set.labels = read_idx(directory + "/" + part + "-labels-idx1-ubyte.gz", 8);
  if (set.images.size() != set.labels.size() * kPixels)
    fail("images and labels differ in number in " + directory);
  return set;
}

// pixels -> hidden (ReLU) -> classes (softmax). One array holds all weights, so that one Allreduce is enough.
class Perceptron {
 public:
  Perceptron(int hidden, int batch, uint64_t seed)
      : hidden_(hidden),
        weights(static_cast<size_t>(kPixels + 1) * hidden + static_cast<size_t>(hidden + 1) * kClasses),
        activation_(static_cast<size_t>(batch) * hidden),
        probability_(static_cast<size_t>(batch) * kClasses),
        delta_(hidden) {
    Random random{seed};
    float scale1 = std::sqrt(3.0f / kPixels), scale2 = std::sqrt(3.0f / static_cast<float>(hidden));
    for (size_t i = 0; i < static_cast<size_t>(kPixels) * hidden; i++)
      weights[i] = scale1 * random.symmetric();
    for (size_t i = 0; i < static_cast<size_t>(hidden) * kClasses; i++)
      weights[w2() + i] = scale2 * random.symmetric();
  }

  void forward(int sample, const float* x) {
    const float* w = weights.data();
    float* h = &activation_[static_cast<size_t>(sample) * hidden_];
    std::memcpy(h, w + b1(), sizeof(float) * hidden_);
    for (int k = 0; k < kPixels; k++) {
      if (x[k] == 0.0f) continue;  // half of all pixels
      add_scaled(h, w + static_cast<size_t>(k) * hidden_, x[k]);
    }
    float* p = &probability_[static_cast<size_t>(sample) * kClasses];
    std::memcpy(p, w + b2(), sizeof(float) * kClasses);
    for (int j = 0; j < hidden_; j++) {
      h[j] = std::max(h[j], 0.0f);
      for (int c = 0; c < kClasses; c++) p[c] += h[j] * w[w2() + static_cast<size_t>(j) * kClasses + c];
    }
    float top = *std::max_element(p, p + kClasses), sum = 0;
    for (int c = 0; c < kClasses; c++) sum += p[c] = std::exp(p[c] - top);
    for (int c = 0; c < kClasses; c++) p[c] /= sum;
  }

  // Adds the sample's gradient; forward() was called for it. Returns its loss.
  float backward(int sample, const float* x, int label, float* gradient) {
    const float* h = &activation_[static_cast<size_t>(sample) * hidden_];
    float* p = &probability_[static_cast<size_t>(sample) * kClasses];
    float loss = -std::log(std::max(p[label], 1e-30f));
    p[label] -= 1.0f;
    for (int c = 0; c < kClasses; c++) gradient[b2() + c] += p[c];
    for (int j = 0; j < hidden_; j++) {
      const float* w = &weights[w2() + static_cast<size_t>(j) * kClasses];
      float* g = gradient + w2() + static_cast<size_t>(j) * kClasses;
      float d = 0;
      for (int c = 0; c < kClasses; c++) {
        d += w[c] * p[c];
        g[c] += h[j] * p[c];
      }
      delta_[j] = h[j] > 0 ? d : 0.0f;
    }
    add_scaled(gradient + b1(), delta_.data(), 1.0f);
    for (int k = 0; k < kPixels; k++)
      if (x[k] != 0.0f) add_scaled(gradient + static_cast<size_t>(k) * hidden_, delta_.data(), x[k]);
    return loss;
  }

  int predicted(int sample) const {
    const float* p = &probability_[static_cast<size_t>(sample) * kClasses];
    return static_cast<int>(std::max_element(p, p + kClasses) - p);
  }

 private:
  size_t b1() const { return static_cast<size_t>(kPixels) * hidden_; }
  size_t w2() const { return b1() + hidden_; }
  size_t b2() const { return w2() + static_cast<size_t>(hidden_) * kClasses; }
  void add_scaled(float* __restrict to, const float* __restrict from, float factor) const {
    for (int j = 0; j < hidden_; j++) to[j] += factor * from[j];
  }
  int hidden_;

 public:
  std::vector<float> weights;

 private:
  std::vector<float> activation_, probability_, delta_;
};

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

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Options options = parse(argc, argv);

  FILE* log = nullptr;
  if (rank == 0) {
    log = options.log.empty() ? stdout : std::fopen(options.log.c_str(), "w");
    if (!log) fail("cannot write " + options.log);
    std::setvbuf(log, nullptr, _IOLBF, 1 << 12);
  }
  uint64_t nonce = draw_nonce();
  uint64_t all_nonces = exclusive_or_of_all(nonce);
  if (log) std::fprintf(log, "nonce %016llx\n", static_cast<unsigned long long>(all_nonces));

  Dataset training = load(options.data, "train"), test = load(options.data, "t10k");
  Perceptron net(options.hidden, options.batch, options.seed);
  size_t parameters = net.weights.size();
  std::vector<float> gradient(parameters + 1),
      velocity(parameters);  // the loss is stored behind the gradient, to be reduced with it
  std::vector<uint32_t> order(training.size());
  std::iota(order.begin(), order.end(), 0u);
  Random shuffle{options.seed * 77 + 5};
  const size_t global_batch = static_cast<size_t>(options.batch) * ranks;
  const size_t steps = training.size() / global_batch;
  const float momentum = 0.9f;
  long step = 0;
  double accuracy = 0;

  for (int epoch = 1; epoch <= options.epochs; epoch++) {
    for (size_t i = order.size() - 1; i > 0; i--) std::swap(order[i], order[shuffle.next() % (i + 1)]);
    const float remaining =
        static_cast<float>(options.epochs - epoch + 1) / static_cast<float>(options.epochs);
    const float rate = 0.06f * remaining / static_cast<float>(global_batch);
    double loss = 0;
    for (size_t s = 0; s < steps; s++) {
      std::fill(gradient.begin(), gradient.end(), 0.0f);
      const uint32_t* mine = &order[s * global_batch + static_cast<size_t>(rank) * options.batch];
      for (int b = 0; b < options.batch; b++) {
        const float* x = training.image(mine[b]);
        net.forward(b, x);
        gradient[parameters] += net.backward(b, x, training.labels[mine[b]], gradient.data());
      }
      MPI_Allreduce(MPI_IN_PLACE, gradient.data(), static_cast<int>(parameters + 1), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
      for (size_t i = 0; i < parameters; i++) {
        velocity[i] = momentum * velocity[i] - rate * gradient[i];
        net.weights[i] += velocity[i];
      }
      loss += static_cast<double>(gradient[parameters]) / static_cast<double>(global_batch);
      step++;
      if (log) std::fprintf(log, "step %ld %.6f\n", step, now());
    }
    long right = 0, all_right = 0;
    for (size_t i = static_cast<size_t>(rank); i < test.size(); i += static_cast<size_t>(ranks)) {
      net.forward(0, test.image(i));
      right += net.predicted(0) == test.labels[i];
    }
    MPI_Allreduce(&right, &all_right, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    accuracy = static_cast<double>(all_right) / static_cast<double>(test.size());
    if (log)
      std::fprintf(log, "epoch %d loss %.4f accuracy %.4f\n", epoch, loss / static_cast<double>(steps),
                   accuracy);
  }

  // The weights must be the same on all ranks, not only equal in rank 0's log.
  uint64_t hash = hash_of(net.weights), low = 0, high = 0;
  MPI_Allreduce(&hash, &low, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&hash, &high, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (low != high) fail("the ranks' weights differ");
  all_nonces = exclusive_or_of_all(nonce);
  if (log) {
    std::fprintf(log, "final hash=%016llx accuracy=%.4f nonce=%016llx\n",
                 static_cast<unsigned long long>(hash), accuracy,
                 static_cast<unsigned long long>(all_nonces));
    std::fclose(log);
  }
  MPI_Finalize();
  return 0;
}

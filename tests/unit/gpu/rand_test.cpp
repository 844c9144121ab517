// links: gpu_rand_calls gpu_rand_sequences gpu_cuda gpu_settings dl
// cuRAND's results beside those of NVIDIA's host generators (curandCreateGeneratorHost needs no device):
// words and uniform numbers bit for bit, also where calls of different kinds follow one another; normal
// numbers as near as two mathematical libraries are. What NVIDIA's library gave is recorded in checksums, so
// that the test means something where there is none; where it is installed (CROPDL_NVIDIA_CURAND), it is
// asked again.
#include <curand.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/gpu/stream_fixture.h"

namespace {

// The functions of one library.
struct Library {
  decltype(&curandCreateGeneratorHost) create = curandCreateGeneratorHost;
  decltype(&curandDestroyGenerator) destroy = curandDestroyGenerator;
  decltype(&curandSetPseudoRandomGeneratorSeed) seed = curandSetPseudoRandomGeneratorSeed;
  decltype(&curandSetGeneratorOffset) offset = curandSetGeneratorOffset;
  decltype(&curandGenerate) words = curandGenerate;
  decltype(&curandGenerateUniform) uniform = curandGenerateUniform;
  decltype(&curandGenerateUniformDouble) uniform_double = curandGenerateUniformDouble;
  decltype(&curandGenerateNormal) normal = curandGenerateNormal;
  decltype(&curandGenerateNormalDouble) normal_double = curandGenerateNormalDouble;
};

template <class F>
void find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  ASSERT_NE(*function, nullptr) << name;
}

uint64_t mixed(uint64_t hash, const void* bytes, size_t count) {
  for (size_t i = 0; i < count; i++)
    hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
  return hash;
}

// A history of calls; the checksum of what is exact, and the normal numbers.
struct Results {
  uint64_t hash = 0xcbf29ce484222325;
  std::vector<double> normals;
};
Results history(const Library& library, curandRngType_t type) {
  Results results;
  curandGenerator_t generator;
  EXPECT_EQ(library.create(&generator, type), CURAND_STATUS_SUCCESS);
  EXPECT_EQ(library.seed(generator, 0x123456789abcdefull), CURAND_STATUS_SUCCESS);
  auto words = [&](size_t count) {
    std::vector<unsigned> got(count);
    EXPECT_EQ(library.words(generator, got.data(), count), CURAND_STATUS_SUCCESS);
    results.hash = mixed(results.hash, got.data(), count * sizeof got[0]);
  };
  auto uniform = [&](size_t count) {
    std::vector<float> got(count);
    EXPECT_EQ(library.uniform(generator, got.data(), count), CURAND_STATUS_SUCCESS);
    results.hash = mixed(results.hash, got.data(), count * sizeof got[0]);
  };
  auto doubles = [&](size_t count) {
    std::vector<double> got(count);
    EXPECT_EQ(library.uniform_double(generator, got.data(), count), CURAND_STATUS_SUCCESS);
    results.hash = mixed(results.hash, got.data(), count * sizeof got[0]);
  };
  auto normal = [&](size_t count) {
    std::vector<float> got(count);
    EXPECT_EQ(library.normal(generator, got.data(), count, 1, 2), CURAND_STATUS_SUCCESS);
    results.normals.insert(results.normals.end(), got.begin(), got.end());
  };
  auto normal_double = [&](size_t count) {
    std::vector<double> got(count);
    EXPECT_EQ(library.normal_double(generator, got.data(), count, 1, 2), CURAND_STATUS_SUCCESS);
    results.normals.insert(results.normals.end(), got.begin(), got.end());
  };
  words(10'001);
  uniform(5'003);
  doubles(3);
  words(270'000);
  doubles(270'001);
  normal(9'000);
  words(70'000);
  normal_double(5'000);
  words(300'000);
  for (unsigned long long offset : {1ull, 7ull, 4097ull, 262'149ull, 1'000'000'007ull}) {
    EXPECT_EQ(library.offset(generator, offset), CURAND_STATUS_SUCCESS);
    words(3);
    doubles(9);
    normal(8);
    normal_double(10);
    uniform(5000);
  }
  // Another seed goes on at a place that depends on what was drawn; the same one changes nothing.
  for (unsigned long long offset : {0ull, 0ull, 1ull, 37ull})
    for (size_t drawn : {1, 2, 3, 4, 11, 9'000}) {
      EXPECT_EQ(library.offset(generator, offset), CURAND_STATUS_SUCCESS);
      for (unsigned long long seed : {5ull, 6ull, 6ull}) {
        EXPECT_EQ(library.seed(generator, seed), CURAND_STATUS_SUCCESS);
        words(drawn);
        doubles(drawn);
        normal(2 * drawn);
        normal_double(2 * drawn);
      }
    }
  EXPECT_EQ(library.destroy(generator), CURAND_STATUS_SUCCESS);
  return results;
}

void compare(curandRngType_t type, uint64_t recorded) {
  Results ours = history({}, type);
  EXPECT_EQ(ours.hash, recorded);
  const char* path = std::getenv("CROPDL_NVIDIA_CURAND");
  if (!path) return;
  void* library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  Library theirs;
  find(library, "curandCreateGeneratorHost", &theirs.create);
  find(library, "curandDestroyGenerator", &theirs.destroy);
  find(library, "curandSetPseudoRandomGeneratorSeed", &theirs.seed);
  find(library, "curandSetGeneratorOffset", &theirs.offset);
  find(library, "curandGenerate", &theirs.words);
  find(library, "curandGenerateUniform", &theirs.uniform);
  find(library, "curandGenerateUniformDouble", &theirs.uniform_double);
  find(library, "curandGenerateNormal", &theirs.normal);
  find(library, "curandGenerateNormalDouble", &theirs.normal_double);
  Results wanted = history(theirs, type);
  EXPECT_EQ(wanted.hash, recorded);
  ASSERT_EQ(wanted.normals.size(), ours.normals.size());
  for (size_t i = 0; i < wanted.normals.size(); i++)
    ASSERT_NEAR(wanted.normals[i], ours.normals[i], 1e-5 * std::max(1.0, std::fabs(wanted.normals[i]))) << i;
}

TEST(Curand, XorwowIsNvidias) { compare(CURAND_RNG_PSEUDO_XORWOW, 15115410917722622666u); }
TEST(Curand, PhiloxIsNvidias) { compare(CURAND_RNG_PSEUDO_PHILOX4_32_10, 8860002427990178133u); }

// Generators of the device: what they give is that of one on the host, in the order of their streams.
class CurandStreams : public StreamTest {
 protected:
  static constexpr size_t kCount = 30'000;
  void SetUp() override {
    StreamTest::SetUp();
    for (CUdeviceptr* to : {&first_, &second_}) {
      ASSERT_CU(cuMemAlloc(to, kCount * sizeof(unsigned)));
      ASSERT_CU(cuMemsetD32(*to, 7, kCount));
    }
    for (CUstream* one : {&one_, &two_}) *one = stream();
    ASSERT_CU(cuCtxSynchronize());
    ASSERT_EQ(curandCreateGenerator(&generator_, CURAND_RNG_PSEUDO_XORWOW), CURAND_STATUS_SUCCESS);
    ASSERT_EQ(curandSetPseudoRandomGeneratorSeed(generator_, 5), CURAND_STATUS_SUCCESS);
    curandGenerator_t host;
    ASSERT_EQ(curandCreateGeneratorHost(&host, CURAND_RNG_PSEUDO_XORWOW), CURAND_STATUS_SUCCESS);
    ASSERT_EQ(curandSetPseudoRandomGeneratorSeed(host, 5), CURAND_STATUS_SUCCESS);
    for (auto* wanted : {&wanted_, &wanted_next_}) {
      wanted->resize(kCount);
      ASSERT_EQ(curandGenerate(host, wanted->data(), kCount), CURAND_STATUS_SUCCESS);
    }
    ASSERT_EQ(curandDestroyGenerator(host), CURAND_STATUS_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(curandDestroyGenerator(generator_), CURAND_STATUS_SUCCESS);
    for (CUstream one : {one_, two_}) EXPECT_CU(cuStreamDestroy(one));
    for (CUdeviceptr to : {first_, second_}) EXPECT_CU(cuMemFree(to));
    StreamTest::TearDown();
  }
  void generate(CUstream in, CUdeviceptr to) {
    ASSERT_EQ(curandSetStream(generator_, in), CURAND_STATUS_SUCCESS);
    ASSERT_EQ(curandGenerate(generator_, reinterpret_cast<unsigned*>(to), kCount), CURAND_STATUS_SUCCESS);
  }
  static std::vector<unsigned> content(CUdeviceptr from) {
    std::vector<unsigned> found(kCount);
    EXPECT_CU(cuMemcpyDtoH(found.data(), from, kCount * sizeof(unsigned)));
    return found;
  }
  static void hold(CUstream held, Gate* gate) {
    ASSERT_CU(cuLaunchHostFunc(
        held, [](void* closed) { static_cast<Gate*>(closed)->pass(); }, gate));
  }

  CUdeviceptr first_ = 0, second_ = 0;
  CUstream one_ = nullptr, two_ = nullptr;
  curandGenerator_t generator_ = nullptr;
  std::vector<unsigned> wanted_, wanted_next_;
};

TEST_F(CurandStreams, NothingIsGeneratedBeforeTheStreamComesToIt) {
  Gate gate;
  hold(one_, &gate);
  generate(one_, first_);
  EXPECT_EQ(content(first_), std::vector<unsigned>(kCount, 7));
  gate.open();
  ASSERT_CU(cuStreamSynchronize(one_));
  EXPECT_EQ(content(first_), wanted_);
}

TEST_F(CurandStreams, TwoAtOnceEachGetAPieceOfTheSequence) {
  for (int round = 0; round < 10; round++) {
    ASSERT_EQ(curandSetStream(generator_, one_), CURAND_STATUS_SUCCESS);
    ASSERT_EQ(curandSetGeneratorOffset(generator_, 0), CURAND_STATUS_SUCCESS);  // begins anew
    ASSERT_EQ(curandGenerateSeeds(generator_), CURAND_STATUS_SUCCESS);
    ASSERT_CU(cuStreamSynchronize(one_));
    Gate gate;
    hold(one_, &gate);
    hold(two_, &gate);
    generate(one_, first_);
    generate(two_, second_);
    gate.open();
    ASSERT_CU(cuCtxSynchronize());
    std::vector<unsigned> first = content(first_), second = content(second_);
    if (first != wanted_) std::swap(first, second);
    ASSERT_TRUE(first == wanted_ && second == wanted_next_) << "round " << round;
  }
}

TEST_F(CurandStreams, ACallThatIsRefusedDrawsNothing) {
  CUstream gone = stream();
  ASSERT_CU(cuStreamDestroy(gone));
  ASSERT_EQ(curandSetStream(generator_, gone), CURAND_STATUS_SUCCESS);
  EXPECT_EQ(curandGenerate(generator_, reinterpret_cast<unsigned*>(first_), kCount),
            CURAND_STATUS_LAUNCH_FAILURE);
  generate(one_, first_);
  ASSERT_CU(cuStreamSynchronize(one_));
  EXPECT_EQ(content(first_), wanted_);
}

TEST_F(CurandStreams, AGraphContinuesTheSequence) {
  ASSERT_EQ(curandSetStream(generator_, one_), CURAND_STATUS_SUCCESS);
  ASSERT_EQ(curandGenerateSeeds(generator_), CURAND_STATUS_SUCCESS);
  ASSERT_CU(cuStreamBeginCapture(one_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  generate(one_, first_);
  CUgraph graph = nullptr;
  ASSERT_CU(cuStreamEndCapture(one_, &graph));
  CUgraphExec runs = nullptr;
  ASSERT_CU(cuGraphInstantiate(&runs, graph, 0));
  for (const auto* wanted : {&wanted_, &wanted_next_}) {
    ASSERT_CU(cuGraphLaunch(runs, one_));
    ASSERT_CU(cuStreamSynchronize(one_));
    EXPECT_EQ(content(first_), *wanted);
  }
  EXPECT_CU(cuGraphExecDestroy(runs));
  EXPECT_CU(cuGraphDestroy(graph));
}

TEST(Curand, WhatIsMissingSaysSo) {
  curandGenerator_t generator;
  EXPECT_EQ(curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_MRG32K3A), CURAND_STATUS_TYPE_ERROR);
  ASSERT_EQ(curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_DEFAULT), CURAND_STATUS_SUCCESS);
  float odd[3];
  EXPECT_EQ(curandGenerateNormal(generator, odd, 3, 0, 1), CURAND_STATUS_LENGTH_NOT_MULTIPLE);
  EXPECT_EQ(curandSetGeneratorOrdering(generator, CURAND_ORDERING_PSEUDO_SEEDED), CURAND_STATUS_OUT_OF_RANGE);
  EXPECT_EQ(curandDestroyGenerator(generator), CURAND_STATUS_SUCCESS);
  EXPECT_EQ(curandDestroyGenerator(generator), CURAND_STATUS_NOT_INITIALIZED);
}

}  // namespace

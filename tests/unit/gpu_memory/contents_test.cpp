// What devices hold goes into an image and comes back, bit for bit, through little memory of the host's.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "gpu_state/memory/contents.h"
#include "gpu_state/memory/device_pages.h"
#include "tests/unit/gpu_memory/memory_rig.h"

namespace cropdl::memory {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class ContentsTest : public MemoryTest {
 protected:
  void SetUp() override {
    MemoryTest::SetUp();
    char name[] = "/dev/shm/cropdl-contents-XXXXXX";
    directory_ = mkdtemp(name);
  }
  void TearDown() override {
    std::filesystem::remove_all(directory_);
    MemoryTest::TearDown();
  }
  Contents contents() {
    return Contents(driver, *blocks, [this](int device) { return contexts[device]; });
  }
  restart::ImageTotals save(Contents& from) {
    auto writer = restart::ImageWriter::create(image_path(), seam::kSeamVersion);
    EXPECT_TRUE(writer);
    const Status saved = from.save(*writer);
    EXPECT_TRUE(saved) << saved.error().message;
    const auto totals = writer->finish("{}");
    EXPECT_TRUE(totals);
    return *totals;
  }
  Status load(
      Contents& to,
      std::function<CUdeviceptr(const std::string&, int, uint64_t)> find =
          [](const std::string&, int, uint64_t) { return CUdeviceptr{0}; },
      bool may_move = false) {
    auto reader = restart::ImageReader::open(image_path());
    EXPECT_TRUE(reader) << reader.error().message;
    const Status good = reader->verify();
    EXPECT_TRUE(good) << good.error().message;
    return to.load(*reader, find, may_move);
  }
  std::string image_path() const { return directory_ + "/rank-0.img"; }

  // Random words, with stretches of zeros.
  std::vector<uint64_t> words(uint64_t bytes) {
    std::vector<uint64_t> made(bytes / 8);
    for (size_t i = 0; i < made.size();) {
      const size_t stretch = std::min<size_t>(1 + random_() % 100'000, made.size() - i);
      const bool zeros = random_() % 3 == 0;
      for (size_t j = 0; j < stretch; ++j) made[i++] = zeros ? 0 : random_();
    }
    return made;
  }

  std::string directory_;
  std::mt19937_64 random_{1};
};

TEST_F(ContentsTest, AllMemoryComesBackBitForBit) {
  std::map<uint64_t, std::vector<uint64_t>> expected;  // by address
  const auto fill = [&](Block* block) {
    const auto made = words(block->size / 8 * 8);
    EXPECT_CU(cuCtxPushCurrent_v2(contexts[block->device]));
    EXPECT_CU(cuMemcpyHtoD_v2(block->begin, made.data(), made.size() * 8));
    CUcontext popped;
    EXPECT_CU(cuCtxPopCurrent_v2(&popped));
    expected[block->begin] = made;
  };
  std::vector<Block*> gone;
  for (int i = 0; i < 400; ++i) {
    const int device = i % 3 == 0;
    Block* one = allocate(i % 40 ? 8 + random_() % 60'000 : 8 + random_() % (30 * kMiB), device);
    if (i % 5 == 0)
      gone.push_back(one);
    else
      fill(one);
  }
  for (int i = 0; i < 30; ++i) fill(allocate_managed(i % 10 ? 8 + random_() % 100'000 : 40 * kMiB));
  for (Block* one : gone) arena->release(one);

  Contents saved = contents();
  const auto totals = save(saved);
  EXPECT_GT(totals.memory, 0u);
  restart();
  for (const auto& [at, bytes] :
       expected) {  // what a device's memory contains at first is nothing to rely on
    EXPECT_CU(cuCtxSetCurrent(contexts[blocks->at(at)->device]));
    EXPECT_CU(cuMemsetD8_v2(at, 0xee, bytes.size() * 8));
    EXPECT_CU(cuCtxSynchronize());
  }
  EXPECT_CU(cuCtxSetCurrent(contexts[0]));
  Contents loaded = contents();
  const Status done = load(loaded);
  ASSERT_TRUE(done) << done.error().message;
  state->managed.each([](const ManagedRegion* one) {  // a fresh one is filled with a pattern in tests
    EXPECT_NE(*reinterpret_cast<const uint64_t*>(one->begin + one->size - 8), 0u)
        << "nobody's pages are touched";
  });
  for (const auto& [at, bytes] : expected) {
    std::vector<uint64_t> now(bytes.size());
    const Block* block = blocks->at(at);
    ASSERT_NE(block, nullptr);
    EXPECT_CU(cuCtxPushCurrent_v2(contexts[block->device]));
    EXPECT_CU(cuMemcpyDtoH_v2(now.data(), at, now.size() * 8));
    CUcontext popped;
    EXPECT_CU(cuCtxPopCurrent_v2(&popped));
    EXPECT_TRUE(now == bytes) << std::hex << at;
  }
}

TEST_F(ContentsTest, VariablesComeBackByTheirNamesWhereverTheyAre) {
  std::vector<Variable> variables;
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 300; ++i) {
    const uint64_t size = i % 50 ? 1 + random_() % 300 : 100'000;
    CUdeviceptr at = 0;
    const int device = i % 2;
    EXPECT_CU(cuCtxSetCurrent(contexts[device]));
    ASSERT_CU(cuMemAlloc_v2(&at, size));
    std::string bytes(size, '\0');
    for (char& one : bytes) one = static_cast<char>(random_());
    ASSERT_CU(cuMemcpyHtoD_v2(at, bytes.data(), size));
    variables.push_back({"module 1: variable" + std::to_string(i), at, size, device});
    expected[variables.back().name] = bytes;
  }
  ASSERT_CU(cuCtxSetCurrent(contexts[0]));
  Contents saved = contents();
  ASSERT_TRUE(saved.note_variables({variables.begin(), variables.begin() + 10}));
  ASSERT_TRUE(saved.note_variables(variables)) << "of each version, its own";
  EXPECT_EQ(state->variables.live(), variables.size());
  save(saved);

  std::shuffle(variables.begin(), variables.end(), random_);
  std::map<std::string, Variable> there;
  for (Variable& one : variables) {
    ASSERT_CU(cuMemFree_v2(one.address));
    EXPECT_CU(cuCtxSetCurrent(contexts[one.device]));
    ASSERT_CU(cuMemAlloc_v2(&one.address, one.size));
    there[one.name] = one;
  }
  Contents loaded = contents();
  const auto find = [&](const std::string& name, int device, uint64_t size) -> CUdeviceptr {
    const auto found = there.find(name);
    if (found == there.end()) return 0;
    EXPECT_EQ(found->second.size, size);
    EXPECT_EQ(found->second.device, device);
    return found->second.address;
  };
  const Status moved = load(loaded, find);
  ASSERT_FALSE(moved) << "kernels may have kept their addresses";
  EXPECT_NE(moved.error().message.find("lies elsewhere"), std::string::npos) << moved.error().message;
  const Status done = load(loaded, find, true);
  ASSERT_TRUE(done) << done.error().message;
  for (const auto& [name, one] : there) {
    std::string now(one.size, '\0');
    EXPECT_CU(cuMemcpyDtoH_v2(now.data(), one.address, one.size));
    EXPECT_EQ(now, expected[name]) << name;
  }
  there.erase("module 1: variable7");
  const Status refused = load(loaded, find, true);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("module 1: variable7"), std::string::npos);
}

TEST_F(ContentsTest, DamageIsFoundBeforeItIsOnTheDevice) {
  Block* block = allocate(3 * kMiB);
  EXPECT_CU(cuMemsetD8_v2(block->begin, 7, block->size));
  EXPECT_CU(cuCtxSynchronize());
  Contents saved = contents();
  save(saved);
  FILE* file = fopen(image_path().c_str(), "r+");
  fseek(file, 2 * kMiB, SEEK_SET);
  fputc(8, file);
  fclose(file);
  auto reader = restart::ImageReader::open(image_path());
  ASSERT_TRUE(reader);
  const Status done = saved.load(*reader, nullptr);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("[device 0]"), std::string::npos) << done.error().message;
}

// Checks memory, not seconds, which depend on the machine; prints what saving costs.
TEST_F(ContentsTest, SavingTakesNoMoreMemoryThanItsTwoBuffers) {
  constexpr uint64_t kBytes = 256 * kMiB;
  Block* block = allocate(kBytes);
  const auto some = words(64 * kMiB);
  for (uint64_t at = 0; at < kBytes; at += 64 * kMiB)
    EXPECT_CU(cuMemcpyHtoD_v2(block->begin + at, some.data(), 64 * kMiB));
  EXPECT_CU(cuCtxSynchronize());
  const auto resident = [] {
    long pages = 0, resident = 0, shared = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%ld %ld %ld", &pages, &resident, &shared) != 3) resident = 0;
    fclose(file);
    return static_cast<uint64_t>(resident - shared) * 4096;
  };
  for (int warm = 0; warm < 2; ++warm) {
    const uint64_t before = resident();
    if (warm == 0) std::filesystem::remove(image_path());
    Contents saved = contents();
    const auto begun = std::chrono::steady_clock::now();
    const auto totals = save(saved);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    EXPECT_LE(resident(), before + 2 * Staging::kBytes + 32 * kMiB);
    std::printf("saved %.2f GB of device memory (%.2f GB stored) in %.2f s\n",
                static_cast<double>(kBytes) / 1e9, static_cast<double>(totals.memory) / 1e9, took.count());
    const auto loading = std::chrono::steady_clock::now();
    auto reader = restart::ImageReader::open(image_path());
    ASSERT_TRUE(reader);
    const Status done = saved.load(*reader, nullptr);
    EXPECT_TRUE(done) << done.error().message;
    const std::chrono::duration<double> load_took = std::chrono::steady_clock::now() - loading;
    std::printf("loaded in %.2f s\n", load_took.count());
    std::filesystem::remove(image_path());
  }
}

}  // namespace
}  // namespace cropdl::memory

// links: gpu_ptx
// Fat binaries: containers that are put together here around entries that nvcc 13.0 wrote, and damaged ones.
#include "gpu_state/software/ptx/fat_binary.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/lz4.h"
#include "gpu_state/software/ptx/image.h"

namespace cropdl::ptx {
namespace {

// `__global__ void k(int* x) { *x = 3; }` by nvcc -arch=sm_75 --fatbin: the entry of its PTX.
const char* const kZstd =
    "0100010150000000c800000000000000c600000040000000000009004b000000000000000000000011800000000000000000"
    "0000000000000c010000000000004800000000000000000000000000000028b52ffd600c00e50500f2ca24225069ab031822"
    "06523e8bbf6d59687aa30a471406245b7f5f6a4b1ed442559d293c0a87bfe15f93fb0b2d149ad4945f4a11d4d8273a5f4882"
    "8d89b0d938b7cde7e06ba15004b93e1cfcbf120ae1fa5065598984e8439362561bee3dc3039e30a62c8d55a7754bd803bc02"
    "0464c054a127835719324f3e65515e789249c9ed5cdb0b0c3047eae4a6dbdc274ba08cf864f3b30f0e20101a01f41e4f0837"
    "904671f519bae1ae773d49431240d2a84912f51539f29b9451c880100000";
// and with --compress-mode=speed
const char* const kLz4 =
    "0100010150000000e800000000000000e200000040000000000009004b000000000000000000000011200000000000000000"
    "0000000000000c0100000000000048000000000000000000000000000000130a0100f01c2e76657273696f6e20392e300a2e"
    "74617267657420736d5f37350a2e616464726573735f73697a652036343100f3142e76697369626c65202e656e747279205f"
    "5a316b5069280a2e706172616d202e7536341400115f1200f4085f300a290a7b0a2e726567202e6233322025723c323e3b11"
    "00f2003634202572643c333e3b0a0a0a6c6446000145007a257264312c205b4c00f4025d3b0a637674612e746f2e676c6f62"
    "616c2b0021322c3100713b0a6d6f762e75670085312c20333b0a73742a00903332205b257264325d2c00d0313b0a7265743b"
    "0a0a7d0a0a00000000000000";

std::string bytes_of(const char* hex) {
  std::string bytes;
  for (; *hex; hex += 2) bytes += static_cast<char>(std::stoi(std::string(hex, 2), nullptr, 16));
  return bytes;
}

template <class Number>
void put(std::string* bytes, size_t at, Number number) {
  std::memcpy(bytes->data() + at, &number, sizeof number);
}

std::string entry(int kind, int architecture, uint64_t flags, std::string payload) {
  payload.resize((payload.size() + 7) / 8 * 8);
  std::string header(0x40, '\0');
  put<uint16_t>(&header, 0, static_cast<uint16_t>(kind));
  put<uint16_t>(&header, 2, 0x101);
  put<uint32_t>(&header, 4, 0x40);
  put<uint64_t>(&header, 8, payload.size());
  put<uint32_t>(&header, 0x1c, static_cast<uint32_t>(architecture));
  put<uint64_t>(&header, 0x28, flags | 0x11);
  return header + payload;
}

std::string fat_binary(const std::vector<std::string>& entries) {
  std::string all;
  for (const std::string& entry : entries) all += entry;
  std::string header(16, '\0');
  put<uint32_t>(&header, 0, kFatBinaryMagic);
  put<uint16_t>(&header, 4, 1);
  put<uint16_t>(&header, 6, 16);
  put<uint64_t>(&header, 8, all.size());
  return header + all;
}

std::span<const std::byte> view(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

std::string text(const std::string& target) {
  return ".version 9.0\n.target " + target + "\n.address_size 64\n.visible .entry k() { ret; }\n";
}

std::string chosen(const std::vector<std::string>& entries, Capability capability) {
  std::string bytes = fat_binary(entries);
  auto all = entries_of(view(bytes));
  EXPECT_TRUE(all) << all.error().message;
  const Entry* best = best_ptx(*all, capability);
  return best ? std::to_string(best->architecture) + (best->suffix ? std::string(1, best->suffix) : "")
              : "none";
}

TEST(FatBinary, CompressedEntriesAreRead) {
  for (const char* hex : {kZstd, kLz4}) {
    std::string bytes = fat_binary({entry(2, 75, 0,
                                          "\x7f"
                                          "ELF"),
                                    bytes_of(hex)});
    auto entries = entries_of(view(bytes));
    ASSERT_TRUE(entries) << entries.error().message;
    ASSERT_EQ(entries->size(), 2u);
    EXPECT_EQ((*entries)[0].kind, Entry::Kind::kMachineCode);
    EXPECT_EQ((*entries)[1].kind, Entry::Kind::kPtx);
    EXPECT_EQ((*entries)[1].architecture, 75);
    EXPECT_EQ(listed(*entries), "machine code for sm_75, PTX for compute_75");
    auto ptx = text_of((*entries)[1]);
    ASSERT_TRUE(ptx) << ptx.error().message;
    EXPECT_EQ(ptx->size(), (*entries)[1].size - 1);  // without its zero byte
    EXPECT_NE(ptx->find(".visible .entry _Z1kPi("), std::string::npos);
    EXPECT_NE(ptx->find("st.global.u32 [%rd2], %r1;"), std::string::npos);
    Loaded loaded = module_of(bytes.data(), {9, 0});
    ASSERT_TRUE(loaded.module) << loaded.why;
    EXPECT_EQ(loaded.module->functions.at(0).name, "_Z1kPi");
  }
}

TEST(FatBinary, TheBestPtxIsTheHighestThatTheDeviceRuns) {
  auto plain = [](int architecture) { return entry(1, architecture, 0, text("sm_75")); };
  auto own = entry(1, 90, 0x100000, text("sm_90a")), family = entry(1, 100, 0x200000, text("sm_100f"));
  EXPECT_EQ(chosen({plain(75), plain(90), plain(80), plain(100)}, {9, 0}), "90");
  EXPECT_EQ(chosen({plain(75), plain(90), plain(80)}, {8, 6}), "80");
  EXPECT_EQ(chosen({plain(90)}, {7, 5}), "none");
  EXPECT_EQ(chosen({plain(90), own}, {9, 0}), "90a");
  EXPECT_EQ(chosen({plain(80), own}, {10, 0}), "80");
  EXPECT_EQ(chosen({family, plain(90)}, {10, 3}), "100f");
  EXPECT_EQ(chosen({family, plain(90)}, {12, 0}), "90");
  EXPECT_EQ(chosen({entry(2, 90, 0, "ELF")}, {9, 0}), "none");
}

TEST(FatBinary, WithoutPtxTheErrorNamesTheNvccOption) {
  std::string bytes = fat_binary({entry(2, 75, 0, "ELF"), entry(8, 75, 0, "NVVM")});
  Texts texts = texts_of(bytes.data(), {9, 0});
  EXPECT_EQ(texts.refused, Refusal::kNoPtx);
  EXPECT_NE(texts.why.find("machine code for sm_75, link-time code for lto_75"), std::string::npos)
      << texts.why;
  EXPECT_NE(texts.why.find("-gencode arch=compute_75,code=compute_75"), std::string::npos) << texts.why;
  EXPECT_EQ(texts.why.find('\n'), std::string::npos);
}

TEST(FatBinary, ImagesAreDistinguished) {
  EXPECT_EQ(texts_of(text("sm_75").c_str(), {9, 0}).texts.at(0), text("sm_75"));
  EXPECT_EQ(texts_of("\x7f"
                     "ELF\2\1\1",
                     {9, 0})
                .refused,
            Refusal::kNoPtx);
  EXPECT_EQ(texts_of("", {9, 0}).refused, Refusal::kNoImage);
  EXPECT_EQ(texts_of("\x01\x02", {9, 0}).refused, Refusal::kNoImage);
  EXPECT_EQ(texts_of(nullptr, {9, 0}).refused, Refusal::kNoImage);
  EXPECT_EQ(module_of("not PTX", {9, 0}).refused, Refusal::kBadPtx);
  EXPECT_EQ(module_of(text("sm_90").c_str(), {7, 5}).refused, Refusal::kBadPtx);
  EXPECT_EQ(module_of(text("sm_90a").c_str(), {9, 0}).refused, Refusal::kNone);
  EXPECT_EQ(module_of(text("sm_90a").c_str(), {10, 0}).refused, Refusal::kBadPtx);
}

TEST(FatBinary, WrappersLeadToOneOrToAllParts) {
  std::string a = fat_binary({entry(1, 75, 0,
                                    ".version 9.0\n.target sm_75\n.address_size 64\n.extern .func f;\n"
                                    ".visible .entry k() { call f; ret; }\n")});
  std::string b = fat_binary(
      {entry(1, 75, 0, ".version 9.0\n.target sm_75\n.address_size 64\n.visible .func f { ret; }\n")});
  std::string linked = fat_binary({entry(2, 75, 0, "ELF")});
  struct {
    uint32_t magic = 0x466243b1, version = 1;
    const void* data;
    const void* list;
  } wrapper{.data = a.data(), .list = nullptr};
  EXPECT_EQ(module_of(&wrapper, {9, 0}).module.value().functions.size(), 2u);
  const void* parts[] = {a.data(), b.data(), nullptr};
  wrapper.version = 2;
  wrapper.data = linked.data();
  wrapper.list = parts;
  Loaded both = module_of(&wrapper, {9, 0});
  ASSERT_TRUE(both.module) << both.why;
  ASSERT_EQ(both.module->functions.size(), 2u);
  EXPECT_TRUE(both.module->functions[0].has_body && both.module->functions[1].has_body);
  wrapper.version = 3;
  EXPECT_EQ(module_of(&wrapper, {9, 0}).refused, Refusal::kNoImage);
}

TEST(FatBinary, DamageIsFoundAndNeverReadBeyond) {
  std::string whole = fat_binary({bytes_of(kZstd), bytes_of(kLz4), entry(1, 80, 0, text("sm_80"))});
  ASSERT_TRUE(entries_of(view(whole)));
  for (size_t size = 0; size < whole.size(); size++) {
    std::string cut = whole.substr(0, size);  // its own allocation, whose end sanitizers watch
    EXPECT_FALSE(entries_of(view(cut))) << size;
  }
  uint64_t random = 1;
  for (int i = 0; i < 8000; i++) {
    std::string damaged = whole;
    for (int k = 0; k < 2; k++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      // mostly headers, where sizes are
      size_t at = (random >> 33) % (i % 2 ? damaged.size() : 16 + 0x50);
      damaged[at] = static_cast<char>(random >> 25);
    }
    auto entries = entries_of(view(damaged));
    if (!entries) continue;
    for (const Entry& entry : *entries)
      if (entry.kind == Entry::Kind::kPtx && entry.size < 1 << 20) (void)text_of(entry);
  }
  // A size that no text has is not even allocated.
  std::string huge = fat_binary({bytes_of(kZstd)});
  put<uint64_t>(&huge, 16 + 0x38, uint64_t{1} << 60);
  auto entries = entries_of(view(huge));
  ASSERT_TRUE(entries);
  EXPECT_FALSE(text_of(entries->at(0)));
}

TEST(FatBinary, Lz4BlocksFillExactlyOrAreRefused) {
  // Four literals, then seven bytes that overlap what they copy, then a last literal.
  const std::string block = std::string(
      "\x43"
      "abcd"
      "\x02\x00"
      "\x10"
      "z",
      9);
  std::string into(12, '\0');
  auto bytes = [](std::string& text) { return std::as_writable_bytes(std::span(text)); };
  ASSERT_TRUE(decompress_lz4(view(block), bytes(into)));
  EXPECT_EQ(into, "abcdcdcdcdcz");
  std::string small(11, '\0'), large(13, '\0');
  EXPECT_FALSE(decompress_lz4(view(block), bytes(small)));
  EXPECT_FALSE(decompress_lz4(view(block), bytes(large)));
  std::string before(
      "\x13"
      "a"
      "\x05\x00",
      4);  // copies from before the beginning
  EXPECT_FALSE(decompress_lz4(view(before), bytes(into)));
}

}  // namespace
}  // namespace cropdl::ptx

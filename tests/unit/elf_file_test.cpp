// links: cropdl_launch
// Truncated or damaged program files are refused, and every byte of an accepted file can be read.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "interpose/launch/elf_file.h"

namespace cropdl::launching {
namespace {

std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ElfFiles : public ::testing::Test {
 protected:
  ElfFiles() {
    std::string name = "/tmp/cropdl-test." + std::to_string(::getpid()) + ".XXXXXX";
    path_ = mkdtemp(name.data());
    whole_ = bytes_of_file("/bin/true");
  }
  ~ElfFiles() override { std::filesystem::remove_all(path_); }

  // Reads and maps a file of these bytes, and touches every readable byte. Returns "", or the refusal.
  std::string tried(const std::string& bytes) {
    const std::string file = path_ + "/program";
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    const auto elf = read_elf(file);
    if (!elf) return elf.error().message;
    const auto mapped = map_elf(*elf, 0x4f0000000000);
    if (!mapped) {
      munmap(reinterpret_cast<void*>(0x4f0000000000), 1ull << 32);
      return mapped.error().message;
    }
    uint64_t sum = 0;
    for (const auto& s : elf->segments)
      if (s.p_type == PT_LOAD && (s.p_flags & PF_R) != 0)
        for (uint64_t at = 0; at < s.p_memsz && at < 1 << 20; at += 512)
          sum += *reinterpret_cast<volatile unsigned char*>(mapped->bias + s.p_vaddr + at);
    munmap(reinterpret_cast<void*>(mapped->begin), mapped->end - mapped->begin);
    sum_ += sum;
    return "";
  }

  std::string path_, whole_;
  uint64_t sum_ = 0;
};

TEST_F(ElfFiles, AWholeOneIsMapped) { EXPECT_EQ(tried(whole_), ""); }

TEST_F(ElfFiles, ALargerAlignmentIsKeptWhereverItIsMapped) {
  auto elf = read_elf("/bin/true");
  ASSERT_TRUE(elf) << elf.error().message;
  for (auto& s : elf->segments)
    if (s.p_type == PT_LOAD) s.p_align = 2 << 20;
  const auto mapped = map_elf(*elf, 0x4f0000003000);
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_EQ(mapped->bias, 0x4f0000200000u);
  munmap(reinterpret_cast<void*>(mapped->begin), mapped->end - mapped->begin);
}

TEST_F(ElfFiles, TruncatedBeforeTheEndOfTheSegmentsIsRefused) {
  const auto elf = read_elf("/bin/true");
  uint64_t end = 0;
  for (const auto& s : elf->segments)
    if (s.p_type == PT_LOAD) end = std::max<uint64_t>(end, s.p_offset + s.p_filesz);
  ASSERT_GT(end, 5000u);
  for (uint64_t size = 0; size < end; size += 397) {
    const std::string line = tried(whole_.substr(0, size));
    EXPECT_NE(line, "") << "cut at " << size;
    if (size > 4096) {
      EXPECT_NE(line.find(": is cut short: it has " + std::to_string(size) + " bytes"), std::string::npos)
          << line;
    }
  }
}

TEST_F(ElfFiles, DamagedHeadersAreRefusedOrHarmless) {
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string bytes = whole_;
    for (int n = 1 + static_cast<int>(random() % 3); n > 0; --n)
      bytes[random() % (64 + 13 * 56)] = static_cast<char>(random() % 4 != 0 ? random() : 0xff);
    refused += !tried(bytes).empty();
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace cropdl::launching

// Fixture for tests of images and stores: a directory per test, small valid images and versions.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include "base/time.h"
#include "interpose/seam/layout.h"
#include "restart/image.h"
#include "restart/page_sources.h"
#include "restart/store.h"

namespace cropdl::restart {

class StoreFixture : public ::testing::Test {
 protected:
  StoreFixture() {
    std::string pattern = "/tmp/cropdl-test." + std::to_string(::getpid()) + ".XXXXXX";
    scratch_ = ::mkdtemp(pattern.data());
  }
  ~StoreFixture() override {
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }

  std::string path(const std::string& name) const { return scratch_ + "/" + name; }

  static std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    ASSERT_TRUE(out.good());
  }

  // Runs `body` in a forked child. Returns its exit status, or 128 + the signal that killed it.
  static int in_child(const std::function<int()>& body) {
    pid_t child = ::fork();
    if (child == 0) [&]() noexcept { ::_exit(body()); }();  // an exception terminates the child
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  // While it lives, this process's files cannot grow beyond `bytes`: a full disk, for ordinary users.
  class FullDisk {
   public:
    explicit FullDisk(rlim_t bytes) {
      ::getrlimit(RLIMIT_FSIZE, &before_);
      rlimit limit{bytes, before_.rlim_max};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      handler_ = ::signal(SIGXFSZ, SIG_IGN);
    }
    ~FullDisk() {
      ::setrlimit(RLIMIT_FSIZE, &before_);
      ::signal(SIGXFSZ, handler_);
    }

   private:
    rlimit before_{};
    sighandler_t handler_;
  };

  std::string scratch_;
};

// Memory at a fixed address, like an upper half's.
class Memory {
 public:
  Memory(uint64_t address, uint64_t bytes) : address_(address), bytes_(bytes) { map(); }
  ~Memory() { ::munmap(data(), bytes_); }
  void renew() {  // fresh and zero, as in a restart
    ::munmap(data(), bytes_);
    map();
  }
  char* data() const { return reinterpret_cast<char*>(address_); }
  uint64_t begin() const { return address_; }
  uint64_t end() const { return address_ + bytes_; }

 private:
  void map() {
    void* at = ::mmap(data(), bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(at, static_cast<void*>(data()));
  }
  uint64_t address_, bytes_;
};

constexpr uint64_t kTestAddress = 0x4800'0000'0000;

// Reproducible bytes, none of them zero.
inline void fill(char* to, uint64_t bytes, uint64_t seed) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + 1;
  for (uint64_t i = 0; i < bytes; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    to[i] = static_cast<char>(x % 255 + 1);
  }
}

// Saves a region from its own address.
inline Status add_region(ImageWriter& writer, const Region& region) {
  LivePages source;
  return cut_region(region, source, nullptr, writer);
}

// An image with one page of memory, filled from `seed`.
inline ManifestImage write_image(const std::string& directory, uint32_t rank, uint64_t seed = 1,
                                 const std::string& metadata = "{}") {
  Memory memory(kTestAddress, kImagePage);
  fill(memory.data(), kImagePage, seed);
  Result<ImageWriter> writer = ImageWriter::create(directory + "/" + image_name(rank), seam::kSeamVersion);
  EXPECT_TRUE(writer) << writer.error().message;
  Status added = add_region(
      *writer,
      {memory.begin(), memory.end(), PROT_READ | PROT_WRITE, "page", {{memory.begin(), memory.end()}}});
  EXPECT_TRUE(added) << added.error().message;
  Result<ImageTotals> totals = writer->finish(metadata);
  EXPECT_TRUE(totals) << totals.error().message;
  return {image_name(rank), totals->bytes, totals->memory, totals->checksum, "node"};
}

inline StoreIdentity test_job() { return {"job-1", "/bin/train", {"--epochs", "3"}, 2}; }

inline Manifest test_manifest(const StoreIdentity& job = test_job()) {
  Manifest manifest;
  manifest.seam = seam::kSeamVersion;
  manifest.created = utc_now();
  manifest.job = job.job;
  manifest.ranks = job.ranks;
  manifest.program = job.program;
  manifest.args = job.args;
  manifest.cwd = "/home/me";
  manifest.mpi_name = "openmpi";
  manifest.mpi_version = "4.1.4";
  manifest.launcher = "/usr/bin/mpirun";
  manifest.launcher_options = {"-n", "2"};
  manifest.glibc = "2.36";
  manifest.kernel = "6.1";
  manifest.cpu_features = {"avx2", "fma"};
  manifest.stall_seconds = 0.0125;
  manifest.wait_seconds = 0.0005;
  return manifest;
}

inline std::vector<Version> all_versions(const StoreReader& reader) {
  Result<std::vector<Version>> all = reader.all_versions();
  EXPECT_TRUE(all) << all.error().message;
  return all ? std::move(*all) : std::vector<Version>();
}

// Writes and publishes one version; the first of a run restarted from that version, unless 0.
inline Result<uint64_t> publish_version(Store& store, const StoreIdentity& job = test_job(),
                                        uint64_t restarted_from = 0) {
  Result<Store::Draft> draft = store.begin_version();
  if (!draft) return draft.error();
  Manifest manifest = test_manifest(job);
  manifest.parent = restarted_from;
  manifest.restarted = restarted_from != 0;
  for (uint32_t rank = 0; rank < job.ranks; ++rank)
    manifest.images.push_back(write_image(draft->directory, rank, draft->number));
  return store.publish(manifest);
}

}  // namespace cropdl::restart

// Copies device memory into images and back through two pinned buffers: while one is examined, hashed and
// written, the device copies the next data into the other; at a load, the reverse. LH, LH FS base; one thread
// at a time; the program and its devices are stopped.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "gpu_state/memory/driver.h"
#include "restart/chunks.h"

namespace cropdl::memory {

// Two buffers with one stream each in one device's context, and a third stream for zeroing. Where the first
// access to memory is slow (on a software device), several streams share that cost.
class Staging {
 public:
  static constexpr uint64_t kBytes = uint64_t{8} << 20;  // of each buffer

  Staging(const Driver& driver, CUcontext context) : driver_(driver), context_(context) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  Status begin();  // call first

  const Driver& driver() const { return driver_; }
  CUcontext context() const { return context_; }
  CUstream stream(size_t which) const { return streams_[which]; }
  CUstream zeros() const { return streams_[2]; }
  CUresult wait() const;  // for all copies that have begun
  char* buffer(size_t which) const { return static_cast<char*>(buffers_[which]); }
  CUevent event(size_t which) const { return events_[which]; }

 private:
  const Driver& driver_;
  const CUcontext context_;
  std::array<CUstream, 3> streams_{};
  std::array<void*, 2> buffers_{};
  std::array<CUevent, 2> events_{};
};

// The device address of a part of a region.
struct Piece {
  uint64_t begin, size;  // in the region
  CUdeviceptr address;
};

// The pages of one region. They must be read in the order of cut_region: all of `present`, ascending.
// `pieces`, ascending and disjoint, maps parts of the region to device addresses; other parts read as zeros.
// Without pieces, the region's addresses are device addresses.
class DevicePages final : public restart::PageSource {
 public:
  DevicePages(Staging& staging, std::vector<restart::Extent> present, std::vector<Piece> pieces = {});
  ~DevicePages() override;
  Status read(std::span<const restart::Extent> runs, std::vector<iovec>* bytes) override;

 private:
  struct Filled {
    std::vector<restart::Extent> runs;  // each within a chunk
    size_t next = 0;                    // index of the next run to return
    uint64_t offset = 0;                // of the next run in the buffer
  };
  Status fill(size_t which);
  CUresult copy(restart::Extent part, char* to, CUstream stream);

  Staging& staging_;
  const std::vector<restart::Extent> present_;
  const std::vector<Piece> pieces_;
  size_t extent_ = 0;  // `present_` has been read into the buffers up to this extent and address
  uint64_t at_ = 0;
  std::array<Filled, 2> filled_;
  size_t current_ = 0;
  bool begun_ = false;
};

// Writes one region to the device. Parts of the region that are not stored are zeroed while the rest is read.
class DeviceTarget final : public restart::PageTarget {
 public:
  DeviceTarget(Staging& staging, std::vector<Piece> pieces = {});
  ~DeviceTarget() override;
  // Call first. `stored`: ascending, disjoint.
  Status begin(restart::Extent region, std::span<const restart::Extent> stored);
  Status room(std::span<const restart::Extent> runs, std::vector<iovec>* bytes) override;
  Status put(std::span<const restart::Extent> runs) override;
  Status finish() override;

 private:
  CUresult pass_on(restart::Extent part, const char* from, CUstream stream);  // nullptr: writes zeros
  Status flush();

  Staging& staging_;
  const std::vector<Piece> pieces_;
  restart::Extent waits_{};  // pages in the buffer whose copy has not begun
  const char* waits_at_ = nullptr;
  size_t current_ = 0;
  uint64_t used_ = 0;  // bytes of the current buffer that put() has got
};

}  // namespace cropdl::memory

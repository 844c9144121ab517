// How device memory gets into images and back: through two pinned buffers of bounded size. While one is
// looked at, hashed and written, the device copies what comes next into the other; the reverse when an image
// is loaded. LH, LH FS base; one thread at a time; the program and its devices stand still.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "gpu_state/memory/driver.h"
#include "restart/chunks.h"

namespace cropdl::memory {

// Two buffers, each with a stream of its own in one device's context, and a stream for zeros: where the first
// touch of memory costs (a software device's), several pay for it.
class Staging {
 public:
  static constexpr uint64_t kBytes = uint64_t{8} << 20;  // of each

  Staging(const Driver& driver, CUcontext context) : driver_(driver), context_(context) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  Status begin();  // before anything else

  const Driver& driver() const { return driver_; }
  CUcontext context() const { return context_; }
  CUstream stream(size_t which) const { return streams_[which]; }
  CUstream zeros() const { return streams_[2]; }
  CUresult wait() const;  // for all that was begun
  char* buffer(size_t which) const { return static_cast<char*>(buffers_[which]); }
  CUevent event(size_t which) const { return events_[which]; }

 private:
  const Driver& driver_;
  const CUcontext context_;
  std::array<CUstream, 3> streams_{};
  std::array<void*, 2> buffers_{};
  std::array<CUevent, 2> events_{};
};

// Where addresses of a region lie on the device.
struct Piece {
  uint64_t begin, size;  // in the region
  CUdeviceptr address;
};

// Pages of one region, to be read in the order of cut_region: all of `present`, ascending. `pieces`,
// ascending and disjoint: what of the region is where; the rest reads as zeros. None: addresses are the
// device's.
class DevicePages final : public restart::PageSource {
 public:
  DevicePages(Staging& staging, std::vector<restart::Extent> present, std::vector<Piece> pieces = {});
  ~DevicePages() override;
  Status read(std::span<const restart::Extent> runs, std::vector<iovec>* bytes) override;

 private:
  struct Filled {
    std::vector<restart::Extent> runs;  // each within a chunk
    size_t next = 0;                    // of them, to be handed out
    uint64_t offset = 0;                // of the next one
  };
  Status fill(size_t which);
  CUresult copy(restart::Extent part, char* to, CUstream stream);

  Staging& staging_;
  const std::vector<restart::Extent> present_;
  const std::vector<Piece> pieces_;
  size_t extent_ = 0;  // up to which `present_` is in the buffers, or was
  uint64_t at_ = 0;
  std::array<Filled, 2> filled_;
  size_t current_ = 0;
  bool begun_ = false;
};

// The reverse; what of the region is not stored becomes zero, while the rest is read.
class DeviceTarget final : public restart::PageTarget {
 public:
  DeviceTarget(Staging& staging, std::vector<Piece> pieces = {});
  ~DeviceTarget() override;
  // Before anything else. `stored`: ascending, disjoint.
  Status begin(restart::Extent region, std::span<const restart::Extent> stored);
  Status room(std::span<const restart::Extent> runs, std::vector<iovec>* bytes) override;
  Status put(std::span<const restart::Extent> runs) override;
  Status finish() override;

 private:
  CUresult pass_on(restart::Extent part, const char* from, CUstream stream);  // nullptr: zeros
  Status flush();

  Staging& staging_;
  const std::vector<Piece> pieces_;
  restart::Extent waits_{};  // pages in the buffer that no copy was begun of
  const char* waits_at_ = nullptr;
  size_t current_ = 0;
  uint64_t used_ = 0, room_ = 0;  // bytes of the current buffer: of what was put, and of what is to come
};

}  // namespace cropdl::memory

// Copies device memory into images and back through two pinned buffers: while one is examined, hashed and
// written, the device copies the next data into the other; at a load, the reverse. LH, LH FS base; one thread
// at a time; the program and its devices are stopped.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "gpu_state/memory/driver.h"
#include "restart/chunks.h"

namespace cropdl::memory {

// Two buffers with one stream each, and a third stream for zeroing, for one device at a time, to bound their
// memory. Where the first access to memory is slow (on a software device), several streams share that cost.
struct Staging {
  static constexpr uint64_t kBytes = uint64_t{8} << 20;  // of each buffer

  // Both must outlive it.
  Staging(const Driver& the_driver, const std::function<CUcontext(int device)>& contexts)
      : driver(the_driver), context_of(contexts) {}
  ~Staging() { end(); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  Status begin(int device);  // call first, and for each device
  CUresult wait() const;     // for all copies that have begun
  void end();

  const Driver& driver;
  const std::function<CUcontext(int)>& context_of;
  int device = -1;
  CUcontext context = nullptr;
  std::array<CUstream, 3> streams{};  // the third one zeroes
  std::array<char*, 2> buffers{};
  std::array<CUevent, 2> events{};
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
  DevicePages(Staging& staging, const std::vector<restart::Extent>& present, std::vector<Piece> pieces);
  ~DevicePages() override;
  Status read(std::span<const restart::Extent> runs, std::vector<iovec>* bytes) override;

 private:
  Status fill(size_t which);
  CUresult copy(restart::Extent part, char* to, CUstream stream);

  Staging& staging_;
  const std::vector<Piece> pieces_;
  std::vector<restart::Extent> runs_;  // of `present`, each within a chunk
  size_t copied_ = 0;                  // the first run that has not been read into a buffer
  std::array<size_t, 2> ends_{};       // for each buffer the run behind its last
  size_t current_ = 1;                 // the buffer that has the next run, unless all of its are returned
  size_t next_ = 0;                    // the next run to return
  uint64_t offset_ = 0;                // its place in the buffer
};

// Writes one region to the device. Parts of the region that are not stored are zeroed while the rest is read.
class DeviceTarget final : public restart::PageTarget {
 public:
  DeviceTarget(Staging& staging, std::vector<Piece> pieces);
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

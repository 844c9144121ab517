#include "gpu_state/memory/device_pages.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cropdl::memory {

using restart::Extent;
using restart::kImageChunk;

namespace {

static_assert(Staging::kBytes % kImageChunk == 0);

constexpr char kUnread[] = "device memory cannot be read";
constexpr char kUnwritten[] = "device memory cannot be written";

// Calls visit(device address, offset in the part, bytes), or missing(offset, bytes) where there is none.
template <class Visit, class Missing>
CUresult each_piece(const std::vector<Piece>& pieces, Extent part, Visit visit, Missing missing) {
  if (pieces.empty()) return visit(part.begin, uint64_t{0}, part.end - part.begin);
  auto one = std::partition_point(pieces.begin(), pieces.end(),
                                  [&](const Piece& p) { return p.begin + p.size <= part.begin; });
  uint64_t at = part.begin;
  for (; at < part.end; ++one) {
    const uint64_t begin = one == pieces.end() ? part.end : std::clamp(one->begin, at, part.end);
    if (begin > at) missing(at - part.begin, begin - at);
    if (begin == part.end) break;
    const uint64_t end = std::min(part.end, one->begin + one->size);
    if (const CUresult error = visit(one->address + (begin - one->begin), begin - part.begin, end - begin))
      return error;
    at = end;
  }
  return CUDA_SUCCESS;
}

}  // namespace

void Staging::end() {
  if (!context) return;
  const InContext in(driver, context);
  wait();
  for (CUstream& stream : streams)
    if (stream) driver.cuStreamDestroy_v2(std::exchange(stream, nullptr));
  for (CUevent& event : events)
    if (event) driver.cuEventDestroy_v2(std::exchange(event, nullptr));
  for (char*& buffer : buffers)
    if (buffer) driver.cuMemFreeHost(std::exchange(buffer, nullptr));
}

Status Staging::begin(int of) {
  if (context && device == of) return {};
  end();
  context = context_of(of);
  if (!context) return Error{"CUDA: device {} has no context any more", of};
  const InContext in(driver, context);
  const OutsideOfCaptures outside(driver);
  CUresult error = in.result();
  for (CUstream& stream : streams)
    if (!error) error = driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  for (size_t i = 0; i < 2 && !error; ++i) {
    void* buffer = nullptr;
    error = driver.cuMemHostAlloc(&buffer, kBytes, CU_MEMHOSTALLOC_PORTABLE);
    buffers[i] = static_cast<char*>(buffer);
    if (!error) error = driver.cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
  }
  device = error ? -1 : of;
  return driver.checked(error, "device memory cannot be staged");
}

CUresult Staging::wait() const {
  CUresult error = CUDA_SUCCESS;
  for (CUstream stream : streams) {
    const CUresult its = stream ? driver.cuStreamSynchronize(stream) : CUDA_SUCCESS;
    if (!error) error = its;
  }
  return error;
}

DevicePages::DevicePages(Staging& staging, const std::vector<Extent>& present, std::vector<Piece> pieces)
    : staging_(staging), pieces_(std::move(pieces)) {
  (void)restart::each_chunk(present, kImageChunk, [&](std::span<const Extent> runs) -> Status {
    runs_.insert(runs_.end(), runs.begin(), runs.end());
    return {};
  });
}

// Waits for copies that nobody will read, so that they do not write into the buffers' next use.
DevicePages::~DevicePages() { staging_.wait(); }

CUresult DevicePages::copy(Extent part, char* to, CUstream stream) {
  const Driver& driver = staging_.driver;
  return each_piece(
      pieces_, part,
      [&](CUdeviceptr from, uint64_t offset, uint64_t bytes) {
        return driver.cuMemcpyDtoHAsync_v2(to + offset, from, bytes, stream);
      },
      [&](uint64_t offset, uint64_t bytes) { std::memset(to + offset, 0, bytes); });
}

// Fills a buffer with the next whole chunks that fit. No chunk is in both buffers.
Status DevicePages::fill(size_t which) {
  char* const buffer = staging_.buffers[which];
  const CUstream stream = staging_.streams[which];
  uint64_t used = 0;
  Extent pending{};  // one copy for adjacent runs
  uint64_t pending_offset = 0;
  CUresult error = CUDA_SUCCESS;
  for (; copied_ < runs_.size() && !error; ++copied_) {
    const Extent run = runs_[copied_];
    const bool new_chunk = used != 0 && run.begin / kImageChunk != runs_[copied_ - 1].begin / kImageChunk;
    if (new_chunk && used + kImageChunk > Staging::kBytes) break;
    if (pending.end != run.begin) {
      if (pending.end) error = copy(pending, buffer + pending_offset, stream);
      pending = {run.begin, run.begin};
      pending_offset = used;
    }
    pending.end = run.end;
    used += run.end - run.begin;
  }
  ends_[which] = copied_;
  if (!error && pending.end) error = copy(pending, buffer + pending_offset, stream);
  if (!error && used) error = staging_.driver.cuEventRecord(staging_.events[which], stream);
  return staging_.driver.checked(error, kUnread);
}

Status DevicePages::read(std::span<const Extent> runs, std::vector<iovec>* bytes) {
  const Driver& driver = staging_.driver;
  const InContext in(driver, staging_.context);
  if (copied_ == 0)
    if (Status filled = fill(0); !filled) return filled;
  if (next_ == ends_[current_]) {
    if (Status filled = fill(current_); !filled) return filled;
    current_ ^= 1;
    offset_ = 0;
    const CUresult error = driver.cuEventSynchronize(staging_.events[current_]);
    if (error) return driver.checked(error, kUnread);
  }
  for (const Extent& run : runs) {
    if (next_ == ends_[current_] || !(runs_[next_] == run))
      return Error{"device memory is not read in the order of its addresses"};  // a mistake of the caller
    bytes->push_back({staging_.buffers[current_] + offset_, run.end - run.begin});
    offset_ += run.end - run.begin;
    ++next_;
  }
  return {};
}

DeviceTarget::DeviceTarget(Staging& staging, std::vector<Piece> pieces)
    : staging_(staging), pieces_(std::move(pieces)) {}

DeviceTarget::~DeviceTarget() { staging_.wait(); }

Status DeviceTarget::begin(Extent region, std::span<const Extent> stored) {
  const InContext in(staging_.driver, staging_.context);
  uint64_t at = region.begin;
  CUresult error = CUDA_SUCCESS;
  for (const Extent& one : stored) {
    if (!error) error = pass_on({at, one.begin}, nullptr, staging_.streams[2]);
    at = one.end;
  }
  if (!error) error = pass_on({at, region.end}, nullptr, staging_.streams[2]);
  return staging_.driver.checked(error, kUnwritten);
}

CUresult DeviceTarget::pass_on(Extent part, const char* from, CUstream stream) {
  const Driver& driver = staging_.driver;
  if (part.begin == part.end) return CUDA_SUCCESS;
  return each_piece(
      pieces_, part,
      [&](CUdeviceptr to, uint64_t offset, uint64_t bytes) {
        return from ? driver.cuMemcpyHtoDAsync_v2(to, from + offset, bytes, stream)
                    : driver.cuMemsetD8Async(to, 0, bytes, stream);
      },
      [](uint64_t, uint64_t) {});
}

Status DeviceTarget::flush() {
  const CUresult error = waits_at_ ? pass_on(waits_, waits_at_, staging_.streams[current_]) : CUDA_SUCCESS;
  waits_at_ = nullptr;
  return staging_.driver.checked(error, kUnwritten);
}

Status DeviceTarget::room(std::span<const Extent> runs, std::vector<iovec>* bytes) {
  const Driver& driver = staging_.driver;
  const InContext in(driver, staging_.context);
  const uint64_t all = restart::bytes_of(runs);
  if (all > Staging::kBytes)
    return Error{"the image's chunks ({} bytes) are larger than what this CropDL loads to devices", all};
  if (used_ + all > Staging::kBytes) {
    if (Status flushed = flush(); !flushed) return flushed;
    CUresult error = driver.cuEventRecord(staging_.events[current_], staging_.streams[current_]);
    current_ ^= 1;
    used_ = 0;
    // Returns immediately if the event was never recorded.
    if (!error) error = driver.cuEventSynchronize(staging_.events[current_]);
    if (error) return driver.checked(error, kUnwritten);
  }
  char* at = staging_.buffers[current_] + used_;
  for (const Extent& run : runs) {
    bytes->push_back({at, run.end - run.begin});
    at += run.end - run.begin;
  }
  return {};
}

Status DeviceTarget::put(std::span<const Extent> runs) {
  const InContext in(staging_.driver, staging_.context);
  for (const Extent& run : runs) {
    const char* at = staging_.buffers[current_] + used_;
    used_ += run.end - run.begin;
    if (waits_at_ && waits_.end == run.begin) {
      waits_.end = run.end;  // also adjacent in the buffer: flushed before the buffer changes
      continue;
    }
    if (Status flushed = flush(); !flushed) return flushed;
    waits_ = run;
    waits_at_ = at;
  }
  return {};
}

Status DeviceTarget::finish() {
  const Driver& driver = staging_.driver;
  const InContext in(driver, staging_.context);
  if (Status flushed = flush(); !flushed) return flushed;
  used_ = 0;
  return driver.checked(staging_.wait(), kUnwritten);
}

}  // namespace cropdl::memory

#include "gpu_state/memory/device_pages.h"

#include <algorithm>
#include <cstring>

namespace cropdl::memory {

using restart::Extent;
using restart::kImageChunk;

namespace {

static_assert(Staging::kBytes % kImageChunk == 0);

Status done(const Driver& driver, const char* what, CUresult result) {
  if (result == CUDA_SUCCESS) return {};
  return Error{"CUDA: device memory cannot be {} ({})", what, driver.name_of(result)};
}

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

Staging::~Staging() {
  const InContext in(driver_, context_);
  wait();
  for (CUstream stream : streams_)
    if (stream) driver_.cuStreamDestroy_v2(stream);
  for (CUevent event : events_)
    if (event) driver_.cuEventDestroy_v2(event);
  for (void* buffer : buffers_)
    if (buffer) driver_.cuMemFreeHost(buffer);
}

Status Staging::begin() {
  const InContext in(driver_, context_);
  const OutsideOfCaptures outside(driver_);
  CUresult error = in.result();
  for (CUstream& stream : streams_)
    if (!error) error = driver_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  for (size_t i = 0; i < 2 && !error; ++i) {
    error = driver_.cuMemHostAlloc(&buffers_[i], kBytes, CU_MEMHOSTALLOC_PORTABLE);
    if (!error) error = driver_.cuEventCreate(&events_[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
  }
  return done(driver_, "staged", error);
}

CUresult Staging::wait() const {
  CUresult error = CUDA_SUCCESS;
  for (CUstream stream : streams_) {
    const CUresult its = stream ? driver_.cuStreamSynchronize(stream) : CUDA_SUCCESS;
    if (!error) error = its;
  }
  return error;
}

DevicePages::DevicePages(Staging& staging, std::vector<Extent> present, std::vector<Piece> pieces)
    : staging_(staging), present_(std::move(present)), pieces_(std::move(pieces)) {
  if (!present_.empty()) at_ = present_.front().begin;
}

// Waits for copies that nobody will read, so that they do not write into the buffers' next use.
DevicePages::~DevicePages() { staging_.wait(); }

CUresult DevicePages::copy(Extent part, char* to, CUstream stream) {
  const Driver& driver = staging_.driver();
  return each_piece(
      pieces_, part,
      [&](CUdeviceptr from, uint64_t offset, uint64_t bytes) {
        return driver.cuMemcpyDtoHAsync_v2(to + offset, from, bytes, stream);
      },
      [&](uint64_t offset, uint64_t bytes) { std::memset(to + offset, 0, bytes); });
}

// Fills a buffer with the next whole chunks that fit. No chunk is in both buffers.
Status DevicePages::fill(size_t which) {
  Filled& filled = filled_[which];
  filled = {};
  char* const buffer = staging_.buffer(which);
  const CUstream stream = staging_.stream(which);
  uint64_t used = 0, block = ~uint64_t{0};
  Extent pending{};  // one copy for adjacent runs
  uint64_t pending_offset = 0;
  CUresult error = CUDA_SUCCESS;
  while (extent_ < present_.size() && !error) {
    const Extent& extent = present_[extent_];
    if (at_ == extent.end) {
      if (++extent_ < present_.size()) at_ = present_[extent_].begin;
      continue;
    }
    if (at_ / kImageChunk != block && used + kImageChunk > Staging::kBytes) break;
    block = at_ / kImageChunk;
    const Extent run{at_, std::min(extent.end, (block + 1) * kImageChunk)};
    if (pending.end != run.begin) {
      if (pending.end) error = copy(pending, buffer + pending_offset, stream);
      pending = {run.begin, run.begin};
      pending_offset = used;
    }
    pending.end = run.end;
    filled.runs.push_back(run);
    used += run.end - run.begin;
    at_ = run.end;
  }
  if (!error && pending.end) error = copy(pending, buffer + pending_offset, stream);
  if (!error && used) error = staging_.driver().cuEventRecord(staging_.event(which), stream);
  return done(staging_.driver(), "read", error);
}

Status DevicePages::read(std::span<const Extent> runs, std::vector<iovec>* bytes) {
  const Driver& driver = staging_.driver();
  const InContext in(driver, staging_.context());
  const auto wait = [&] { return done(driver, "read", driver.cuEventSynchronize(staging_.event(current_))); };
  if (!begun_) {
    begun_ = true;
    for (size_t which = 0; which < 2; ++which)
      if (Status filled = fill(which); !filled) return filled;
    if (Status waited = wait(); !waited) return waited;
  }
  if (filled_[current_].next == filled_[current_].runs.size()) {
    if (Status filled = fill(current_); !filled) return filled;
    current_ ^= 1;
    if (Status waited = wait(); !waited) return waited;
  }
  Filled& filled = filled_[current_];
  for (const Extent& run : runs) {
    if (filled.next == filled.runs.size() || !(filled.runs[filled.next] == run))
      return Error{"device memory is not read in the order of its addresses"};  // a mistake of the caller
    bytes->push_back({staging_.buffer(current_) + filled.offset, run.end - run.begin});
    filled.offset += run.end - run.begin;
    ++filled.next;
  }
  return {};
}

DeviceTarget::DeviceTarget(Staging& staging, std::vector<Piece> pieces)
    : staging_(staging), pieces_(std::move(pieces)) {}

DeviceTarget::~DeviceTarget() { staging_.wait(); }

Status DeviceTarget::begin(Extent region, std::span<const Extent> stored) {
  const InContext in(staging_.driver(), staging_.context());
  uint64_t at = region.begin;
  CUresult error = CUDA_SUCCESS;
  for (const Extent& one : stored) {
    if (!error) error = pass_on({at, one.begin}, nullptr, staging_.zeros());
    at = one.end;
  }
  if (!error) error = pass_on({at, region.end}, nullptr, staging_.zeros());
  return done(staging_.driver(), "written", error);
}

CUresult DeviceTarget::pass_on(Extent part, const char* from, CUstream stream) {
  const Driver& driver = staging_.driver();
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
  const CUresult error = waits_at_ ? pass_on(waits_, waits_at_, staging_.stream(current_)) : CUDA_SUCCESS;
  waits_at_ = nullptr;
  return done(staging_.driver(), "written", error);
}

Status DeviceTarget::room(std::span<const Extent> runs, std::vector<iovec>* bytes) {
  const Driver& driver = staging_.driver();
  const InContext in(driver, staging_.context());
  const uint64_t all = restart::bytes_of(runs);
  if (all > Staging::kBytes)
    return Error{"the image's chunks ({} bytes) are larger than what this CropDL loads to devices", all};
  if (used_ + all > Staging::kBytes) {
    if (Status flushed = flush(); !flushed) return flushed;
    CUresult error = driver.cuEventRecord(staging_.event(current_), staging_.stream(current_));
    current_ ^= 1;
    used_ = 0;
    // Returns immediately if the event was never recorded.
    if (!error) error = driver.cuEventSynchronize(staging_.event(current_));
    if (error) return done(driver, "written", error);
  }
  char* at = staging_.buffer(current_) + used_;
  for (const Extent& run : runs) {
    bytes->push_back({at, run.end - run.begin});
    at += run.end - run.begin;
  }
  return {};
}

Status DeviceTarget::put(std::span<const Extent> runs) {
  const InContext in(staging_.driver(), staging_.context());
  for (const Extent& run : runs) {
    const char* at = staging_.buffer(current_) + used_;
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
  const Driver& driver = staging_.driver();
  const InContext in(driver, staging_.context());
  if (Status flushed = flush(); !flushed) return flushed;
  used_ = 0;
  return done(driver, "written", staging_.wait());
}

}  // namespace cropdl::memory

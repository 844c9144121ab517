#include "gpu_state/software/device/address_allocator.h"

#include <algorithm>
#include <iterator>

#include "gpu_state/software/device/area.h"

namespace cropdl::device {

AddressAllocator::AddressAllocator(engine::MemoryView::Range range, uint64_t seed)
    : range_begin_(range.begin), state_(seed | 1), lowest_(seed == kLowest) {
  holes_[range.begin] = range.end;
  const uint64_t pages = (range.end - range.begin) / kPage;
  for (size_t i = 0; i < cursors_.size(); ++i) {
    // At a random place in the first half of each quarter.
    const uint64_t quarter = pages / cursors_.size();
    cursors_[i] = range.begin + (i * quarter + this->random() % std::max<uint64_t>(1, quarter / 2)) * kPage;
  }
}

uint64_t AddressAllocator::random() {  // xorshift64*
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return (state_ * 0x2545f4914f6cdd1du) >> 33;
}

uint64_t AddressAllocator::carve(std::map<uint64_t, uint64_t>::iterator hole, uint64_t from, uint64_t bytes) {
  const uint64_t begin = hole->first, end = hole->second;
  holes_.erase(hole);
  if (begin < from) holes_[begin] = from;
  if (from + bytes < end) holes_[from + bytes] = end;
  return from;
}

uint64_t AddressAllocator::take(uint64_t pages) {
  const uint64_t bytes = pages * kPage;
  uint64_t& cursor = cursors_[random() % cursors_.size()];
  const uint64_t gap = (1 + random() % 4) * kPage;
  if (!lowest_)
    for (uint64_t from : {cursor, range_begin_}) {
      auto hole = holes_.upper_bound(from);
      if (hole != holes_.begin()) --hole;
      for (; hole != holes_.end(); ++hole) {
        const uint64_t begin = std::max(hole->first, from) + gap;
        // keeps a page free behind it
        if (begin > hole->second || hole->second - begin < bytes + kPage) continue;
        cursor = begin + bytes;
        return carve(hole, begin, bytes);
      }
    }
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole)
    if (hole->second - hole->first >= bytes) return carve(hole, hole->first, bytes);
  return 0;
}

void AddressAllocator::give(uint64_t begin, uint64_t pages) {
  uint64_t end = begin + pages * kPage;
  auto next = holes_.lower_bound(begin);
  if (next != holes_.begin())
    if (auto before = std::prev(next); before->second == begin) {
      begin = before->first;
      holes_.erase(before);
    }
  if (next != holes_.end() && next->first == end) {
    end = next->second;
    holes_.erase(next);
  }
  holes_[begin] = end;
}

}  // namespace cropdl::device

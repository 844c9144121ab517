#include "gpu_state/memory/ranges.h"

#include <iterator>

namespace cropdl::memory {

void Ranges::insert(uint64_t begin, uint64_t end) {
  by_end_.emplace(end, begin);
  by_size_.emplace(end - begin, begin);
}

void Ranges::erase(ByEnd::iterator one) {
  by_size_.erase({one->first - one->second, one->second});
  by_end_.erase(one);
}

// Allocates nothing and moves few nodes: blocks are taken from a range's lower end and returned there.
void Ranges::move_ends(ByEnd::iterator one, uint64_t begin, uint64_t end) {
  auto of_size = by_size_.extract({one->first - one->second, one->second});
  one->second = begin;
  if (one->first != end) {
    const auto next = std::next(one);
    auto moved = by_end_.extract(one);
    moved.key() = end;
    by_end_.insert(next, std::move(moved));
  }
  of_size.value() = {end - begin, begin};
  by_size_.insert(std::move(of_size));
}

void Ranges::add(uint64_t begin, uint64_t end, uint64_t fence_begin, uint64_t fence_end) {
  const auto before = by_end_.lower_bound(begin);  // the range that ends at `begin`, if any
  const bool joins_before = before != by_end_.end() && before->first == begin && begin > fence_begin;
  const auto next = before != by_end_.end() && before->first == begin ? std::next(before) : before;
  const bool joins_next = next != by_end_.end() && next->second == end && end < fence_end;
  if (joins_before) {
    begin = before->second;
    if (!joins_next) return move_ends(before, begin, end);
    erase(before);
  }
  if (joins_next)
    move_ends(next, begin, next->first);
  else
    insert(begin, end);
}

uint64_t Ranges::take(uint64_t size) {
  const auto found = by_size_.lower_bound({size, 0});
  if (found == by_size_.end()) return 0;
  const uint64_t begin = found->second;
  take_at(begin, begin + size);
  return begin;
}

void Ranges::take_at(uint64_t begin, uint64_t end) {
  const auto one = by_end_.upper_bound(begin);
  const auto [to, from] = *one;
  if (end < to) {
    move_ends(one, end, to);
    if (from < begin) insert(from, begin);
  } else if (from < begin) {
    move_ends(one, from, begin);
  } else {
    erase(one);
  }
}

bool Ranges::is_free(uint64_t begin, uint64_t end) const {
  const auto one = by_end_.upper_bound(begin);
  return one != by_end_.end() && one->second <= begin && end <= one->first;
}

bool Ranges::take_if_free(uint64_t begin, uint64_t end) {
  if (!is_free(begin, end)) return false;
  take_at(begin, end);
  return true;
}

}  // namespace cropdl::memory

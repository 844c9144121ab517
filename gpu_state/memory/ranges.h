// Free ranges of addresses. Takes the smallest range that fits, of equal ones the lowest. Merges neighbours,
// but not across fences. All in O(log n). Not saved: a restart computes them. LH, LH FS base; caller's lock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace cropdl::memory {

class Ranges {
 public:
  // The range must not be free. It merges with its neighbours within [fence_begin, fence_end).
  void add(uint64_t begin, uint64_t end, uint64_t fence_begin = 0, uint64_t fence_end = ~uint64_t{0});
  // Takes exactly `size` bytes. 0: no range is large enough.
  uint64_t take(uint64_t size);
  // The whole range must be free.
  void take_at(uint64_t begin, uint64_t end);
  bool is_free(uint64_t begin, uint64_t end) const;
  bool take_if_free(uint64_t begin, uint64_t end);

 private:
  using ByEnd = std::map<uint64_t, uint64_t>;  // end, begin
  void insert(uint64_t begin, uint64_t end);
  void move_ends(ByEnd::iterator one, uint64_t begin, uint64_t end);
  void erase(ByEnd::iterator one);

  ByEnd by_end_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // size, begin
};

}  // namespace cropdl::memory

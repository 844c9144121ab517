// Records of one type in the persistent heap, for images. A record never moves. Dropped records are reused,
// so their number is the highest that ever existed at once. Indices are not kept here: their owners build
// them by visiting all records (blocks.h). LH, LH FS base; the caller's lock.
#pragma once

#include <cstdint>
#include <type_traits>

#include "interpose/handles/heap.h"

namespace cropdl::memory {

// T begins with RecordHead. No constructor of it runs but T{}. Raw addresses in it stay valid over a restart.
struct RecordHead {
  uint64_t next_free;
  uint32_t in_use;
  uint32_t reserved;
};

template <class T>
class Records {
 public:
  // nullptr: the heap is full.
  T* make() {
    if (!free_ && !grow()) return nullptr;
    T* made = reinterpret_cast<T*>(free_);
    free_ = made->head.next_free;
    *made = T{};
    made->head.in_use = 1;
    ++live_;
    return made;
  }
  void drop(T* one) {
    one->head.in_use = 0;
    one->head.next_free = free_;
    free_ = reinterpret_cast<uint64_t>(one);
    --live_;
  }
  uint64_t live() const { return live_; }
  uint64_t room() const { return room_; }  // records in use or not

  // In no particular order. `visit` may drop the record that it gets.
  template <class Visit>
  void each(Visit visit) const {
    for (auto* s = reinterpret_cast<Segment*>(segments_); s; s = reinterpret_cast<Segment*>(s->next))
      for (T& one : s->records)
        if (one.head.in_use) visit(&one);
  }

 private:
  static_assert(std::is_trivially_copyable_v<T>);
  static constexpr uint64_t kPerSegment = (64 << 10) / sizeof(T) - 1;  // nearly fills a block of the heap
  struct Segment {
    uint64_t next;
    T records[kPerSegment];
  };
  static_assert(sizeof(Segment) + 16 <= 64 << 10);

  bool grow() {
    auto* made = static_cast<Segment*>(handles::heap_allocate(sizeof(Segment)));
    if (!made) return false;
    made->next = segments_;
    segments_ = reinterpret_cast<uint64_t>(made);
    room_ += kPerSegment;
    for (uint64_t i = kPerSegment; i-- > 0;) {
      made->records[i].head.next_free = free_;
      free_ = reinterpret_cast<uint64_t>(&made->records[i]);
    }
    return true;
  }

  uint64_t segments_;  // address of the newest segment
  uint64_t free_;
  uint64_t live_, room_;
};

}  // namespace cropdl::memory

// Virtual handles with pruned recipes: what the program holds for an object of a library in the lower half,
// and how to make that object again. Knows nothing of any library: each has tables of its own, whose kinds
// are small numbers of its own, makers are indices of its functions, recipes are bytes that only their maker
// reads.
//
// Everything lies in the persistent heap and is reached from one root. LH only, LH FS base, any thread; one
// writer at a time (the caller's lock). Images hold these structures: append-only, versioned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cropdl::handles {

inline constexpr uint32_t kMaxKinds = 128;  // of one library
inline constexpr uint32_t kTableVersion = 3;

using Handle = uint32_t;  // kind << 24 | index
constexpr uint32_t kind_of(Handle h) { return h >> 24; }
constexpr uint32_t index_of(Handle h) { return h & 0xff'ffff; }
constexpr Handle make_handle(uint32_t kind, uint32_t index) { return kind << 24 | index; }

enum SlotState : uint32_t {
  kFree,       // the index may be given out again
  kLive,       // the program holds the handle
  kTombstone,  // the program freed it, but the recipe of another object needs it
};

struct Slot {
  uint32_t state;
  uint32_t maker;     // index of the function that made the object
  uint64_t recipe;    // address of a Recipe; 0: there is none, the object cannot be made again
  uint64_t serial;    // creation order over all kinds
  uint32_t users;     // live or tombstoned recipes, and pending operations, that name this object
  uint32_t next;      // while free: the free list. Else the owner's
  uint32_t flags;     // the owner's
  Handle within;      // the owner's: what it ends with, 0: nothing
  uint64_t owner[3];  // the owner's
};
static_assert(sizeof(Slot) == 64);

struct Recipe {
  uint32_t dependencies;  // Handles follow, then `bytes` of the maker's own, 8-byte aligned
  uint32_t bytes;
  std::span<const Handle> handles() const {
    return {reinterpret_cast<const Handle*>(this + 1), dependencies};
  }
  const void* payload() const {
    return reinterpret_cast<const char*>(this + 1) + ((dependencies * sizeof(Handle) + 7) & ~size_t{7});
  }
};

class Tables {
 public:
  // Fresh tables of a library in a formatted heap, for kinds below `kinds`: indices from `first_dynamic` up
  // to `capacity` are given out; address space for a kind is taken with its first object. nullptr: no space.
  static Tables* format(unsigned library, uint32_t kinds, uint32_t first_dynamic, uint32_t capacity);
  // Those of a restored heap; nullptr with *why set if they can not be used.
  static Tables* restored(unsigned library, const char** why);

  // A new live object without a recipe; 0: all indices of the kind are in use.
  Handle create(uint32_t kind, uint32_t maker);
  // Gives it a recipe that names `dependencies` (handles below first_dynamic are fixed ones and not counted).
  // False: the heap is full.
  bool set_recipe(Handle, std::span<const Handle> dependencies, const void* payload, size_t bytes);
  // Another one of the same size in its place; false: its size is another. Appends to `gone` as free() does.
  bool rewrite_recipe(Handle, std::span<const Handle> dependencies, const void* payload, size_t bytes,
                      std::vector<Handle>& gone);
  // Its recipe is true no more: from now on it is an object without one.
  void lose_recipe(Handle, std::vector<Handle>& gone);
  // A pending operation holds on to the object (and lets go again).
  void retain(Handle);
  // The program freed the object, or an operation let go of it. Appends to `gone` what nobody needs any more,
  // in the order in which it can be destroyed; those handles are free afterwards.
  void free(Handle, std::vector<Handle>& gone);
  void let_go(Handle, std::vector<Handle>& gone);

  Slot* slot(Handle h) {  // nullptr for fixed handles and such that were never given out
    const Kind& k = kinds_[kind_of(h) % kMaxKinds];
    const uint32_t i = index_of(h);
    return i >= first_dynamic_ && i < k.top ? reinterpret_cast<Slot*>(k.slots) + (i - first_dynamic_)
                                            : nullptr;
  }
  bool live(Handle h) { return slot(h) && slot(h)->state == kLive; }

  // Objects without recipe that are alive: as long as there are any, nothing can be saved.
  uint32_t without_recipe() const { return without_recipe_; }
  Handle first_without_recipe();

  // All objects of a kind that must exist, tombstones included, in creation order (a dependency comes first).
  std::vector<Handle> in_order(uint32_t kind);
  std::vector<Handle> all_in_order();
  // A place in the order of all, of something that is no object.
  uint64_t next_serial() { return ++serial_; }
  uint64_t newest() const { return serial_; }
  // A recipe that holds again: as if it were the newest.
  void renew(Handle h) { slot(h)->serial = ++serial_; }

 private:
  struct Kind {
    uint64_t slots;  // address of capacity_ - first_dynamic_ slots, of which [0, top - first_dynamic_) were
                     // ever used
    uint32_t top;    //
    uint32_t free;   // index of the first free slot, 0: none
  };

  void drop(Handle, std::vector<Handle>& gone);
  void add(uint32_t kind, std::vector<Handle>& found);
  void sort(std::vector<Handle>& found);

  uint32_t version_;
  uint32_t kind_count_;  // those that the library does not have give out nothing
  uint32_t first_dynamic_;
  uint32_t capacity_;
  uint32_t without_recipe_;
  uint64_t serial_;
  Kind kinds_[kMaxKinds];
};

}  // namespace cropdl::handles

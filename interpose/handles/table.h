// Virtual handles with pruned recipes: the handle that the program holds for an object of the lower half, and
// the recipe that makes the object again. Each library has its own tables. Kinds are small numbers of the
// library, makers are indices of its functions, and only the maker reads a recipe's bytes.
// Everything is in the persistent heap, below one root. LH only, LH FS base, any thread; one writer at a time
// (the caller's lock). Images hold these structures: append-only, versioned.
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
  kFree,       // the index may be reused
  kLive,       // the program holds the handle
  kTombstone,  // the program freed it, but the recipe of another object needs it
};

struct Slot {
  uint32_t state;
  uint32_t maker;   // index of the function that made the object
  uint64_t recipe;  // address of a Recipe; 0: none, the object cannot be made again
  uint64_t serial;  // creation order over all kinds
  uint32_t users;   // number of live or tombstoned recipes, and of pending operations, that name this object
  uint32_t next;    // while free: the free list; else for the library's use
  uint32_t flags;   // for the library's use
  Handle within;    // for the library's use: the object with which this one ends; 0: none
  uint64_t owner[3];  // for the library's use
};
static_assert(sizeof(Slot) == 64);

struct Recipe {
  uint32_t dependencies;  // Handles follow, then `bytes` bytes of the maker, 8-byte aligned
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
  // Makes the tables of a library in a formatted heap, for kinds below `kinds` and indices in [first_dynamic,
  // capacity). A kind's first object reserves its address space. nullptr: no space.
  static Tables* format(unsigned library, uint32_t kinds, uint32_t first_dynamic, uint32_t capacity);
  // Returns the tables of a restored heap; nullptr, with *why set, if they cannot be used.
  static Tables* restored(unsigned library, const char** why);

  // Makes a live object without a recipe. 0: the kind has no free index (is_full), or the heap is full.
  Handle create(uint32_t kind, uint32_t maker);
  bool is_full(uint32_t kind) const { return kinds_[kind].top >= capacity_ && kinds_[kind].free == 0; }
  // Gives the object a recipe; handles below first_dynamic are fixed, not counted. False: the heap is full.
  bool set_recipe(Handle, std::span<const Handle> dependencies, const void* payload, size_t bytes);
  // Replaces the recipe by one of the same size. False: the size differs. Appends to `gone` as free() does.
  bool rewrite_recipe(Handle, std::span<const Handle> dependencies, const void* payload, size_t bytes,
                      std::vector<Handle>& gone);
  // Removes a recipe that is no longer valid. The object then has none.
  void lose_recipe(Handle, std::vector<Handle>& gone);
  // Counts a pending operation as a user of the object; let_go() ends that.
  void retain(Handle);
  // free(): the program freed the object. let_go(): an operation no longer uses it. Both append to `gone` the
  // objects without users, in a valid order of destruction. Their handles are free afterwards.
  void free(Handle, std::vector<Handle>& gone);
  void let_go(Handle, std::vector<Handle>& gone);

  // nullptr for fixed handles and for handles that were never given out.
  Slot* slot(Handle h) {
    const Kind& k = kinds_[kind_of(h) % kMaxKinds];
    const uint32_t i = index_of(h);
    return i >= first_dynamic_ && i < k.top ? reinterpret_cast<Slot*>(k.slots) + (i - first_dynamic_)
                                            : nullptr;
  }
  bool live(Handle h) { return slot(h) && slot(h)->state == kLive; }

  // Number of existing objects without a recipe. While it is not 0, nothing can be saved.
  uint32_t without_recipe() const { return without_recipe_; }
  Handle first_without_recipe();

  // All objects of a kind, or of all kinds, tombstones included, in creation order: dependencies first.
  std::vector<Handle> in_order(uint32_t kind) { return in_order(kind, kind + 1); }
  std::vector<Handle> all_in_order() { return in_order(0, kind_count_); }
  // Takes a number in the common creation order, for an item that is not an object.
  uint64_t next_serial() { return ++serial_; }
  uint64_t newest() const { return serial_; }
  // Moves an object whose recipe is valid again to the end of the creation order.
  void renew(Handle h) { slot(h)->serial = ++serial_; }

 private:
  struct Kind {
    // Address of capacity_ - first_dynamic_ slots; the first top - first_dynamic_ have been used.
    uint64_t slots;
    uint32_t top;
    uint32_t free;  // index of the first free slot, 0: none
  };

  void give_back(Handle, std::vector<Handle>& gone);  // its index is free; its recipe stays
  void drop(Handle, std::vector<Handle>& gone);
  std::vector<Handle> in_order(uint32_t first_kind, uint32_t end_kind);

  uint32_t version_;
  uint32_t kind_count_;  // the library's; further kinds have no objects
  uint32_t first_dynamic_;
  uint32_t capacity_;
  uint32_t without_recipe_;
  uint64_t serial_;
  Kind kinds_[kMaxKinds];
};

}  // namespace cropdl::handles

// See table.h. LH only, LH FS base, any thread, under the caller's lock.
#include "interpose/handles/table.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "interpose/handles/heap.h"

namespace cropdl::handles {

Tables* Tables::format(unsigned library, uint32_t kinds, uint32_t first_dynamic, uint32_t capacity) {
  if (kinds > kMaxKinds) return nullptr;
  void* at = heap_allocate(sizeof(Tables));
  if (!at) return nullptr;
  Tables* t = new (at) Tables();
  t->version_ = kTableVersion;
  t->first_dynamic_ = first_dynamic;
  t->capacity_ = capacity;
  t->kind_count_ = kinds;
  for (Kind& k : std::span(t->kinds_).first(kinds)) k.top = first_dynamic;
  heap_set_root(library, kRootTables, t);
  return t;
}

Tables* Tables::restored(unsigned library, const char** why) {
  Tables* t = reinterpret_cast<Tables*>(heap_root(library, kRootTables));
  if (!t) {
    *why = "the persistent heap holds no handle tables";
  } else if (t->version_ > kTableVersion) {
    *why = "the handle tables were written by a newer CropDL; restart it with that one";
    t = nullptr;
  }
  return t;
}

Handle Tables::create(uint32_t kind, uint32_t maker) {
  Kind& k = kinds_[kind];
  uint32_t index = k.free;
  if (!k.slots) {
    void* slots = kind < kind_count_ ? heap_reserve((capacity_ - first_dynamic_) * sizeof(Slot)) : nullptr;
    if (!slots) return 0;
    k.slots = reinterpret_cast<uint64_t>(slots);
  }
  if (index)
    k.free = slot(make_handle(kind, index))->next;
  else if (k.top < capacity_)
    index = k.top++;
  else
    return 0;
  const Handle h = make_handle(kind, index);
  Slot* s = slot(h);
  *s = Slot{};
  s->state = kLive;
  s->maker = maker;
  s->serial = ++serial_;
  ++without_recipe_;
  return h;
}

bool Tables::set_recipe(Handle h, std::span<const Handle> dependencies, const void* payload, size_t bytes) {
  const size_t handles = (dependencies.size_bytes() + 7) & ~size_t{7};
  Recipe* r = static_cast<Recipe*>(heap_allocate(sizeof(Recipe) + handles + bytes));
  if (!r) return false;
  r->dependencies = static_cast<uint32_t>(dependencies.size());
  r->bytes = static_cast<uint32_t>(bytes);
  if (!dependencies.empty()) memcpy(r + 1, dependencies.data(), dependencies.size_bytes());
  if (bytes) memcpy(reinterpret_cast<char*>(r + 1) + handles, payload, bytes);
  for (Handle d : dependencies) retain(d);
  slot(h)->recipe = reinterpret_cast<uint64_t>(r);
  --without_recipe_;
  return true;
}

bool Tables::rewrite_recipe(Handle h, std::span<const Handle> dependencies, const void* payload, size_t bytes,
                            std::vector<Handle>& gone) {
  auto* r = reinterpret_cast<Recipe*>(slot(h)->recipe);
  if (!r || r->bytes != bytes || r->dependencies != dependencies.size()) return false;
  memcpy(const_cast<void*>(r->payload()), payload, bytes);
  if (dependencies.empty()) return true;
  auto* old = reinterpret_cast<Handle*>(r + 1);
  if (memcmp(old, dependencies.data(), dependencies.size_bytes()) == 0) return true;
  for (Handle d : dependencies) retain(d);
  for (Handle d : dependencies) let_go(std::exchange(*old++, d), gone);
  return true;
}

void Tables::lose_recipe(Handle h, std::vector<Handle>& gone) {
  Slot* s = slot(h);
  auto* r = reinterpret_cast<Recipe*>(s ? s->recipe : 0);
  if (!r) return;
  s->recipe = 0;
  ++without_recipe_;
  for (Handle d : r->handles()) let_go(d, gone);
  heap_free(r);
}

void Tables::retain(Handle h) {
  if (Slot* s = slot(h)) ++s->users;
}

void Tables::give_back(Handle h, std::vector<Handle>& gone) {
  Slot* s = slot(h);
  gone.push_back(h);
  if (!s->recipe) --without_recipe_;
  s->state = kFree;
  Kind& k = kinds_[kind_of(h)];
  s->next = k.free;
  k.free = index_of(h);
}

// Without recursion: each object may be made from the one before, and such a chain may be too long for the
// stack of the thread. The slots in `gone` keep their recipes until their dependencies have been let go.
void Tables::drop(Handle h, std::vector<Handle>& gone) {
  size_t next = gone.size();
  give_back(h, gone);
  for (; next < gone.size(); ++next) {
    auto* r = reinterpret_cast<Recipe*>(std::exchange(slot(gone[next])->recipe, 0));
    if (!r) continue;
    for (Handle d : r->handles()) {
      Slot* s = slot(d);
      if (s && --s->users == 0 && s->state == kTombstone) give_back(d, gone);
    }
    heap_free(r);
  }
}

void Tables::free(Handle h, std::vector<Handle>& gone) {
  Slot* s = slot(h);
  if (!s || s->state != kLive) return;
  s->state = kTombstone;
  if (s->users == 0) drop(h, gone);
}

void Tables::let_go(Handle h, std::vector<Handle>& gone) {
  Slot* s = slot(h);
  if (s && --s->users == 0 && s->state == kTombstone) drop(h, gone);
}

Handle Tables::first_without_recipe() {
  for (uint32_t kind = 0; kind < kMaxKinds; ++kind)
    for (uint32_t i = first_dynamic_; i < kinds_[kind].top; ++i) {
      const Slot* s = slot(make_handle(kind, i));
      if (s->state != kFree && !s->recipe) return make_handle(kind, i);
    }
  return 0;
}

std::vector<Handle> Tables::in_order(uint32_t first_kind, uint32_t end_kind) {
  std::vector<Handle> found;
  for (uint32_t kind = first_kind; kind < end_kind; ++kind)
    for (uint32_t i = first_dynamic_; i < kinds_[kind].top; ++i)
      if (slot(make_handle(kind, i))->state != kFree) found.push_back(make_handle(kind, i));
  std::ranges::sort(found, {}, [this](Handle h) { return slot(h)->serial; });
  return found;
}

}  // namespace cropdl::handles

// Virtual handles of a family's objects: creation, lookup by the real handle, removal. See lower.h.
#include <unordered_map>

#include "interpose/handles/heap.h"
#include "interpose/one_abi/state.h"

namespace cropdl::one_abi {
namespace {

constexpr uint32_t kFirstIndex = 16, kCapacity = 1u << 20;

// The objects of a kind by real word, valid in this run.
std::unordered_map<uint64_t, handles::Handle>& known(uint32_t kind) {
  static auto* const maps = new std::unordered_map<uint64_t, handles::Handle>[handles::kMaxKinds];
  return maps[kind % handles::kMaxKinds];
}

void unlink(handles::Handle h) {
  auto& of_kind = known(handles::kind_of(h));
  const auto found = of_kind.find(tables->slot(h)->owner[0]);
  if (found != of_kind.end() && found->second == h) of_kind.erase(found);
}

// The virtual handle of a known object; 0: unknown. Under the lock.
uint64_t find_known(uint64_t real, uint32_t kind) {
  const auto found = known(kind).find(real);
  return found == known(kind).end() ? 0 : kTag | found->second;
}

// Calls `look` for the object and for each object that ends with it.
template <class F>
void each_of(handles::Handle h, F look) {
  look(h);
  for (uint64_t at = tables->slot(h)->owner[1]; at;) {
    const handles::Slot& record = *tables->slot(static_cast<handles::Handle>(at));
    if (record.owner[1] == kEndsWith) each_of(static_cast<handles::Handle>(record.owner[2]), look);
    at = record.owner[0];
  }
}

// Removes the object and those that end with it. If another one's recipe needs it, its state stays: a restart
// makes it again with that.
void forget(handles::Handle h) {
  handles::Slot* slot = tables->slot(h);
  if (!slot || slot->state != handles::kLive) return;
  unlink(h);
  if (handles::Slot* parent = tables->slot(slot->within)) {  // takes out its record of this child
    const auto is_its = [h](const handles::Slot& r) { return r.owner[1] == kEndsWith && r.owner[2] == h; };
    if (uint64_t* at = find_record(&parent->owner[1], is_its)) take_out(at);
  }
  std::vector<handles::Handle> children;
  uint64_t* at = &slot->owner[1];
  while ((at = find_record(at, [](const handles::Slot& record) { return record.owner[1] == kEndsWith; }))) {
    children.push_back(
        static_cast<handles::Handle>(tables->slot(static_cast<handles::Handle>(*at))->owner[2]));
    tables->slot(children.back())->within = 0;  // forget(child) need not search for its record
    take_out(at);
  }
  for (handles::Handle child : children) forget(child);
  if ((slot->flags & kNamedByState) != 0) drop_states_until(h);
  std::vector<handles::Handle> gone;
  tables->free(h, gone);
  drop_states_of_gone(gone);
}

uint64_t make(uint64_t real, uint32_t kind, uint32_t maker, const RecipeWriter* recipe, int device) {
  const handles::Handle h = tables->create(kind, maker);
  if (!h) {
    note_unsaved(maker, "there are more than a million objects of its kind");
    return real;
  }
  if (recipe && !give_recipe(h, *recipe, device, 0)) note_unsaved(maker, "the persistent heap is full");
  tables->slot(h)->owner[0] = real;
  tables->slot(h)->next = static_cast<uint32_t>(device + 1);
  known(kind)[real] = h;
  return kTag | h;
}

// Calls `change` for a live object, under the lock.
template <class F>
void with_live(uint64_t word, F change) {
  if (!is_virtual(word) || !tables) return;
  handles::SpinGuard guard(family_lock);
  const auto h = static_cast<handles::Handle>(word);
  if (tables->live(h)) change(h);
}

// The device of an object that the calling thread has just made.
int device_of_new(uint32_t kind) { return kind::is_of_no_device(kind) ? -1 : current_device(); }

}  // namespace

bool need_family() {
  if (__atomic_load_n(&family, __ATOMIC_ACQUIRE)) return true;
  handles::SpinGuard guard(family_lock);
  if (family) return true;
  auto* state = static_cast<FamilyState*>(handles::heap_allocate(sizeof(FamilyState)));
  if (!state ||
      !(tables = handles::Tables::format(seam::kLibraryCudart, handles::kMaxKinds, kFirstIndex, kCapacity))) {
    family_failed = true;
    return false;
  }
  state->version = kFamilyVersion;
  handles::heap_set_root(seam::kLibraryCudart, handles::kRootState, state);
  __atomic_store_n(&family, state, __ATOMIC_RELEASE);
  return true;
}

uint64_t virtual_of(uint64_t real, uint32_t kind) {
  if (!need_family()) return 0;
  handles::SpinGuard guard(family_lock);
  return find_known(real, kind);
}

uint64_t made_word(uint64_t real, uint32_t kind, const RealLibrary& library, uint32_t function,
                   const RecipeWriter* recipe) {
  if (!real) return 0;
  if (!need_family()) return real;
  const int device = device_of_new(kind);
  handles::SpinGuard guard(family_lock);
  return make(real, kind, maker_of(library, function), recipe, device);
}

uint64_t known_word(uint64_t real, uint32_t kind, const RealLibrary& library, uint32_t function,
                    const RecipeWriter* recipe) {
  if (!real || names_itself(real, kind)) return real;
  if (const uint64_t known = virtual_of(real, kind)) return known;
  if (!family) return real;
  const int device = device_of_new(kind);
  handles::SpinGuard guard(family_lock);
  const uint64_t added = find_known(real, kind);  // by another thread meanwhile
  return added ? added : make(real, kind, maker_of(library, function), recipe, device);
}

void forget_word(uint64_t word) { with_live(word, forget); }

void hide_word(uint64_t word) {
  with_live(word, [](handles::Handle h) { each_of(h, unlink); });
}

void show_word(uint64_t word) {
  with_live(word, [](handles::Handle h) {
    each_of(h, [](handles::Handle one) { rebind(one, tables->slot(one)->owner[0]); });
  });
}

void linger_word(uint64_t word) {
  with_live(word, [](handles::Handle h) {
    handles::Slot* slot = tables->slot(h);
    const bool stays = slot->recipe != 0;
    if (stays) tables->retain(h);
    forget(h);
    if (!stays) return;
    drop_states_of(&slot->owner[1]);  // state of the object is loaded on no device
    slot->flags = kLingers;
    slot->owner[2] = tables->next_serial();
  });
}

void linger_instead(uint32_t kind, const RealLibrary& library, uint32_t function, const RecipeWriter& recipe,
                    uint64_t serial) {
  const uint64_t word = made_word(~uint64_t{0}, kind, library, function, &recipe);
  if (handles::Slot* slot = slot_of(word)) slot->serial = serial;
  linger_word(word);
}

std::vector<Lingering> lingering() {
  std::vector<Lingering> found;
  if (!tables) return found;
  handles::SpinGuard guard(family_lock);
  for (handles::Handle h : tables->all_in_order())
    if (const handles::Slot& slot = *tables->slot(h);
        slot.state == handles::kTombstone && (slot.flags & kLingers) != 0)
      found.push_back({h, slot.serial, slot.owner[2]});
  return found;
}

void stop_lingering(handles::Handle h) {
  handles::SpinGuard guard(family_lock);
  handles::Slot* slot = tables->slot(h);
  if (!slot || (slot->flags & kLingers) == 0) return;
  slot->flags = 0;
  std::vector<handles::Handle> gone;
  tables->let_go(h, gone);
  drop_states_of_gone(gone);
}

std::vector<uint64_t> living(uint32_t kind) {
  std::vector<uint64_t> found;
  if (!tables) return found;
  handles::SpinGuard guard(family_lock);
  for (handles::Handle h : tables->in_order(kind))
    if (tables->live(h)) found.push_back(kTag | h);
  return found;
}

void forget_device(int device) {
  if (!family) return;
  handles::SpinGuard guard(family_lock);
  for (uint32_t kind = kFirstKind; kind < handles::kMaxKinds; ++kind) {
    for (handles::Handle h : tables->in_order(kind))
      if (tables->live(h) && device_of(*tables->slot(h)) == device) forget(h);
  }
  if (device >= 0 && device < static_cast<int>(kMaxDevices)) drop_states_of(&family->device_states[device]);
}

void ends_with(uint64_t child, uint64_t parent) {
  const RecipeWriter none;
  handles::SpinGuard guard(family_lock);
  handles::Slot *its = slot_of(child), *slot = slot_of(parent);
  if (!slot || slot->state != handles::kLive || !its || its->state != handles::kLive || its->within) return;
  its->within = static_cast<handles::Handle>(parent);
  add_record(&slot->owner[1], 0, kEndsWith, child & 0xffff'ffff, none, -1, 0);
}

void lose_recipe(uint64_t word, const RealLibrary& library, uint32_t function) {
  with_live(word, [&](handles::Handle h) {
    handles::Slot* slot = tables->slot(h);
    if (!slot->recipe) return;
    std::vector<handles::Handle> gone;
    tables->lose_recipe(h, gone);
    drop_states_of_gone(gone);
    slot->maker = maker_of(library, function);
  });
}

uint64_t parent_of(uint64_t child) {
  const handles::Slot* slot = slot_of(child);
  return slot && slot->within ? kTag | slot->within : 0;
}

uint64_t real_word_of_recipe(uint64_t word) {
  if (!is_virtual(word)) return word;
  const handles::Slot* slot = tables->slot(static_cast<handles::Handle>(word));
  return slot ? slot->owner[0] : 0;
}

void rebind_word(uint64_t word, uint64_t real) {
  handles::SpinGuard guard(family_lock);
  unlink(static_cast<handles::Handle>(word));
  rebind(static_cast<handles::Handle>(word), real);
}

void rebind(handles::Handle h, uint64_t real) {
  tables->slot(h)->owner[0] = real;
  if (tables->slot(h)->state == handles::kLive) known(handles::kind_of(h))[real] = h;
}

}  // namespace cropdl::one_abi

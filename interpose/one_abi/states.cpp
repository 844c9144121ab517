// Records the state that setters change in objects, libraries, devices and threads; begins a thread's first
// call. See lower.h.
#include "interpose/one_abi/state.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "base/say.h"
#include "interpose/handles/heap.h"
#include "interpose/seam/state.h"
#include "interpose/seam/thread.h"

namespace cropdl::one_abi {
namespace {

struct KeyBytes {
  uint64_t size;
  char bytes[];
};

// The payload contains the words of a key's handles, so bytes alone are compared.
bool same_key(uint64_t at, std::span<const char> key) {
  const auto* k = reinterpret_cast<const KeyBytes*>(at);
  return (k ? k->size : 0) == key.size() && (key.empty() || memcmp(k->bytes, key.data(), key.size()) == 0);
}

// Copies the key into the heap; 0: it is empty, or no room is left. Then find() never matches the record.
uint64_t kept_key(std::span<const char> key) {
  if (key.empty()) return 0;
  auto* k = static_cast<KeyBytes*>(handles::heap_allocate(sizeof(KeyBytes) + key.size()));
  if (!k) return 0;
  k->size = key.size();
  memcpy(k->bytes, key.data(), key.size());
  return reinterpret_cast<uint64_t>(k);
}

uint32_t thread_index(const seam::ThreadRecord* record) {
  const seam::ThreadRecord* first = seam::state()->threads;
  const auto index = static_cast<size_t>(record - first);
  return record >= first && index < kMaxThreads ? static_cast<uint32_t>(index) : 0;
}

// The calling thread's state; clears that of an ended thread with the same record. Under family_lock.
ThreadState& own_state() {
  const seam::ThreadRecord* record = seam::current_thread();
  ThreadState& mine = family->threads[thread_index(record)];
  if (mine.owner != record->generation + 1) {
    drop_states_of(&mine.states);
    mine = ThreadState{};
    mine.owner = record->generation + 1;
  }
  return mine;
}

// The owner of a state: its list of records, its device, and its handle if it is an object.
struct Place {
  uint64_t* list;
  int device;
  handles::Handle object;
};

int device_to_ask(uint64_t of) { return of == kOfCurrent ? current_device() : -1; }

// `current`: device_to_ask(of), called before the lock is taken.
Place place_of(uint64_t of, int current) {
  if (of == kOfLibrary) return {&family->library_states, -1, 0};
  if (of == kOfThread) return {&own_state().states, -1, 0};
  if (is_virtual(of)) {
    const auto h = static_cast<handles::Handle>(of);
    handles::Slot* slot = tables->slot(h);
    if (!slot || slot->state != handles::kLive) return {nullptr, -1, 0};
    return {&slot->owner[1], device_of(*slot), h};
  }
  const bool fits = current >= 0 && current < static_cast<int>(kMaxDevices);
  return {&family->device_states[fits ? current : 0], current, 0};
}

uint64_t* find(uint64_t* list, uint64_t what, std::span<const char> key) {
  return find_record(list, [&](const handles::Slot& record) {
    return record.owner[1] == what && same_key(record.owner[2], key);
  });
}

// The recipe without `own` among its dependencies, and with the device filled in.
struct Written : handles::RecipeWriter {
  Written(const one_abi::RecipeWriter& recipe, int device, handles::Handle own) {
    for (handles::Handle d : recipe.dependencies())
      if (d != own) handle(d);
    value<int64_t>(recipe.device() >= 0 ? recipe.device() : device);
    const auto arguments = recipe.payload().subspan(sizeof(int64_t));
    append(arguments.data(), arguments.size());
  }
};

bool is_recipe_of(const handles::Slot& slot, uint32_t maker, const Written& written) {
  const auto* r = reinterpret_cast<const handles::Recipe*>(slot.recipe);
  const auto needs = written.dependencies();
  const auto bytes = written.payload();
  return slot.maker == maker && r &&
         std::equal(needs.begin(), needs.end(), r->handles().begin(), r->handles().end()) &&
         r->bytes == bytes.size() && memcmp(r->payload(), bytes.data(), bytes.size()) == 0;
}

std::atomic<bool> some_are_uncertain{false};

void take_out(uint64_t* at, std::vector<handles::Handle>& gone) {
  const auto record = static_cast<handles::Handle>(*at);
  const handles::Slot* slot = tables->slot(record);
  *at = slot->owner[0];
  if (slot->owner[1] != kEndsWith) handles::heap_free(reinterpret_cast<void*>(slot->owner[2]));
  tables->free(record, gone);
}

}  // namespace

handles::Handle add_record(uint64_t* list, uint32_t maker, uint64_t what, uint64_t key,
                           const RecipeWriter& recipe, int device, handles::Handle of) {
  const handles::Handle record = tables->create(kStateRecord, maker);
  if (!record || !give_recipe(record, recipe, device, of)) return 0;
  handles::Slot* slot = tables->slot(record);
  slot->owner[0] = *list;
  slot->owner[1] = what;
  slot->owner[2] = key;
  *list = record;
  return record;
}

void take_out(uint64_t* at) {
  std::vector<handles::Handle> gone;
  take_out(at, gone);
  drop_states_of_gone(gone);
}

bool give_recipe(handles::Handle h, const RecipeWriter& recipe, int device, handles::Handle of) {
  const Written written(recipe, device, of);
  return tables->set_recipe(h, written.dependencies(), written.payload().data(), written.payload().size());
}

// `gone`: slots that were freed because nothing needs them. They are not reused while the lock is held.
void drop_states_of_gone(std::vector<handles::Handle>& gone) {
  for (size_t i = 0; i < gone.size(); ++i) {
    if (handles::kind_of(gone[i]) == kStateRecord) continue;
    for (uint64_t* list = &tables->slot(gone[i])->owner[1]; *list;) take_out(list, gone);
  }
}

void drop_states_until(handles::Handle ended) {
  const auto look = [&](uint64_t* list) {
    while ((list = find_record(list, [&](const handles::Slot& record) { return record.within == ended; })))
      take_out(list);
  };
  look(&family->library_states);
  for (uint64_t& list : family->device_states) look(&list);
}

void drop_states_of(uint64_t* list) {
  while (*list) take_out(list);
}

void keep_state(uint64_t of, const RealLibrary& library, uint32_t function, uint64_t what, const Key& key,
                const RecipeWriter& recipe, uint64_t until, bool once) {
  if (!need_family()) return;
  const uint32_t maker = maker_of(library, function);
  const int current = device_to_ask(of);
  handles::SpinGuard guard(family_lock);
  const Place place = place_of(of, current);
  if (!place.list) return;
  handles::Handle record = 0;
  bool uncertain = false;  // another thread set it to another value since this thread's call began
  // Most calls set a thing again, often to the same value. The renewed record is repeated after the others.
  if (uint64_t* before = find(place.list, what, key.payload())) {
    if (once) return;
    record = static_cast<handles::Handle>(*before);
    const Written written(recipe, place.device, place.object);
    const handles::Slot& last = *tables->slot(record);
    uncertain = of != kOfThread && last.serial > setting_began &&
                ((last.flags & kUncertain) != 0 || !is_recipe_of(last, maker, written));
    std::vector<handles::Handle> gone;
    const auto payload = written.payload();
    if (last.maker == maker &&
        tables->rewrite_recipe(record, written.dependencies(), payload.data(), payload.size(), gone)) {
      tables->renew(record);
      drop_states_of_gone(gone);
    } else {
      take_out(before);
      record = 0;
    }
  }
  if (!record)
    record = add_record(place.list, maker, what, kept_key(key.payload()), recipe, place.device, place.object);
  if (!record) return note_unsaved(maker, "the persistent heap is full");
  tables->slot(record)->flags = uncertain ? kUncertain : 0;
  if (uncertain) some_are_uncertain = true;
  if (handles::Slot* named = slot_of(until); named && named->state == handles::kLive) {
    named->flags |= kNamedByState;
    tables->slot(record)->within = static_cast<handles::Handle>(until);
  }
}

uint32_t uncertain_maker() {
  if (!some_are_uncertain) return 0;
  for (const handles::Handle h : tables->in_order(kStateRecord))
    if ((tables->slot(h)->flags & kUncertain) != 0) return tables->slot(h)->maker + 1;
  some_are_uncertain = false;
  return 0;
}

void undo_state(uint64_t of, uint64_t what, const Key& key) {
  if (!family) return;
  const int current = device_to_ask(of);
  handles::SpinGuard guard(family_lock);
  const Place place = place_of(of, current);
  if (uint64_t* at = place.list ? find(place.list, what, key.payload()) : nullptr) take_out(at);
}

void undo_state_of_devices(uint64_t what, const Key& key) {
  if (!family) return;
  handles::SpinGuard guard(family_lock);
  for (uint64_t& list : family->device_states)
    if (uint64_t* at = find(&list, what, key.payload())) take_out(at);
}

void begin_thread(bool chooses) {
  seam::ThreadRecord* record = seam::current_thread();
  const bool lent_before = thread_mark.record != nullptr;
  thread_mark = {record, record->generation, false};
  if (lent_before) make_fresh(chooses);  // another thread of the program used this LH thread before
  if (!need_family()) return;
  std::vector<handles::Handle> states;
  {
    handles::SpinGuard guard(family_lock);
    for (uint64_t at = own_state().states; at; at = tables->slot(static_cast<handles::Handle>(at))->owner[0])
      states.push_back(static_cast<handles::Handle>(at));
  }
  std::ranges::sort(states, {}, [](handles::Handle h) { return tables->slot(h)->serial; });
  for (handles::Handle state : states) make_state_again(state);
}

void note_unsaved(uint32_t maker, const char* why) {
  if (family->unsaved_maker) return;
  family->unsaved_maker = maker + 1;
  snprintf(family->unsaved_why, sizeof family->unsaved_why, "%s", why);
}

void mark_unsaved(const RealLibrary& library, uint32_t function, const char* why) {
  if (!need_family()) return;
  handles::SpinGuard guard(family_lock);
  note_unsaved(maker_of(library, function), why);
}

const char* kept_text(const char* text) {
  if (!text || !need_family()) return text;
  struct Text {
    Text* next;
    char bytes[];
  };
  handles::SpinGuard guard(family_lock);
  auto* list = reinterpret_cast<Text**>(&family->texts);
  for (const Text* t = *list; t; t = t->next)
    if (strcmp(t->bytes, text) == 0) return t->bytes;
  auto* t = static_cast<Text*>(handles::heap_allocate(sizeof(Text) + strlen(text) + 1));
  if (!t) {
    family_failed = true;
    return text;
  }
  strcpy(t->bytes, text);
  t->next = *list;
  *list = t;
  return t->bytes;
}

void say_not_offered(const char* function, const char* why) {
  static auto& said = *new std::set<std::string>;
  {
    handles::SpinGuard guard(family_lock);
    if (!said.insert(function).second) return;
  }
  say(std::string("cropdl: ") + function + " is not offered: " + why);
}

void note_error(const RealLibrary&, int64_t code) {
  errors_noted.fetch_add(1, std::memory_order_relaxed);
  if (!need_family()) return;
  handles::SpinGuard guard(family_lock);
  own_state().error = code;
}

int64_t noted_error(bool forget) {
  if (!family) return 0;
  // Many programs call this after every launch: no lock, since only the thread itself changes its error.
  const seam::ThreadRecord* record = seam::current_thread();
  ThreadState& mine = family->threads[thread_index(record)];
  if (mine.owner != record->generation + 1 || mine.error == 0) return 0;
  return forget ? std::exchange(mine.error, 0) : mine.error;
}

}  // namespace cropdl::one_abi

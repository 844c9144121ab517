// The table of Info objects, and their entries. Memory comes from the program's malloc. UH, any thread.
#include "interpose/mpi/upper/info_lists.h"

#include <utility>

namespace cropdl::shim {
namespace {

constexpr uint32_t kMostLists = kUnknownIndex - seam::kFirstDynamic;
InfoList** lists = nullptr;  // by index - kFirstDynamic; null: free
uint32_t lists_size = 0;
uint32_t none_free_below = 0;

// Adds an entry without a value. Returns nullptr, with the list unchanged, if there is no memory.
InfoEntry* add_key(InfoEntry** end, const char* key) {
  auto* made = static_cast<InfoEntry*>(calloc(1, sizeof(InfoEntry) + strlen(key) + 1));
  if (!made) return nullptr;
  made->key = strcpy(reinterpret_cast<char*>(made + 1), key);
  return *end = made;
}

}  // namespace

SpinLock info_lock;

InfoEntry** InfoList::find(const char* key) {
  InfoEntry** e = &first;
  while (*e && strcmp((*e)->key, key) != 0) e = &(*e)->next;
  return e;
}

bool InfoList::put(const char* key, const char* value) {
  char* own = strdup(value);
  InfoEntry** at = find(key);
  InfoEntry* e = own && !*at ? add_key(at, key) : *at;
  if (!own || !e) {
    free(own);
    return false;
  }
  free(std::exchange(e->value, own));
  return true;
}

bool InfoList::put_all(const InfoList& from) {
  for (const InfoEntry* e = from.first; e; e = e->next)
    if (!put(e->key, e->value)) return false;
  return true;
}

void InfoList::erase(InfoEntry** entry) {
  InfoEntry* gone = *entry;
  *entry = gone->next;
  free(gone->value);
  free(gone);
}

void InfoList::clear() {
  while (first) erase(&first);
}

InfoList* info_list(Vid vid) {
  const uint32_t slot = vid_index(vid) - seam::kFirstDynamic;
  return vid_index(vid) >= seam::kFirstDynamic && slot < lists_size ? lists[slot] : nullptr;
}

Vid make_info_list() {
  uint32_t slot = none_free_below;
  while (slot < lists_size && lists[slot]) ++slot;
  none_free_below = slot;
  if (slot == lists_size && !grow(&lists, &lists_size, kMostLists)) return kNoInfo;
  lists[slot] = static_cast<InfoList*>(calloc(1, sizeof(InfoList)));
  return lists[slot] ? make_vid(Kind::kInfo, seam::kFirstDynamic + slot) : kNoInfo;
}

Vid copy_info_list(Vid from) {
  const Vid copy = make_info_list();
  if (copy == kNoInfo || info_list(copy)->put_all(*info_list(from))) return copy;
  free_info_list(copy);
  return kNoInfo;
}

bool free_info_list(Vid vid) {
  InfoList* list = info_list(vid);
  if (!list) return false;
  list->clear();
  free(list);
  const uint32_t slot = vid_index(vid) - seam::kFirstDynamic;
  lists[slot] = nullptr;
  if (slot < none_free_below) none_free_below = slot;
  return true;
}

void drop_info(Vid vid) {
  Locked locked(info_lock);
  free_info_list(vid);
}

}  // namespace cropdl::shim

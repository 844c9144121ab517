// Info objects: lists of keys and values in the upper half, so a program that holds one can be checkpointed.
// A call that takes an Info gets a temporary copy in the lower half. MPI_INFO_ENV is the lower half's: it
// describes the launch of this run. UH, any thread.
#include <cstring>
#include <utility>

#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {
namespace {

struct Entry {
  Entry* next;
  char* key;
  char* value;
};
struct List {
  Entry* first;
};

constexpr Vid kNoInfo = make_vid(Kind::kInfo, 0);
constexpr uint32_t kCapacity = kUnknownIndex - seam::kFirstDynamic;
SpinLock info_lock;
List** lists = nullptr;  // by index - kFirstDynamic; null: free
uint32_t lists_size = 0;
uint32_t none_free_below = 0;

List* list_of(Vid vid) {
  const uint32_t slot = vid_index(vid) - seam::kFirstDynamic;
  return vid_index(vid) >= seam::kFirstDynamic && slot < lists_size ? lists[slot] : nullptr;
}

bool grow() {
  const uint32_t wanted = lists_size ? lists_size * 2 : 16, size = wanted < kCapacity ? wanted : kCapacity;
  if (size == lists_size) return false;
  auto** grown = static_cast<List**>(realloc(lists, size * sizeof(List*)));
  if (!grown) return false;
  memset(grown + lists_size, 0, (size - lists_size) * sizeof(List*));
  lists = grown;
  lists_size = size;
  return true;
}

// Returns kNoInfo if there are too many.
Vid make_list() {
  uint32_t slot = none_free_below;
  while (slot < lists_size && lists[slot]) ++slot;
  none_free_below = slot;
  if (slot == lists_size && !grow()) return kNoInfo;
  lists[slot] = static_cast<List*>(calloc(1, sizeof(List)));
  return lists[slot] ? make_vid(Kind::kInfo, seam::kFirstDynamic + slot) : kNoInfo;
}

Entry** find(List* list, const char* key) {
  Entry** e = &list->first;
  while (*e && strcmp((*e)->key, key) != 0) e = &(*e)->next;
  return e;
}
// Adds an entry without a value. Returns nullptr, with the list unchanged, if there is no memory.
Entry* add_key(Entry** end, const char* key) {
  auto* made = static_cast<Entry*>(calloc(1, sizeof(Entry)));
  char* own = made ? strdup(key) : nullptr;
  if (!own) {
    free(made);
    return nullptr;
  }
  made->key = own;
  return *end = made;
}
// Returns false, with the list unchanged, if there is no memory.
bool put(List* list, const char* key, const char* value) {
  char* own = strdup(value);
  Entry** at = find(list, key);
  Entry* e = own && !*at ? add_key(at, key) : *at;
  if (!own || !e) {
    free(own);
    return false;
  }
  free(std::exchange(e->value, own));
  return true;
}
bool copy_entries(const List* from, List* to) {
  for (const Entry* e = from->first; e; e = e->next)
    if (!put(to, e->key, e->value)) return false;
  return true;
}
void erase(Entry** e) {
  Entry* gone = *e;
  *e = gone->next;
  free(gone->key);
  free(gone->value);
  free(gone);
}
void erase_all(List* list) {
  while (list->first) erase(&list->first);
}
// Returns false if there is no such list. Under the lock.
bool free_list(Vid vid) {
  List* list = list_of(vid);
  if (!list) return false;
  erase_all(list);
  free(list);
  const uint32_t slot = vid_index(vid) - seam::kFirstDynamic;
  lists[slot] = nullptr;
  if (slot < none_free_below) none_free_below = slot;
  return true;
}
// Copies the live list `from`. Returns kNoInfo as make_list() does, or if there is no memory. Under the lock.
Vid copy_list(Vid from) {
  const Vid copy = make_list();
  if (copy == kNoInfo || copy_entries(list_of(from), list_of(copy))) return copy;
  free_list(copy);
  return kNoInfo;
}

bool is_env(Vid vid) { return vid == seam::kVid_MPI_INFO_ENV; }
// Error classes of the program's own MPI for a null Info, a wrong index, a null value.
#if defined(CROPDL_ABI_MPICH)
constexpr int kNullInfo = seam::kErrArg, kNoSuchIndex = seam::kErrArg, kNullValue = seam::kErrArg;
#else
constexpr int kNullInfo = seam::kErrInfo, kNoSuchIndex = seam::kErrInfoKey, kNullValue = seam::kErrInfoValue;
#endif
int bad(seam::Fn fn, int neutral) { return fail_mpi_call(kNoObject, neutral, fn); }
int wrong_key(const char* key) {
  constexpr size_t kLongest = kNullInfo == seam::kErrArg ? MPI_MAX_INFO_KEY : MPI_MAX_INFO_KEY - 1;
  return key && *key && strlen(key) <= kLongest ? seam::kSuccess : seam::kErrInfoKey;
}

}  // namespace

LowerInfo::LowerInfo(MPI_Info info) : vid_(handle_in<Kind::kInfo>(info)), made_(false) {
  if (vid_index(vid_) < seam::kFirstDynamic) return;
  List copy{};  // another thread may change the program's list meanwhile
  {
    Locked locked(info_lock);
    const List* list = list_of(vid_);
    vid_ = kNoInfo;
    if (!list) return;
    if (!copy_entries(list, &copy)) abort();  // as for every temporary copy
  }
  made_ = call_library<int>(seam::kFn_MPI_Info_create, &vid_) == seam::kSuccess;
  for (const Entry* e = copy.first; made_ && e; e = e->next)
    call_library<int>(seam::kFn_MPI_Info_set, vid_, e->key, e->value);
  erase_all(&copy);
}
LowerInfo::~LowerInfo() {
  if (made_) call_library<int>(seam::kFn_MPI_Info_free, &vid_);
}

void drop_info(Vid vid) {
  Locked locked(info_lock);
  free_list(vid);
}

MPI_Info info_from_lower(Vid lower) {
  Vid vid;
  {
    Locked locked(info_lock);
    vid = make_list();
  }
  int n = 0;
  if (vid_index(lower) == 0) return handle_out<Kind::kInfo>(vid);
  if (vid != kNoInfo && call_library<int>(seam::kFn_MPI_Info_get_nkeys, lower, &n) == seam::kSuccess) {
    for (int i = 0; i < n; ++i) {
      char key[512], value[2048];
      int flag = 0;
      call_library<int>(seam::kFn_MPI_Info_get_nthkey, lower, i, key);
      call_library<int>(seam::kFn_MPI_Info_get, lower, key, MPI_MAX_INFO_VAL, value, &flag);
      Locked locked(info_lock);
      if (!flag || put(list_of(vid), key, value)) continue;
      free_list(vid);
      vid = kNoInfo;
      break;
    }
  }
  call_library<int>(seam::kFn_MPI_Info_free, &lower);
  return handle_out<Kind::kInfo>(vid);
}

// Removes from `list` the keys that `wanted` has not, and gives the others its values. Returns false if there
// is no memory. Under the lock.
static bool keep_wanted(List* list, List* wanted) {
  for (Entry** at = &list->first; *at;) {
    const Entry* w = *find(wanted, (*at)->key);
    if (!w) {
      erase(at);
      continue;
    }
    if (!put(list, w->key, w->value)) return false;
    at = &(*at)->next;
  }
  return true;
}

// The hints that a communicator has are those that its MPI knows.
int known_hints(Vid parent, MPI_Info info, Vid* hints) {
  *hints = 0;
  if (info == MPI_INFO_NULL) return seam::kSuccess;
  Vid known = kNoInfo;
  if (const int r = call_library<int>(seam::kFn_MPI_Comm_get_info, parent, &known)) return r;
  const Vid made = handle_in<Kind::kInfo>(info_from_lower(known));
  if (made == kNoInfo) return seam::kErrNoMem;
  Locked locked(info_lock);
  List* wanted = list_of(handle_in<Kind::kInfo>(info));
  const bool kept = wanted && keep_wanted(list_of(made), wanted);
  if (kept && list_of(made)->first)
    *hints = made;
  else
    free_list(made);
  return kept ? seam::kSuccess : wanted ? seam::kErrNoMem : seam::kErrInfo;
}

}  // namespace cropdl::shim

using namespace cropdl;
using namespace cropdl::shim;

MPI_FUNCTION(int, Info_create, MPI_Info* info) {
  if (!info) return bad(seam::kFn_MPI_Info_create, kNullInfo);
  Vid made;
  {
    Locked locked(info_lock);
    made = make_list();
  }
  if (made == kNoInfo) return bad(seam::kFn_MPI_Info_create, seam::kErrNoMem);
  *info = handle_out<Kind::kInfo>(made);
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Info_free, MPI_Info* info) {
  if (!info) return bad(seam::kFn_MPI_Info_free, kNullInfo);
  {
    Locked locked(info_lock);
    if (free_list(handle_in<Kind::kInfo>(*info))) {
      *info = MPI_INFO_NULL;
      return MPI_SUCCESS;
    }
  }
  return bad(seam::kFn_MPI_Info_free, *info == MPI_INFO_NULL ? kNullInfo : seam::kErrInfo);
}
MPI_FUNCTION(int, Info_set, MPI_Info info, const char* key, const char* value) {
  if (info == MPI_INFO_NULL) return bad(seam::kFn_MPI_Info_set, kNullInfo);
  if (const int wrong = wrong_key(key)) return bad(seam::kFn_MPI_Info_set, wrong);
  if (!value) return bad(seam::kFn_MPI_Info_set, kNullValue);
  if (strlen(value) > MPI_MAX_INFO_VAL) return bad(seam::kFn_MPI_Info_set, seam::kErrInfoValue);
  int neutral = seam::kErrInfo;
  {
    Locked locked(info_lock);
    if (List* list = list_of(handle_in<Kind::kInfo>(info))) {
      if (put(list, key, value)) return MPI_SUCCESS;
      neutral = seam::kErrNoMem;
    }
  }
  return bad(seam::kFn_MPI_Info_set, neutral);
}
MPI_FUNCTION(int, Info_delete, MPI_Info info, const char* key) {
  if (info == MPI_INFO_NULL) return bad(seam::kFn_MPI_Info_delete, kNullInfo);
  if (const int wrong = wrong_key(key)) return bad(seam::kFn_MPI_Info_delete, wrong);
  int neutral = seam::kErrInfo;
  {
    Locked locked(info_lock);
    if (List* list = list_of(handle_in<Kind::kInfo>(info))) {
      Entry** e = find(list, key);
      if (*e) {
        erase(e);
        return MPI_SUCCESS;
      }
      neutral = seam::kErrInfoNoKey;
    }
  }
  return bad(seam::kFn_MPI_Info_delete, neutral);
}
MPI_FUNCTION(int, Info_get, MPI_Info info, const char* key, int valuelen, char* value, int* flag) {
  const Vid vid = handle_in<Kind::kInfo>(info);
  if (info == MPI_INFO_NULL) return bad(seam::kFn_MPI_Info_get, kNullInfo);
  if (const int wrong = wrong_key(key)) return bad(seam::kFn_MPI_Info_get, wrong);
  if (!value) return bad(seam::kFn_MPI_Info_get, kNullValue);
  if (valuelen < 0 || !flag) return bad(seam::kFn_MPI_Info_get, seam::kErrArg);
  if (is_env(vid)) return call_library<int>(seam::kFn_MPI_Info_get, vid, key, valuelen, value, flag);
  {
    Locked locked(info_lock);
    if (List* list = list_of(vid)) {
      const Entry* e = *find(list, key);
      *flag = e != nullptr;
      if (e) text_out(value, e->value, valuelen + 1, nullptr);  // valuelen excludes the final zero
      return MPI_SUCCESS;
    }
  }
  return bad(seam::kFn_MPI_Info_get, seam::kErrInfo);
}
MPI_FUNCTION(int, Info_get_valuelen, MPI_Info info, const char* key, int* valuelen, int* flag) {
  const Vid vid = handle_in<Kind::kInfo>(info);
  if (info == MPI_INFO_NULL) return bad(seam::kFn_MPI_Info_get_valuelen, kNullInfo);
  if (const int wrong = wrong_key(key)) return bad(seam::kFn_MPI_Info_get_valuelen, wrong);
  if (!valuelen || !flag) return bad(seam::kFn_MPI_Info_get_valuelen, seam::kErrArg);
  if (is_env(vid)) {
    char value[2048];
    const int r = call_library<int>(seam::kFn_MPI_Info_get, vid, key, MPI_MAX_INFO_VAL, value, flag);
    if (r == seam::kSuccess && *flag) *valuelen = static_cast<int>(strlen(value));
    return r;
  }
  {
    Locked locked(info_lock);
    if (List* list = list_of(vid)) {
      const Entry* e = *find(list, key);
      *flag = e != nullptr;
      if (e) *valuelen = static_cast<int>(strlen(e->value));
      return MPI_SUCCESS;
    }
  }
  return bad(seam::kFn_MPI_Info_get_valuelen, seam::kErrInfo);
}
MPI_FUNCTION(int, Info_get_nkeys, MPI_Info info, int* nkeys) {
  const Vid vid = handle_in<Kind::kInfo>(info);
  if (info == MPI_INFO_NULL) return bad(seam::kFn_MPI_Info_get_nkeys, kNullInfo);
  if (!nkeys) return bad(seam::kFn_MPI_Info_get_nkeys, seam::kErrArg);
  if (is_env(vid)) return call_library<int>(seam::kFn_MPI_Info_get_nkeys, vid, nkeys);
  {
    Locked locked(info_lock);
    if (List* list = list_of(vid)) {
      *nkeys = 0;
      for (const Entry* e = list->first; e; e = e->next) ++*nkeys;
      return MPI_SUCCESS;
    }
  }
  return bad(seam::kFn_MPI_Info_get_nkeys, seam::kErrInfo);
}
MPI_FUNCTION(int, Info_get_nthkey, MPI_Info info, int n, char* key) {
  const Vid vid = handle_in<Kind::kInfo>(info);
  if (info == MPI_INFO_NULL) return bad(seam::kFn_MPI_Info_get_nthkey, kNullInfo);
  if (!key || n < 0) return bad(seam::kFn_MPI_Info_get_nthkey, seam::kErrArg);
  if (is_env(vid)) return call_library<int>(seam::kFn_MPI_Info_get_nthkey, vid, n, key);
  int neutral = seam::kErrInfo;
  {
    Locked locked(info_lock);
    if (List* list = list_of(vid)) {
      const Entry* e = list->first;
      while (e && n-- > 0) e = e->next;
      if (e) {
        text_out(key, e->key, MPI_MAX_INFO_KEY, nullptr);
        return MPI_SUCCESS;
      }
      neutral = kNoSuchIndex;
    }
  }
  return bad(seam::kFn_MPI_Info_get_nthkey, neutral);
}
// Copies MPI_INFO_ENV, which is in the lower half.
static int copy_environment(MPI_Info info, MPI_Info* made) {
  int keys = 0, r = PMPI_Info_get_nkeys(info, &keys);
  if (r == MPI_SUCCESS) r = PMPI_Info_create(made);
  for (int i = 0; i < keys && r == MPI_SUCCESS; i++) {
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int there = 0;
    r = PMPI_Info_get_nthkey(info, i, key);
    if (r == MPI_SUCCESS) r = PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &there);
    if (r == MPI_SUCCESS && there) r = PMPI_Info_set(*made, key, value);
  }
  return r;
}
MPI_FUNCTION(int, Info_dup, MPI_Info info, MPI_Info* newinfo) {
  const Vid vid = handle_in<Kind::kInfo>(info);
  if (info == MPI_INFO_NULL || !newinfo) return bad(seam::kFn_MPI_Info_dup, kNullInfo);
  if (is_env(vid)) return copy_environment(info, newinfo);
  int neutral = seam::kErrInfo;
  {
    Locked locked(info_lock);
    if (list_of(vid)) {
      if (const Vid copy = copy_list(vid); copy != kNoInfo) {
        *newinfo = handle_out<Kind::kInfo>(copy);
        return MPI_SUCCESS;
      }
      neutral = seam::kErrNoMem;
    }
  }
  return bad(seam::kFn_MPI_Info_dup, neutral);
}
#if defined(CROPDL_ABI_MPICH)
MPI_FUNCTION(int, Info_create_env, int, char**, MPI_Info* info) { return PMPI_Info_create(info); }
MPI_FUNCTION(int, Info_get_string, MPI_Info info, const char* key, int* buflen, char* value, int* flag) {
  int length = 0;
  const int r = PMPI_Info_get_valuelen(info, key, &length, flag);
  if (r != MPI_SUCCESS || !*flag) return r;
  const int room = *buflen;
  *buflen = length + 1;
  return room > 0 ? PMPI_Info_get(info, key, room - 1, value, flag) : MPI_SUCCESS;
}
#endif

// Hints are advice; results do not depend on them. The hints that the MPI accepted are kept with the
// communicator, so the program reads them after a restart, although the new MPI does not get them.
MPI_FUNCTION(int, Comm_set_info, MPI_Comm comm, MPI_Info info) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  {
    const LowerInfo lower(info);
    const int r = call_library<int>(seam::kFn_MPI_Comm_set_info, vid, lower.vid());
    if (r) return fail_mpi_call(vid, r, seam::kFn_MPI_Comm_set_info);
  }
  Vid known = make_vid(Kind::kInfo, 0);
  const int r = call_library<int>(seam::kFn_MPI_Comm_get_info, vid, &known);
  if (r) return fail_mpi_call(vid, r, seam::kFn_MPI_Comm_set_info);
  Vid hints = handle_in<Kind::kInfo>(info_from_lower(known));
  if (hints == kNoInfo) return fail_mpi_call(vid, seam::kErrNoMem, seam::kFn_MPI_Comm_set_info);
  Object* o = object(vid, true);
  {
    Locked locked(info_lock);
    std::swap(o->hints, hints);
  }
  drop_info(hints);
  return MPI_SUCCESS;
}
// Over the defaults that the MPI tells: MPI_Comm_idup_with_info leaves its hints in the upper half.
static void add_asked_hints(Vid comm, Vid* info) {
  const Object* o = object(comm, false);
  Locked locked(info_lock);
  List* list = list_of(*info);
  if (!list || !o || !o->asked_hints || copy_entries(list_of(o->asked_hints), list)) return;
  free_list(*info);
  *info = kNoInfo;
}
MPI_FUNCTION(int, Comm_get_info, MPI_Comm comm, MPI_Info* info) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  if (!info)
    return fail_mpi_call(vid, null_result(Kind::kInfo, seam::kFn_MPI_Comm_get_info),
                         seam::kFn_MPI_Comm_get_info);
  Vid copy = kNoInfo;
  bool has_hints = false;
  if (const Object* o = object(vid, false)) {
    Locked locked(info_lock);
    has_hints = o->hints != 0;
    if (has_hints) copy = copy_list(o->hints);
  }
  if (!has_hints) {
    Vid known = make_vid(Kind::kInfo, 0);
    const int r = call_library<int>(seam::kFn_MPI_Comm_get_info, vid, &known);
    if (r) return fail_mpi_call(vid, r, seam::kFn_MPI_Comm_get_info);
    copy = handle_in<Kind::kInfo>(info_from_lower(known));
    add_asked_hints(vid, &copy);
  }
  if (copy == kNoInfo) return fail_mpi_call(vid, seam::kErrNoMem, seam::kFn_MPI_Comm_get_info);
  *info = handle_out<Kind::kInfo>(copy);
  return MPI_SUCCESS;
}

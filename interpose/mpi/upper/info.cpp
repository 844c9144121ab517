// MPI's functions for Info objects. A program that holds one can be checkpointed, because they are lists in
// the upper half (info_lists.h). A call that takes an Info gets a temporary copy in the lower half.
// MPI_INFO_ENV is the lower half's: it describes the launch of this run. UH, any thread.
#include "interpose/mpi/upper/info_lists.h"

namespace cropdl::shim {
namespace {

// Error classes of the program's own MPI for a null Info, a wrong index, a null value; and for a value that
// did not fit, whose beginning the program gets.
constexpr int kNullInfo = kIsOpenMpi ? seam::kErrInfo : seam::kErrArg;
constexpr int kNoSuchIndex = kIsOpenMpi ? seam::kErrInfoKey : seam::kErrArg;
constexpr int kNullValue = kIsOpenMpi ? seam::kErrInfoValue : seam::kErrArg;
constexpr int kCutValue = kIsOpenMpi ? seam::kSuccess : seam::kErrInfoValue;
int bad(seam::Fn fn, int neutral) { return fail_mpi_call(kNoObject, neutral, fn); }
int wrong_key(const char* key) {
  constexpr size_t kLongest = kIsOpenMpi ? MPI_MAX_INFO_KEY - 1 : MPI_MAX_INFO_KEY;
  return key && *key && strlen(key) <= kLongest ? seam::kSuccess : seam::kErrInfoKey;
}

// Calls `in_list` with the program's list, or `in_env` for the lower half's, unless `wrong` says that an
// argument is. Both return a neutral error; `in_list` runs under the lock.
template <class F, class G>
int look_up(seam::Fn fn, MPI_Info info, int wrong, F in_list, G in_env) {
  const Vid vid = handle_in<Kind::kInfo>(info);
  if (info == MPI_INFO_NULL) wrong = kNullInfo;
  if (!wrong && vid == seam::kVid_MPI_INFO_ENV) {
    wrong = in_env(vid);
    if (wrong == seam::kErrInfoValue) wrong = kCutValue;  // of the MPI underneath, which may be the other one
  } else if (!wrong) {
    Locked locked(info_lock);
    InfoList* list = info_list(vid);
    wrong = list ? in_list(*list) : seam::kErrInfo;
  }
  return wrong ? bad(fn, wrong) : MPI_SUCCESS;
}
template <class F>
int change(seam::Fn fn, MPI_Info info, int wrong, F in_list) {
  return look_up(fn, info, wrong, in_list, [](Vid) { return seam::kErrInfo; });
}

Vid make_list() {
  Locked locked(info_lock);
  return make_info_list();
}

// Returns a list with the entries of the lower half's Info; kNoInfo: no memory.
Vid copy_lower(Vid lower) {
  const Vid vid = make_list();
  int n = 0;
  if (vid == kNoInfo || call_library<int>(seam::kFn_MPI_Info_get_nkeys, lower, &n) != seam::kSuccess)
    return vid;
  for (int i = 0; i < n; ++i) {
    char key[512], value[2048];
    int flag = 0;
    if (call_library<int>(seam::kFn_MPI_Info_get_nthkey, lower, i, key) != seam::kSuccess) continue;
    call_library<int>(seam::kFn_MPI_Info_get, lower, key, MPI_MAX_INFO_VAL, value, &flag);
    Locked locked(info_lock);
    if (!flag || info_list(vid)->put(key, value)) continue;
    free_info_list(vid);
    return kNoInfo;
  }
  return vid;
}

}  // namespace

LowerInfo::LowerInfo(MPI_Info info) : vid_(handle_in<Kind::kInfo>(info)), made_(false) {
  if (vid_index(vid_) < seam::kFirstDynamic) return;
  InfoList copy{};  // another thread may change the program's list meanwhile
  {
    Locked locked(info_lock);
    const InfoList* list = info_list(vid_);
    vid_ = kNoInfo;
    if (!list) return;
    if (!copy.put_all(*list)) abort();  // as for every temporary copy
  }
  made_ = call_library<int>(seam::kFn_MPI_Info_create, &vid_) == seam::kSuccess;
  for (const InfoEntry* e = copy.first; made_ && e; e = e->next)
    call_library<int>(seam::kFn_MPI_Info_set, vid_, e->key, e->value);
  copy.clear();
}
LowerInfo::~LowerInfo() {
  if (made_) call_library<int>(seam::kFn_MPI_Info_free, &vid_);
}

MPI_Info info_from_lower(Vid lower) {
  if (vid_index(lower) == 0) return handle_out<Kind::kInfo>(make_list());
  const Vid copy = copy_lower(lower);
  call_library<int>(seam::kFn_MPI_Info_free, &lower);
  return handle_out<Kind::kInfo>(copy);
}

MPI_FUNCTION(int, Info_create, MPI_Info* info) {
  if (!info) return bad(seam::kFn_MPI_Info_create, kNullInfo);
  const Vid made = make_list();
  if (made == kNoInfo) return bad(seam::kFn_MPI_Info_create, seam::kErrNoMem);
  *info = handle_out<Kind::kInfo>(made);
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Info_free, MPI_Info* info) {
  if (!info) return bad(seam::kFn_MPI_Info_free, kNullInfo);
  {
    Locked locked(info_lock);
    if (free_info_list(handle_in<Kind::kInfo>(*info))) {
      *info = MPI_INFO_NULL;
      return MPI_SUCCESS;
    }
  }
  return bad(seam::kFn_MPI_Info_free, *info == MPI_INFO_NULL ? kNullInfo : seam::kErrInfo);
}
MPI_FUNCTION(int, Info_set, MPI_Info info, const char* key, const char* value) {
  int wrong = wrong_key(key);
  if (!wrong && !value) wrong = kNullValue;
  if (!wrong && strlen(value) > MPI_MAX_INFO_VAL) wrong = seam::kErrInfoValue;
  return change(seam::kFn_MPI_Info_set, info, wrong,
                [&](InfoList& list) { return list.put(key, value) ? seam::kSuccess : seam::kErrNoMem; });
}
MPI_FUNCTION(int, Info_delete, MPI_Info info, const char* key) {
  return change(seam::kFn_MPI_Info_delete, info, wrong_key(key), [&](InfoList& list) {
    InfoEntry** e = list.find(key);
    if (!*e) return seam::kErrInfoNoKey;
    InfoList::erase(e);
    return seam::kSuccess;
  });
}
MPI_FUNCTION(int, Info_get, MPI_Info info, const char* key, int valuelen, char* value, int* flag) {
  int wrong = wrong_key(key);
  if (!wrong && !value) wrong = kNullValue;
  if (!wrong && (valuelen < 0 || !flag)) wrong = seam::kErrArg;
  const auto in_list = [&](InfoList& list) -> int {
    const InfoEntry* e = *list.find(key);
    *flag = e != nullptr;
    if (!e) return seam::kSuccess;
    text_out(value, e->value, valuelen + 1, nullptr);  // valuelen excludes the final zero
    return strlen(e->value) > static_cast<size_t>(valuelen) ? kCutValue : seam::kSuccess;
  };
  return look_up(seam::kFn_MPI_Info_get, info, wrong, in_list, [&](Vid env) {
    return call_library<int>(seam::kFn_MPI_Info_get, env, key, valuelen, value, flag);
  });
}
MPI_FUNCTION(int, Info_get_valuelen, MPI_Info info, const char* key, int* valuelen, int* flag) {
  int wrong = wrong_key(key);
  if (!wrong && (!valuelen || !flag)) wrong = seam::kErrArg;
  const auto in_list = [&](InfoList& list) {
    const InfoEntry* e = *list.find(key);
    *flag = e != nullptr;
    if (e) *valuelen = static_cast<int>(strlen(e->value));
    return seam::kSuccess;
  };
  return look_up(seam::kFn_MPI_Info_get_valuelen, info, wrong, in_list, [&](Vid env) {
    char value[2048];
    const int r = call_library<int>(seam::kFn_MPI_Info_get, env, key, MPI_MAX_INFO_VAL, value, flag);
    if ((r == seam::kSuccess || r == seam::kErrInfoValue) && *flag)
      *valuelen = static_cast<int>(strlen(value));
    return r;
  });
}
MPI_FUNCTION(int, Info_get_nkeys, MPI_Info info, int* nkeys) {
  const auto in_list = [&](InfoList& list) {
    *nkeys = 0;
    for (const InfoEntry* e = list.first; e; e = e->next) ++*nkeys;
    return seam::kSuccess;
  };
  return look_up(seam::kFn_MPI_Info_get_nkeys, info, nkeys ? seam::kSuccess : seam::kErrArg, in_list,
                 [&](Vid env) { return call_library<int>(seam::kFn_MPI_Info_get_nkeys, env, nkeys); });
}
MPI_FUNCTION(int, Info_get_nthkey, MPI_Info info, int n, char* key) {
  const auto in_list = [&](InfoList& list) -> int {
    const InfoEntry* e = list.first;
    while (e && n-- > 0) e = e->next;
    if (!e) return kNoSuchIndex;
    text_out(key, e->key, MPI_MAX_INFO_KEY, nullptr);
    return seam::kSuccess;
  };
  return look_up(seam::kFn_MPI_Info_get_nthkey, info, key && n >= 0 ? seam::kSuccess : seam::kErrArg, in_list,
                 [&](Vid env) { return call_library<int>(seam::kFn_MPI_Info_get_nthkey, env, n, key); });
}
MPI_FUNCTION(int, Info_dup, MPI_Info info, MPI_Info* newinfo) {
  const auto give = [&](Vid copy) {
    if (copy != kNoInfo) *newinfo = handle_out<Kind::kInfo>(copy);
    return copy != kNoInfo ? seam::kSuccess : seam::kErrNoMem;
  };
  return look_up(
      seam::kFn_MPI_Info_dup, info, newinfo ? seam::kSuccess : kNullInfo,
      [&](InfoList&) { return give(copy_info_list(handle_in<Kind::kInfo>(info))); },
      [&](Vid env) { return give(copy_lower(env)); });
}
#if defined(CROPDL_ABI_MPICH)
MPI_FUNCTION(int, Info_create_env, int, char**, MPI_Info* info) { return PMPI_Info_create(info); }
MPI_FUNCTION(int, Info_get_string, MPI_Info info, const char* key, int* buflen, char* value, int* flag) {
  if (!buflen || (*buflen > 0 && !value)) return bad(seam::kFn_MPI_Info_get_string, seam::kErrArg);
  int length = 0;
  const int r = PMPI_Info_get_valuelen(info, key, &length, flag);
  if (r != MPI_SUCCESS || !*flag) return r;
  const int room = *buflen;
  *buflen = length + 1;
  if (room <= 0) return MPI_SUCCESS;
  char whole[MPI_MAX_INFO_VAL + 1] = "";  // here a value that does not fit is no error
  const int got = PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, whole, flag);
  if (got == MPI_SUCCESS) text_out(value, whole, room, nullptr);
  return got;
}
#endif

}  // namespace cropdl::shim

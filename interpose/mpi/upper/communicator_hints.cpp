// Hints of communicators. They are advice; results do not depend on them, but for one of Open MPI, which the
// lower half keeps (interpose/mpi/lower/topologies.cpp). The hints that the MPI accepted are kept with the
// communicator, so the program reads them after a restart, although the new MPI does not get them. UH, any
// thread.
#include <utility>

#include "interpose/mpi/upper/info_lists.h"
#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {
namespace {

// Removes from `list` the keys that `wanted` has not, and gives the others its values. Returns false if there
// is no memory. Under the lock.
bool keep_wanted(InfoList* list, InfoList* wanted) {
  for (InfoEntry** at = &list->first; *at;) {
    const InfoEntry* w = *wanted->find((*at)->key);
    if (!w) {
      InfoList::erase(at);
      continue;
    }
    if (!list->put(w->key, w->value)) return false;
    at = &(*at)->next;
  }
  return true;
}

// Makes an Info of the upper half of the hints that the MPI tells. Returns a neutral error.
int ask_hints(Vid comm, Vid* hints) {
  Vid known = kNoInfo;
  if (const int r = call_library<int>(seam::kFn_MPI_Comm_get_info, comm, &known)) return r;
  *hints = handle_in<Kind::kInfo>(info_from_lower(known));
  return *hints == kNoInfo ? seam::kErrNoMem : seam::kSuccess;
}

// Over the defaults that the MPI tells: MPI_Comm_idup_with_info leaves its hints in the upper half.
void add_asked_hints(Vid comm, Vid* info) {
  const Object* o = object(comm, false);
  Locked locked(info_lock);
  InfoList* list = info_list(*info);
  if (!list || !o || !o->asked_hints || list->put_all(*info_list(o->asked_hints))) return;
  free_info_list(*info);
  *info = kNoInfo;
}

// What MPI_Comm_idup_with_info asked for is below what MPI_Comm_set_info has `set`. Returns false if there is
// no memory. Under the lock.
bool keep_asked_hints(const Object* o, InfoList* set, InfoList* hints) {
  InfoList* asked = o->asked_hints ? info_list(o->asked_hints) : nullptr;
  if (!asked) return true;
  for (InfoEntry** at = &asked->first; *at;) {
    if (set && *set->find((*at)->key)) {
      InfoList::erase(at);
    } else {
      at = &(*at)->next;
    }
  }
  return hints->put_all(*asked);
}

}  // namespace

// The hints that a communicator has are those that its MPI knows.
int known_hints(Vid parent, MPI_Info info, Vid* hints) {
  *hints = 0;
  const Vid asked = handle_in<Kind::kInfo>(info);
  if (vid_index(asked) < seam::kFirstDynamic)
    return seam::kSuccess;  // none, or MPI_INFO_ENV, which has no hints
  Vid made;
  if (const int r = ask_hints(parent, &made)) return r;
  Locked locked(info_lock);
  InfoList* wanted = info_list(asked);
  const bool kept = wanted && keep_wanted(info_list(made), wanted);
  if (kept && info_list(made)->first)
    *hints = made;
  else
    free_info_list(made);
  return kept ? seam::kSuccess : wanted ? seam::kErrNoMem : seam::kErrInfo;
}

MPI_FUNCTION(int, Comm_set_info, MPI_Comm comm, MPI_Info info) {
  constexpr seam::Fn kFn = seam::kFn_MPI_Comm_set_info;
  seam::note_caller(__builtin_frame_address(0));
  const Vid vid = handle_in<Kind::kComm>(comm);
  {
    const LowerInfo lower(info);
    const int r = call_library<int>(seam::kFn_MPI_Comm_set_info, vid, lower.vid());
    if (r) return fail_mpi_call(vid, r, kFn);
  }
  Vid hints;
  if (const int r = ask_hints(vid, &hints)) return fail_mpi_call(vid, r, kFn);
  Object* o = object(vid, true);
  bool kept = false;
  {
    Locked locked(info_lock);
    kept = keep_asked_hints(o, info_list(handle_in<Kind::kInfo>(info)), info_list(hints));
    if (kept) std::swap(o->hints, hints);
  }
  drop_info(hints);
  return kept ? MPI_SUCCESS : fail_mpi_call(vid, seam::kErrNoMem, kFn);
}
MPI_FUNCTION(int, Comm_get_info, MPI_Comm comm, MPI_Info* info) {
  constexpr seam::Fn kFn = seam::kFn_MPI_Comm_get_info;
  const Vid vid = handle_in<Kind::kComm>(comm);
  if (!info) return fail_mpi_call(vid, null_result(Kind::kInfo, kFn), kFn);
  Vid copy = kNoInfo;
  bool has_hints = false;
  if (const Object* o = object(vid, false)) {
    Locked locked(info_lock);
    has_hints = o->hints != 0;
    if (has_hints) copy = copy_info_list(o->hints);
  }
  if (!has_hints) {
    if (const int r = ask_hints(vid, &copy)) return fail_mpi_call(vid, r, kFn);
    add_asked_hints(vid, &copy);
  }
  if (copy == kNoInfo) return fail_mpi_call(vid, seam::kErrNoMem, kFn);
  *info = handle_out<Kind::kInfo>(copy);
  return MPI_SUCCESS;
}

}  // namespace cropdl::shim

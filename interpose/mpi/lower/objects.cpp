// Real handles behind virtual ones: predefined ones, those adopted without a recipe, and the freeing of both;
// rare cases of translating values (runtime.h: any thread). LH, LH FS base, threads of the program.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/say.h"
#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

uint64_t real_handles[16][kCapacity];
State* state;
handles::Tables* tables;
CommRecord* comm_records[kCapacity];
bool multiple;
handles::SpinLock structure_lock;
uint64_t uncounted;

namespace {

thread_local KeptTypes* kept;      // see keep_types
thread_local RequestPlace* place;  // place of the request that this thread is about to adopt

// Its vid, or the null vid.
Vid predefined(Kind kind, uint64_t word) {
  constexpr uint32_t kMost = seam::kPredefinedDatatype;  // no kind has more
  static_assert(kMost >= seam::kPredefinedOp && kMost >= seam::kPredefinedErrhandler);
  const uint64_t* words = real_handles[static_cast<unsigned>(kind)];
  const auto index = static_cast<uint32_t>(std::find(words, words + kMost, word) - words);
  return seam::make_vid(kind, word != 0 && index < kMost ? index : 0);
}

}  // namespace

// Names that this MPI lacks keep 0, which it rejects with an error of the right class.
void fill_predefined() {
#define X(kind, index, name, handle) real_word(seam::make_vid(Kind::kind, index)) = to_word(handle);
#include CROPDL_PREDEFINED  // interpose/gen: lower_predefined_<mpi>.inc
#undef X
}

bool is_predefined(Vid vid) { return seam::vid_index(vid) < seam::kFirstDynamic; }

Vid find_vid(Kind kind, uint64_t word) {
  if (Vid v = predefined(kind, word); seam::vid_index(v)) return v;
  const uint64_t* words = real_handles[static_cast<unsigned>(kind)];
  for (uint32_t i = seam::kFirstDynamic; i < kCapacity; ++i) {
    const handles::Slot* s = tables->slot(seam::make_vid(kind, i));
    if (!s) break;
    // Also finds a handle that the program has freed while something still uses it.
    if (s->state != handles::kFree && words[i] == word) return seam::make_vid(kind, i);
  }
  return seam::make_vid(kind, 0);
}

// Under structure_lock.
static Vid create(Kind kind, uint64_t word, uint32_t maker) {
  const Vid vid = tables->create(static_cast<uint32_t>(kind), maker);
  if (!vid) {
    if (tables->is_full(static_cast<uint32_t>(kind)))
      say_of_rank(formatted("{}: more than {} objects of one kind are alive", function_name(maker),
                            kCapacity - seam::kFirstDynamic));
    else
      say_heap_is_full(maker);
    return seam::make_vid(kind, 0);
  }
  rebind_handle(vid, word);
  return vid;
}

Vid new_object(Kind kind, uint64_t word, uint32_t maker) {
  handles::SpinGuard guard(structure_lock);
  return create(kind, word, maker);
}

Vid new_object(Kind kind, uint64_t word, uint32_t maker, std::span<const Vid> dependencies,
               const void* payload, size_t bytes) {
  handles::SpinGuard guard(structure_lock);
  const Vid vid = create(kind, word, maker);
  if (!seam::vid_index(vid) || tables->set_recipe(vid, dependencies, payload, bytes)) return vid;
  say_heap_is_full(maker);
  std::vector<handles::Handle> gone;
  tables->free(vid, gone);
  return seam::make_vid(kind, 0);
}

Vid adopt(Kind kind, uint64_t word, uint32_t maker) {
  if (kind == Kind::kRequest) return adopt_request(from_word<MPI_Request>(word), maker);
  if (Vid v = predefined(kind, word); seam::vid_index(v) || word == real_word(v)) return v;
  if (kind == Kind::kGroup) return new_group(from_word<MPI_Group>(word), maker);
  if (kind == Kind::kInfo) return new_info(from_word<MPI_Info>(word), maker);
  Vid v = seam::make_vid(kind, 0);
  // A datatype or operation that the MPI returns is a new reference, to be freed separately.
  if (kind != Kind::kDatatype && kind != Kind::kOp && kind != Kind::kMessage) v = find_vid(kind, word);
  if (!seam::vid_index(v)) v = new_object(kind, word, maker);
  if (kind == Kind::kComm && seam::vid_index(v)) MPI_Comm_set_errhandler(comm(v), MPI_ERRORS_RETURN);
  if (kind == Kind::kWin && seam::vid_index(v)) MPI_Win_set_errhandler(win(v), MPI_ERRORS_RETURN);
  return v;
}

// MPI names every function that makes startable requests, and no other, ..._init or ..._init_c; every
// nonblocking collective MPI_I... (MPI_Isendrecv, named likewise, refuses every checkpoint; requests of
// windows and files do not outlive these.)
static RequestKind kind_of_requests(uint32_t maker) {
  static const auto kinds = [] {
    std::array<RequestKind, seam::kFnCount> all;
    for (uint32_t f = 0; f < all.size(); ++f) {
      const std::string_view name = function_name(f);
      const bool can_be_started = name.ends_with("_init") || name.ends_with("_init_c");
      const bool is_collective = name.starts_with("MPI_I") || name.starts_with("MPIX_I");
      all[f] = can_be_started ? kPersistentOther : is_collective ? kCollectiveRequest : kOtherRequest;
    }
    return all;
  }();
  return kinds[maker];
}

AdoptedRequestPlace::AdoptedRequestPlace() : outer_(std::exchange(place, this)) {}
AdoptedRequestPlace::~AdoptedRequestPlace() { place = outer_; }

Vid adopt_request(MPI_Request h, uint32_t maker) {
  if (h == MPI_REQUEST_NULL) return kNullRequest;
  const RequestKind kind = kind_of_requests(maker);
  if (kind == kCollectiveRequest) note_modes(&modes_of_collectives);
  const Vid v = place->take({kind, maker, nullptr, 0, kNullDatatype, 0, 0, kNullComm}, h,
                            kind == kPersistentOther ? kRequestInactive : kRequestActive);
  request_record(v)->more[2] = reinterpret_cast<uint64_t>(std::exchange(kept, nullptr));
  return v;
}

HandleArray<MPI_Datatype>& keep_types(const Vid* vids, int n) {
  kept = new KeptTypes{{vids, n}, kept};
  return kept->array;
}

void destroy_objects(std::span<const handles::Handle> gone) {
  for (handles::Handle h : gone) {
    if (seam::vid_kind(h) == Kind::kDatatype) {
      MPI_Datatype real = datatype(h);
      if (real != MPI_DATATYPE_NULL && to_word(real)) MPI_Type_free(&real);
      free_as_made(h);
    }
    rebind_handle(h, 0);
  }
}

void forget_object(Vid vid) {
  if (is_predefined(vid)) return;
  if (seam::vid_kind(vid) == Kind::kRequest) {
    release_request(vid);
    return;
  }
  const bool is_comm = seam::vid_kind(vid) == Kind::kComm;
  if (is_comm) comm_records[vid & kIndexMask] = nullptr;
  // Non-empty if a persistent request was freed after CommFree::run() checked.
  std::vector<DrainedMessage*> left;
  {
    std::vector<handles::Handle> gone;
    handles::SpinGuard guard(structure_lock, multiple);
    tables->free(vid, gone);
    // The caller has freed the real object itself, even if the index is still in use.
    rebind_handle(vid, 0);
    if (std::erase(gone, vid) && is_comm) left = take_all_drained(vid);
    destroy_objects(gone);
  }
  drop_drained(left);
}

void mark_unsaved(uint32_t function, const char* why) {
  handles::SpinGuard guard(structure_lock, multiple);
  if (state->unsaved_function) return;
  snprintf(state->unsaved_why, sizeof state->unsaved_why, "%s", why);
  state->unsaved_function = function + 1;
}

void mark_used(uint32_t function) {
  if (function < sizeof state->used) state->used[function] = 1;
}

int tell_largest_tag(int real) {
  if (!state->largest_tag_told)
    state->largest_tag_told = static_cast<uint32_t>(real);  // same value in all threads
  return static_cast<int>(state->largest_tag_told);
}

int error_class_out(int code) {
  int real = MPI_ERR_UNKNOWN;
  if (MPI_Error_class(code, &real) != MPI_SUCCESS) return seam::kErrUnknown;
  return constants::to_seam_error(real, seam::kErrOther);
}

MPI_Status status_in(const seam::Status& from) {
  MPI_Status to{};
  constants::from_seam_status(from, &to);
  to.MPI_ERROR = constants::from_seam_error(from.error);
  return to;
}

void say_of_rank(const std::string& line) {
  cropdl::say(formatted("cropdl: rank {}: {}", state ? state->rank : -1, line));
}

void say_heap_is_full(uint32_t function) {
  say_of_rank(
      formatted("{}: the persistent heap is full; raise the limit of memory (ulimit -v, or the job's)",
                function_name(function)));
}

}  // namespace cropdl::mpi

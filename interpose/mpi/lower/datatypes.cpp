// Datatypes. Generated constructors record their arguments and the types named in them. These types, virtual
// and real, stay while a recipe or a pending receive names them. LH, LH FS base, threads of the program.
#include <cstring>
#include <unordered_map>
#include <utility>

#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace cropdl::mpi {
namespace {

enum TypeFlag : uint32_t { kCommitted = 1, kMeasured = 2 };

// Programs lay out their arrays by these numbers, which the slot keeps (owner).
struct Measures {
  MPI_Count lower = 0, extent = 0, size = 0;
  bool operator==(const Measures&) const = default;
};
static_assert(sizeof(Measures) == sizeof(handles::Slot::owner));

bool measure(MPI_Datatype type, Measures* m) {
  return MPI_Type_get_extent_x(type, &m->lower, &m->extent) == MPI_SUCCESS &&
         MPI_Type_size_x(type, &m->size) == MPI_SUCCESS;
}

Measures kept_measures(const handles::Slot* s) {
  Measures m;
  memcpy(&m, s->owner, sizeof m);
  return m;
}

// Types that a restart resized, as their constructors made them. The program may make types from them later.
std::unordered_map<Vid, MPI_Datatype> as_made;

// MPIs give some types other bounds (a structure with a resized member): the type gets those that it had.
// Types made from this one are then made from the resized one.
int restore_bounds(const handles::Slot* s, Vid vid, MPI_Datatype* type) {
  Measures here;
  if (!(s->flags & kMeasured) || !measure(*type, &here)) return MPI_SUCCESS;  // not in older images
  const Measures had = kept_measures(s);
  if (here.lower == had.lower && here.extent == had.extent) return MPI_SUCCESS;
  MPI_Datatype resized = MPI_DATATYPE_NULL;
  const int code = MPI_Type_create_resized(*type, static_cast<MPI_Aint>(had.lower),
                                           static_cast<MPI_Aint>(had.extent), &resized);
  if (code == MPI_SUCCESS) as_made[vid] = std::exchange(*type, resized);
  return code;
}

}  // namespace

int keep_datatype(MPI_Datatype made, uint32_t maker, const handles::RecipeWriter& recipe, Vid* vid) {
  // MPI-3.1, 17.2.5: the same arguments may give the same handle, which is never freed; both MPIs do so.
  if (maker == seam::kFn_MPI_Type_create_f90_real || maker == seam::kFn_MPI_Type_create_f90_complex ||
      maker == seam::kFn_MPI_Type_create_f90_integer) {
    *vid = find_vid(Kind::kDatatype, to_word(made));
    if (seam::vid_index(*vid)) return seam::kSuccess;
  }
  *vid = new_object(Kind::kDatatype, to_word(made), maker, recipe.dependencies(), recipe.payload().data(),
                    recipe.payload().size());
  if (seam::vid_index(*vid)) {
    handles::Slot* s = tables->slot(*vid);
    if (Measures m; measure(made, &m)) {
      memcpy(s->owner, &m, sizeof m);
      s->flags |= kMeasured;
    }
    return seam::kSuccess;
  }
  MPI_Type_free(&made);
  return seam::kErrIntern;
}

// A duplicate of a committed type is committed; predefined types are committed.
void inherit_commitment(Vid from, Vid to) {
  const handles::Slot* s = tables->slot(from);
  if (!s || s->flags & kCommitted) tables->slot(to)->flags |= kCommitted;
}

int remake_datatype(Vid vid) {
  const handles::Slot* s = tables->slot(vid);
  uint64_t word = to_word(MPI_DATATYPE_NULL);
  int code = remake_object(s->maker, *reinterpret_cast<const handles::Recipe*>(s->recipe), &word);
  auto made = from_word<MPI_Datatype>(word);
  if (code == MPI_SUCCESS) code = restore_bounds(s, vid, &made);
  if (code == MPI_SUCCESS && s->flags & kCommitted) code = MPI_Type_commit(&made);
  rebind_handle(vid, to_word(made));
  return code;
}

Status compare_datatypes() {
  for (handles::Handle h : tables->in_order(static_cast<uint32_t>(Kind::kDatatype))) {
    const handles::Slot* s = tables->slot(h);
    const Measures had = kept_measures(s);
    Measures here;
    if (!(s->flags & kMeasured) || !measure(datatype(h), &here) || here == had) continue;
    return Error{
        "cannot restart: the datatype of {} has {} bytes and an extent of {} under this MPI, and had {} and "
        "{}; restart under the MPI the job began with",
        function_name(s->maker),
        here.size,
        here.extent,
        had.size,
        had.extent};
  }
  return {};
}

MPI_Datatype datatype_as_made(Vid vid) {
  handles::SpinGuard guard(structure_lock, multiple);
  const auto found = as_made.find(vid);
  return found == as_made.end() ? datatype(vid) : found->second;
}

void free_as_made(Vid vid) {
  const auto found = as_made.find(vid);
  if (found == as_made.end()) return;
  MPI_Type_free(&found->second);
  as_made.erase(found);
}

extern "C" {

int lower_MPI_Type_commit(Vid* type) {
  MPI_Datatype real = datatype(*type);
  const int code = MPI_Type_commit(&real);
  if (code != MPI_SUCCESS) return error_out(code);
  if (handles::Slot* s = tables->slot(*type)) {
    s->flags |= kCommitted;
    rebind_handle(*type, to_word(real));
  }
  return seam::kSuccess;
}

int lower_MPI_Type_free(Vid* type) {
  if (is_predefined(*type) || !tables->live(*type)) return seam::kErrType;
  std::vector<handles::Handle> gone;
  handles::SpinGuard guard(structure_lock, multiple);
  tables->free(*type, gone);
  destroy_objects(gone);
  *type = kNullDatatype;
  return seam::kSuccess;
}

}  // extern "C"

}  // namespace cropdl::mpi

// Datatypes. Generated constructors record their arguments and the types named in them. These types, virtual
// and real, stay while a recipe or a pending receive names them. LH, LH FS base, threads of the program.
#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace cropdl::mpi {
namespace {

enum TypeFlag : uint32_t { kCommitted = 1 };

// MPI-3.1, 17.2.5: the same arguments may give the same handle, which is never freed; both MPIs do so.
bool is_shared(uint32_t maker) {
  return maker == seam::kFn_MPI_Type_create_f90_real || maker == seam::kFn_MPI_Type_create_f90_complex ||
         maker == seam::kFn_MPI_Type_create_f90_integer;
}

}  // namespace

int keep_datatype(MPI_Datatype made, uint32_t maker, const handles::RecipeWriter& recipe, Vid* vid) {
  if (is_shared(maker)) {
    *vid = find_datatype(made);
    if (seam::vid_index(*vid)) return seam::kSuccess;
  }
  *vid = new_object(Kind::kDatatype, to_word(made), maker, recipe.dependencies(), recipe.payload().data(),
                    recipe.payload().size());
  if (seam::vid_index(*vid)) return seam::kSuccess;
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
  if (code == MPI_SUCCESS && s->flags & kCommitted) {
    auto made = from_word<MPI_Datatype>(word);
    code = MPI_Type_commit(&made);
    word = to_word(made);
  }
  rebind_handle(vid, word);
  return code;
}

}  // namespace cropdl::mpi

using namespace cropdl;
using namespace cropdl::mpi;
using seam::Vid;

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

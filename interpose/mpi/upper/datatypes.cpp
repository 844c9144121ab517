// Datatypes: attributes and names in duplicating and freeing, and the functions that MPI 3 removed. UH, any
// thread.
#include <utility>

#include "interpose/mpi/upper/attributes.h"
#include "interpose/seam/type_contents.h"

using namespace cropdl;
using namespace cropdl::shim;

MPI_FUNCTION(int, Type_dup, MPI_Datatype type, MPI_Datatype* newtype) {
  return duplicate<Kind::kDatatype>(type, newtype, seam::kFn_MPI_Type_dup, [](Vid from, Vid* made) {
    return call_library<int>(seam::kFn_MPI_Type_dup, from, made);
  });
}
MPI_FUNCTION(int, Type_free, MPI_Datatype* type) {
  return free_with_attributes<Kind::kDatatype>(type, seam::kFn_MPI_Type_free);
}

static SpinLock names_lock;  // guards Object::name
MPI_FUNCTION(int, Type_set_name, MPI_Datatype type, const char* name) {
  const Vid vid = handle_in<Kind::kDatatype>(type);
  if (!handle_exists(vid)) return fail_mpi_call(kNoObject, seam::kErrType, seam::kFn_MPI_Type_set_name);
  if (!name) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Type_set_name);
  char* own = strndup(name, MPI_MAX_OBJECT_NAME - 1);
  if (!own) abort();
  Object* o = object(vid, true);
  {
    Locked locked(names_lock);
    std::swap(o->name, own);
  }
  free(own);
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Type_get_name, MPI_Datatype type, char* name, int* length) {
  const Vid vid = handle_in<Kind::kDatatype>(type);
  if (!name || !length) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Type_get_name);
  if (const Object* o = object(vid, false)) {
    Locked locked(names_lock);
    if (o->name) {
      text_out(name, o->name, MPI_MAX_OBJECT_NAME, length);
      return MPI_SUCCESS;
    }
  }
  char text[kTextCapacity] = "";
  const int r = call_library<int>(seam::kFn_MPI_Type_get_name, vid, text, length);
  if (r) return fail_mpi_call(kNoObject, r, seam::kFn_MPI_Type_get_name);
  text_out(name, text, MPI_MAX_OBJECT_NAME, length);
  return MPI_SUCCESS;
}

MPI_FUNCTION(int, Type_get_contents, MPI_Datatype type, int max_integers, int max_addresses,
             int max_datatypes, int integers[], MPI_Aint addresses[], MPI_Datatype types[]) {
  const Vid vid = handle_in<Kind::kDatatype>(type);
  int n = 0, na = 0, nt = 0, combiner = MPI_COMBINER_NAMED;
  if (const int r = PMPI_Type_get_envelope(type, &n, &na, &nt, &combiner)) return r;
  Handles<Kind::kDatatype> made(max_datatypes);
  const int r =
      call_library<int>(seam::kFn_MPI_Type_get_contents, vid, max_integers, max_addresses, max_datatypes,
                        integers, reinterpret_cast<int64_t*>(addresses), made.vids());
  if (r) return fail_mpi_call(kNoObject, r, seam::kFn_MPI_Type_get_contents);
  seam::translate_contents(constants::to_seam_combiner(combiner), n, integers,
                           constants::from_seam_order<int>, constants::from_seam_distribution<int>,
                           constants::from_seam_distribution_argument<int>);
  for (int i = 0; i < nt; ++i) types[i] = handle_out<Kind::kDatatype>(made.vids()[i]);
  return MPI_SUCCESS;
}

// MPI 3 removed these; both libraries still export them.
MPI_FUNCTION(int, Type_extent, MPI_Datatype type, MPI_Aint* extent) {
  if (!extent) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Type_extent);
  MPI_Aint lower;
  return PMPI_Type_get_extent(type, &lower, extent);
}
MPI_FUNCTION(int, Type_lb, MPI_Datatype type, MPI_Aint* lower) {
  if (!lower) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Type_lb);
  MPI_Aint extent;
  return PMPI_Type_get_extent(type, lower, &extent);
}
MPI_FUNCTION(int, Type_ub, MPI_Datatype type, MPI_Aint* upper) {
  if (!upper) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Type_ub);
  MPI_Aint lower, extent;
  const int r = PMPI_Type_get_extent(type, &lower, &extent);
  if (r == MPI_SUCCESS) *upper = lower + extent;
  return r;
}

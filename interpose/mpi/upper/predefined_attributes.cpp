// Predefined attributes: the only ones that are read from the lower half. UH, any thread.
#include "interpose/mpi/upper/attributes.h"

namespace cropdl::shim {
namespace {

// Values of predefined attributes, by their numbers in the seam; the program gets pointers. A query refreshes
// the value; after a restart it is the new MPI's, except MPI_TAG_UB (tell_largest_tag).
constexpr int kWorldValues = seam::comm_attribute::k_MPI_APPNUM + 1;
int world_values[kWorldValues];
int lastusedcode;

// -1: `number` is no predefined attribute. (Other keyvals are translated to themselves, never to such.)
int numbered(int number, int numbers) { return number >= 0 && number < numbers ? number : -1; }

}  // namespace

bool get_predefined_attribute(Vid vid, int keyval, void** pointer, int64_t* number, int* flag, int* error) {
  int64_t value = 0;
  // MPICH's Fortran constants for predefined keys (mpif.h) are the C constants plus one: even, not odd.
  if (!kIsOpenMpi && (keyval >> 24 == 0x64 || keyval >> 24 == 0x66) && keyval % 2 == 0) --keyval;
  const Kind kind = seam::vid_kind(vid);
  const bool is_comm = kind == Kind::kComm;
  if (is_comm && keyval == MPI_LASTUSEDCODE) {
    lastusedcode = last_used_code();
    *pointer = &lastusedcode;
    *number = lastusedcode;
    *flag = !kIsOpenMpi || vid == seam::kVid_MPI_COMM_WORLD;  // no other communicator of Open MPI has it
    return true;
  }
  const int i = is_comm              ? numbered(constants::to_seam_comm_attribute(keyval), kWorldValues)
                : kind == Kind::kWin ? numbered(constants::to_seam_win_attribute(keyval), kWindowValues)
                                     : -1;
  if (i < 0) return false;
  *error = call_library<int>(is_comm ? seam::kFn_MPI_Comm_get_attr : seam::kFn_MPI_Win_get_attr, vid, i,
                             &value, flag);
  if (*error || !*flag) return true;
  if (is_comm) {
    if (keyval == MPI_HOST || keyval == MPI_IO) value = constants::from_seam_rank(static_cast<int>(value));
    world_values[i] = static_cast<int>(value);
    *pointer = &world_values[i];
    *number = value;
    return true;
  }
  if (keyval == MPI_WIN_MODEL) value = value ? MPI_WIN_UNIFIED : MPI_WIN_SEPARATE;
  int64_t* slot = &object(vid, true)->window_values[i];
  if (keyval == MPI_WIN_SIZE) {
    *slot = value;
  } else {
    *reinterpret_cast<int*>(slot) = static_cast<int>(value);
  }
  *pointer = keyval == MPI_WIN_BASE ? reinterpret_cast<void*>(value) : slot;
  *number = value;
  return true;
}

}  // namespace cropdl::shim

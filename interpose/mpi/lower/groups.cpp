// Groups. The recipe is the list of world ranks. LH, LH FS base, threads of the program.
#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace cropdl::mpi {

Vid adopt_group(MPI_Group made, uint32_t maker) {
  if (made == MPI_GROUP_NULL) return kNullGroup;
  if (Vid v = predefined(Kind::kGroup, to_word(made)); seam::vid_index(v)) return v;
  std::vector<uint32_t> ranks;
  if (!world_ranks(made, &ranks)) return new_object(Kind::kGroup, to_word(made), maker);
  return new_object(Kind::kGroup, to_word(made), maker, {}, ranks.data(), ranks.size() * sizeof(uint32_t));
}

int remake_group(Vid vid) {
  const auto* recipe = reinterpret_cast<const handles::Recipe*>(tables->slot(vid)->recipe);
  const auto* ranks = static_cast<const int*>(recipe->payload());
  MPI_Group made = MPI_GROUP_NULL;
  const int code =
      MPI_Group_incl(world_group, static_cast<int>(recipe->bytes / sizeof(uint32_t)), ranks, &made);
  rebind_handle(vid, to_word(made));
  return code;
}

extern "C" {

int lower_MPI_Group_free(Vid* g) {
  if (!is_predefined(*g)) {
    MPI_Group real = group(*g);
    const int code = MPI_Group_free(&real);
    if (code != MPI_SUCCESS) return error_out(code);
    forget_object(*g);
  } else if (!seam::vid_index(*g)) {
    return seam::kErrGroup;
  }
  *g = kNullGroup;
  return seam::kSuccess;
}

}  // extern "C"

}  // namespace cropdl::mpi

// Info objects: made for one call that takes or returns hints, and freed after it. A cut may come while the
// call waits for other ranks, so the recipe is their keys and values. LH, LH FS base, threads of the program.
#include <cstring>
#include <optional>

#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace cropdl::mpi {

static void add_text(const char* text, std::vector<char>* to) {
  to->insert(to->end(), text, text + strlen(text) + 1);
}

// Keys and values, each with its final zero; none if the MPI does not tell (before MPI_Init).
static std::optional<std::vector<char>> contents_of(MPI_Info info) {
  std::vector<char> all, value;
  int keys = 0;
  if (MPI_Info_get_nkeys(info, &keys) != MPI_SUCCESS) return std::nullopt;
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1];
    int length = 0, known = 0;
    if (MPI_Info_get_nthkey(info, i, key) != MPI_SUCCESS ||
        MPI_Info_get_valuelen(info, key, &length, &known) != MPI_SUCCESS)
      return std::nullopt;
    value.assign(static_cast<size_t>(length) + 1, 0);
    if (!known || MPI_Info_get(info, key, length, value.data(), &known) != MPI_SUCCESS) return std::nullopt;
    add_text(key, &all);
    add_text(value.data(), &all);
  }
  return all;
}

Vid new_info(MPI_Info made, uint32_t maker) {
  const auto contents = contents_of(made);
  if (!contents) return new_object(Kind::kInfo, to_word(made), maker);
  return new_object(Kind::kInfo, to_word(made), maker, {}, contents->data(), contents->size());
}

// Like the shim, it leaves out a hint that this MPI refuses (a longer key than its own).
int remake_info(Vid vid) {
  const std::span<const char> all = recipe_of<char>(vid);
  MPI_Info made = MPI_INFO_NULL;
  const int code = MPI_Info_create(&made);
  for (const char* at = all.data(); code == MPI_SUCCESS && at < all.data() + all.size();) {
    const char* value = at + strlen(at) + 1;
    MPI_Info_set(made, at, value);
    at = value + strlen(value) + 1;
  }
  rebind_handle(vid, to_word(made));
  return code;
}

extern "C" {

int lower_MPI_Info_set(Vid info, const char* key, const char* value) {
  const int code = MPI_Info_set(mpi::info(info), key, value);
  if (code != MPI_SUCCESS || !tables->live(info)) return error_out(code);
  const auto contents = contents_of(mpi::info(info));
  std::vector<handles::Handle> gone;  // stays empty: Info objects depend on none
  handles::SpinGuard guard(structure_lock);
  tables->lose_recipe(info, gone);
  if (contents) tables->set_recipe(info, {}, contents->data(), contents->size());
  return seam::kSuccess;
}

}  // extern "C"

}  // namespace cropdl::mpi

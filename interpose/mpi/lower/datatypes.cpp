// Datatypes. A derived one is recorded with the arguments of its constructor and the types it was made from;
// those stay (and so do their real types) as long as a recipe or a pending receive names them. LH, LH FS
// base, threads of the program.
#include <cstring>
#include <initializer_list>

#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace cropdl::mpi {
namespace {

enum TypeFlag : uint32_t { kCommitted = 1 };

// The arguments of a constructor beyond the types, as the recipe holds them.
struct Arguments {
  std::span<const int> ints;
  std::span<const MPI_Aint> addresses;
};

struct PayloadHeader {
  uint32_t ints, addresses;  // MPI_Aint[addresses] follow, then int[ints]
};

// The one place that calls the constructors, for the program and for the replay alike.
int construct(uint32_t maker, std::span<const Vid> from, const Arguments& a, MPI_Datatype* made) {
  const MPI_Datatype base = datatype(from[0]);
  const int* i = a.ints.data();
  const MPI_Aint* d = a.addresses.data();
  switch (maker) {
    case seam::kFn_MPI_Type_dup:
      return MPI_Type_dup(base, made);
    case seam::kFn_MPI_Type_contiguous:
      return MPI_Type_contiguous(i[0], base, made);
    case seam::kFn_MPI_Type_vector:
      return MPI_Type_vector(i[0], i[1], i[2], base, made);
    case seam::kFn_MPI_Type_create_hvector:
      return MPI_Type_create_hvector(i[0], i[1], d[0], base, made);
    case seam::kFn_MPI_Type_indexed:
      return MPI_Type_indexed(i[0], i + 1, i + 1 + i[0], base, made);
    case seam::kFn_MPI_Type_create_hindexed:
      return MPI_Type_create_hindexed(i[0], i + 1, d, base, made);
    case seam::kFn_MPI_Type_create_indexed_block:
      return MPI_Type_create_indexed_block(i[0], i[1], i + 2, base, made);
    case seam::kFn_MPI_Type_create_hindexed_block:
      return MPI_Type_create_hindexed_block(i[0], i[1], d, base, made);
    case seam::kFn_MPI_Type_create_resized:
      return MPI_Type_create_resized(base, d[0], d[1], made);
    case seam::kFn_MPI_Type_create_subarray: {
      const int n = i[0], order = constants::from_seam_order(i[1]);
      return MPI_Type_create_subarray(n, i + 2, i + 2 + n, i + 2 + n + n, order, base, made);
    }
    case seam::kFn_MPI_Type_create_struct: {
      std::vector<MPI_Datatype> types;
      for (Vid v : from) types.push_back(datatype(v));
      return MPI_Type_create_struct(i[0], i + 1, d, types.data(), made);
    }
    default:
      return MPI_ERR_INTERN;
  }
}

int create(uint32_t maker, std::span<const Vid> from, const Arguments& a, Vid* newtype) {
  *newtype = kNullDatatype;
  MPI_Datatype made = MPI_DATATYPE_NULL;
  const int code = construct(maker, from, a, &made);
  if (code != MPI_SUCCESS) return error_out(code);
  std::vector<char> payload(sizeof(PayloadHeader) + a.ints.size_bytes() + a.addresses.size_bytes());
  const PayloadHeader header{static_cast<uint32_t>(a.ints.size()), static_cast<uint32_t>(a.addresses.size())};
  char* to = payload.data();
  memcpy(to, &header, sizeof header);
  if (!a.addresses.empty()) memcpy(to + sizeof header, a.addresses.data(), a.addresses.size_bytes());
  if (!a.ints.empty())
    memcpy(to + sizeof header + a.addresses.size_bytes(), a.ints.data(), a.ints.size_bytes());
  const Vid vid = new_object(Kind::kDatatype, to_word(made), maker, from, payload.data(), payload.size());
  if (!seam::vid_index(vid)) {
    MPI_Type_free(&made);
    return seam::kErrIntern;
  }
  // A duplicate of a committed type is committed.
  if (maker == seam::kFn_MPI_Type_dup) {
    const handles::Slot* s = tables->slot(from[0]);
    if (!s || s->flags & kCommitted) tables->slot(vid)->flags |= kCommitted;
  }
  *newtype = vid;
  return seam::kSuccess;
}

std::vector<int> joined(std::initializer_list<int> first,
                        std::initializer_list<std::span<const int>> arrays) {
  std::vector<int> all(first);
  for (std::span<const int> a : arrays) all.insert(all.end(), a.begin(), a.end());
  return all;
}
std::span<const int> ints(const int* p, int n) { return {p, p && n > 0 ? static_cast<size_t>(n) : 0}; }
std::vector<MPI_Aint> addresses(const int64_t* p, int n) {
  return p && n > 0 ? std::vector<MPI_Aint>(p, p + n) : std::vector<MPI_Aint>{};
}

}  // namespace

int remake_datatype(Vid vid) {
  const handles::Slot* s = tables->slot(vid);
  const auto* recipe = reinterpret_cast<const handles::Recipe*>(s->recipe);
  const auto* header = static_cast<const PayloadHeader*>(recipe->payload());
  const auto* d = reinterpret_cast<const MPI_Aint*>(header + 1);
  const Arguments a{{reinterpret_cast<const int*>(d + header->addresses), header->ints},
                    {d, header->addresses}};
  MPI_Datatype made = MPI_DATATYPE_NULL;
  int code = construct(s->maker, recipe->handles(), a, &made);
  if (code == MPI_SUCCESS && s->flags & kCommitted) code = MPI_Type_commit(&made);
  rebind(vid, to_word(made));
  return code;
}

}  // namespace cropdl::mpi

using namespace cropdl;
using namespace cropdl::mpi;
using seam::Vid;

extern "C" {

int lower_MPI_Type_dup(Vid old, Vid* newtype) {
  return create(seam::kFn_MPI_Type_dup, {&old, 1}, {}, newtype);
}
int lower_MPI_Type_contiguous(int count, Vid old, Vid* newtype) {
  return create(seam::kFn_MPI_Type_contiguous, {&old, 1}, {{&count, 1}, {}}, newtype);
}
int lower_MPI_Type_vector(int count, int length, int stride, Vid old, Vid* newtype) {
  const int i[] = {count, length, stride};
  return create(seam::kFn_MPI_Type_vector, {&old, 1}, {i, {}}, newtype);
}
int lower_MPI_Type_create_hvector(int count, int length, int64_t stride, Vid old, Vid* newtype) {
  const int i[] = {count, length};
  const MPI_Aint d[] = {stride};
  return create(seam::kFn_MPI_Type_create_hvector, {&old, 1}, {i, d}, newtype);
}
int lower_MPI_Type_indexed(int count, const int lengths[], const int displacements[], Vid old, Vid* newtype) {
  const auto i = joined({count}, {ints(lengths, count), ints(displacements, count)});
  return create(seam::kFn_MPI_Type_indexed, {&old, 1}, {i, {}}, newtype);
}
int lower_MPI_Type_create_hindexed(int count, const int lengths[], const int64_t displacements[], Vid old,
                                   Vid* newtype) {
  const auto i = joined({count}, {ints(lengths, count)});
  return create(seam::kFn_MPI_Type_create_hindexed, {&old, 1}, {i, addresses(displacements, count)}, newtype);
}
int lower_MPI_Type_create_indexed_block(int count, int length, const int displacements[], Vid old,
                                        Vid* newtype) {
  const auto i = joined({count, length}, {ints(displacements, count)});
  return create(seam::kFn_MPI_Type_create_indexed_block, {&old, 1}, {i, {}}, newtype);
}
int lower_MPI_Type_create_hindexed_block(int count, int length, const int64_t displacements[], Vid old,
                                         Vid* newtype) {
  const int i[] = {count, length};
  return create(seam::kFn_MPI_Type_create_hindexed_block, {&old, 1}, {i, addresses(displacements, count)},
                newtype);
}
int lower_MPI_Type_create_struct(int count, const int lengths[], const int64_t displacements[],
                                 const Vid types[], Vid* newtype) {
  const auto i = joined({count}, {ints(lengths, count)});
  // The span of types is never empty: construct() looks at its first element.
  const Vid none = seam::kVid_MPI_BYTE;
  const std::span<const Vid> from =
      count > 0 ? std::span<const Vid>{types, static_cast<size_t>(count)} : std::span<const Vid>{&none, 1};
  return create(seam::kFn_MPI_Type_create_struct, from, {i, addresses(displacements, count)}, newtype);
}
int lower_MPI_Type_create_resized(Vid old, int64_t lower_bound, int64_t extent, Vid* newtype) {
  const MPI_Aint d[] = {lower_bound, extent};
  return create(seam::kFn_MPI_Type_create_resized, {&old, 1}, {{}, d}, newtype);
}
int lower_MPI_Type_create_subarray(int n, const int sizes[], const int subsizes[], const int starts[],
                                   int order, Vid old, Vid* newtype) {
  const auto i = joined({n, order}, {ints(sizes, n), ints(subsizes, n), ints(starts, n)});
  return create(seam::kFn_MPI_Type_create_subarray, {&old, 1}, {i, {}}, newtype);
}

// No recipe yet: works, and no checkpoint is taken while it lives. The distributions are those of the
// annotations.
int lower_MPI_Type_create_darray(int size, int rank, int n, const int gsizes[], const int distribs[],
                                 const int dargs[], const int psizes[], int order, Vid old, Vid* newtype) {
  std::vector<int> d, arguments;
  for (int i = 0; i < n; ++i) {
    d.push_back(constants::from_seam_distribution(distribs[i]));
    arguments.push_back(constants::from_seam_distribution_argument(dargs[i]));
  }
  MPI_Datatype made = MPI_DATATYPE_NULL;
  const int code = MPI_Type_create_darray(size, rank, n, gsizes, d.data(), arguments.data(), psizes,
                                          constants::from_seam_order(order), datatype(old), &made);
  *newtype = code == MPI_SUCCESS ? adopt_datatype(made, seam::kFn_MPI_Type_create_darray) : kNullDatatype;
  return error_out(code);
}

int lower_MPI_Type_commit(Vid* type) {
  MPI_Datatype real = datatype(*type);
  const int code = MPI_Type_commit(&real);
  if (code != MPI_SUCCESS) return error_out(code);
  if (handles::Slot* s = tables->slot(*type)) {
    s->flags |= kCommitted;
    rebind(*type, to_word(real));
  }
  return seam::kSuccess;
}

int lower_MPI_Type_free(Vid* type) {
  if (is_predefined(*type) || !tables->live(*type)) return seam::kErrType;
  std::vector<handles::Handle> gone;
  handles::SpinGuard guard(structure_lock, multiple);
  tables->free(*type, gone);
  destroy(gone);
  *type = kNullDatatype;
  return seam::kSuccess;
}

}  // extern "C"

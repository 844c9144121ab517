// Attribute caching, for the rest of the shim and the C++ and Fortran libraries above it. UH, any thread.
#pragma once

#include "interpose/mpi/upper/rank_cache.h"

namespace cropdl::shim {

// The attributes of a duplicate not yet made. If a copy callback fails, it is not made.
struct CopiedAttributes {
  Attribute* first = nullptr;
  CopiedAttributes() = default;
  ~CopiedAttributes();
  CopiedAttributes(const CopiedAttributes&) = delete;
  CopiedAttributes& operator=(const CopiedAttributes&) = delete;
};
// Run the copy callbacks of `from`'s attributes, and the delete callbacks of an object being freed. Both
// return the program's error code without calling an error handler.
int copy_attributes(Vid from, CopiedAttributes* to);
void attach_attributes(Vid to, CopiedAttributes* copies);
int delete_attributes(Vid vid);
// Frees an object after its delete callbacks. Predefined ones cannot be freed, so their attributes stay.
template <Kind K>
int free_with_attributes(typename HandleOf<K>::type* handle, seam::Fn fn) {
  if (!handle) return fail_mpi_call(kNoObject, seam::kErrArg, fn);
  Vid vid = handle_in<K>(*handle);
  const Vid freed = vid;
  const int deleted = vid_index(vid) >= seam::kFirstDynamic ? delete_attributes(vid) : MPI_SUCCESS;
  if (deleted != MPI_SUCCESS) return fail_mpi_call_with(freed, deleted, fn);
  if constexpr (K == Kind::kComm) forget_rank(freed);
  if (const int r = free_object(fn, &vid)) return fail_mpi_call(freed, r, fn);
  *handle = handle_out<K>(vid);
  return MPI_SUCCESS;
}

int set_attribute(Vid vid, int keyval, int64_t value, Language language, seam::Fn fn);
int get_attribute(Vid vid, int keyval, void* value, int* flag, Language language, seam::Fn fn);

}  // namespace cropdl::shim

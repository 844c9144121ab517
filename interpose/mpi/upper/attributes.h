// Attribute caching, for the rest of the shim and the C++ and Fortran libraries above it. UH, any thread.
#pragma once

#include "interpose/mpi/upper/objects.h"

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
// Duplicates an object by `make`, a call of the lower half, after its copy callbacks: if one fails, nothing
// is made.
template <Kind K, class Make>
int duplicate(typename HandleOf<K>::type from, typename HandleOf<K>::type* to, seam::Fn fn, Make make) {
  const Vid vid = handle_in<K>(from), on = K == Kind::kComm ? vid : kNoObject;
  constexpr bool kTypeOfOpenMpi = kIsOpenMpi && K == Kind::kDatatype;
  if (!to) return fail_mpi_call(on, null_result(K, fn), fn);
  if (!kTypeOfOpenMpi) *to = HandleOf<K>::of(0);
  CopiedAttributes copies;
  if (const int r = copy_attributes(vid, &copies))
    return kTypeOfOpenMpi ? fail_mpi_call(on, seam::kErrIntern, fn) : fail_mpi_call_with(on, r, fn);
  Vid made = make_vid(K, 0);
  if (const int r = make(vid, &made)) return fail_mpi_call(on, r, fn);
  if (K == Kind::kComm) inherit_errhandler(vid, made, fn);
  attach_attributes(made, &copies);
  *to = handle_out<K>(made);
  return MPI_SUCCESS;
}
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

struct Keyval {
  Kind kind;
  Language language;
  void (*copy)();
  void (*remove)();
  // MPICH's C++ and Fortran libraries: these call the user's function.
  void (*copy_proxy)();
  void (*remove_proxy)();
  void* extra;
  int references;   // one for the program, and one per attribute
  bool freed;       // freed by the program; a copy of it works as long as attributes use it
  int freed_again;  // number of further frees
};

int create_keyval(Kind kind, void (*copy)(), void (*remove)(), void* extra, Language language, int* keyval);
int free_keyval(Kind kind, int* keyval);
void set_keyval_proxies(int keyval, void (*copy)(), void (*remove)());

// Call the program's copy and delete functions of an attribute, without a lock (attribute_callbacks.cpp).
// Return the program's error code.
int run_copy(const Keyval& k, int keyval, Vid from, const Attribute& a, int64_t* out, int* flag);
int run_remove(const Keyval& k, int keyval, Vid from, const Attribute& a);

// The attributes that MPI itself gives its objects (predefined_attributes.cpp). Returns false if the keyval
// is not predefined. Else answers, or sets *error to the lower half's error.
bool get_predefined_attribute(Vid vid, int keyval, void** pointer, int64_t* number, int* flag, int* error);

// For a key unknown or of another kind; Open MPI has MPI_ERR_KEYVAL only when MPI_KEYVAL_INVALID is read.
constexpr int kWrongKeyval = kIsOpenMpi ? seam::kErrOther : seam::kErrKeyval;

int set_attribute(Vid vid, int keyval, int64_t value, Language language, seam::Fn fn);
int get_attribute(Vid vid, int keyval, void* value, int* flag, Language language, seam::Fn fn);

}  // namespace cropdl::shim

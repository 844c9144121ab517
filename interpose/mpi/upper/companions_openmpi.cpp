// Symbols that Open MPI's C++ and Fortran libraries import from libmpi besides MPI's functions: predefined
// callbacks in both languages, and a few internals (Open MPI 4.1). UH, any thread.
#include <utility>

#include "interpose/mpi/upper/attributes.h"

using namespace cropdl;
using namespace cropdl::shim;

// --- Predefined attribute callbacks: C names, and Fortran names with every mangling and in upper case.

#define C_CALLBACKS(prefix, Handle)                                                              \
  EXPORTED int OMPI_C_MPI_##prefix##NULL_COPY_FN(Handle, int, void*, void*, void*, int* flag) {  \
    *flag = 0;                                                                                   \
    return MPI_SUCCESS;                                                                          \
  }                                                                                              \
  EXPORTED int OMPI_C_MPI_##prefix##DUP_FN(Handle, int, void*, void* in, void* out, int* flag) { \
    *static_cast<void**>(out) = in;                                                              \
    *flag = 1;                                                                                   \
    return MPI_SUCCESS;                                                                          \
  }                                                                                              \
  EXPORTED int OMPI_C_MPI_##prefix##NULL_DELETE_FN(Handle, int, void*, void*) { return MPI_SUCCESS; }
C_CALLBACKS(, MPI_Comm)
C_CALLBACKS(COMM_, MPI_Comm)
C_CALLBACKS(TYPE_, MPI_Datatype)
C_CALLBACKS(WIN_, MPI_Win)

// Fortran callbacks get addresses; `Integer` has the width of the attribute.
#define FORTRAN_NAMES(lower, upper)                                  \
  EXPORTED decltype(lower) lower##_ __attribute__((alias(#lower)));  \
  EXPORTED decltype(lower) lower##__ __attribute__((alias(#lower))); \
  EXPORTED decltype(lower) lower##_upper __asm__(upper) __attribute__((weak, alias(#lower)));
// NOLINTBEGIN(bugprone-macro-parentheses): Integer is a type.
#define FORTRAN_CALLBACKS(lower, upper, Integer)                                                         \
  EXPORTED void mpi_##lower##null_copy_fn(MPI_Fint*, MPI_Fint*, Integer*, Integer*, Integer*,            \
                                          MPI_Fint* flag, MPI_Fint* error) {                             \
    *flag = 0;                                                                                           \
    *error = MPI_SUCCESS;                                                                                \
  }                                                                                                      \
  EXPORTED void mpi_##lower##dup_fn(MPI_Fint*, MPI_Fint*, Integer*, Integer* in, Integer* out,           \
                                    MPI_Fint* flag, MPI_Fint* error) {                                   \
    *out = *in;                                                                                          \
    *flag = 1;                                                                                           \
    *error = MPI_SUCCESS;                                                                                \
  }                                                                                                      \
  EXPORTED void mpi_##lower##null_delete_fn(MPI_Fint*, MPI_Fint*, Integer*, Integer*, MPI_Fint* error) { \
    *error = MPI_SUCCESS;                                                                                \
  }                                                                                                      \
  FORTRAN_NAMES(mpi_##lower##null_copy_fn, "MPI_" #upper "NULL_COPY_FN")                                 \
  FORTRAN_NAMES(mpi_##lower##dup_fn, "MPI_" #upper "DUP_FN")                                             \
  FORTRAN_NAMES(mpi_##lower##null_delete_fn, "MPI_" #upper "NULL_DELETE_FN")
// NOLINTEND(bugprone-macro-parentheses)
FORTRAN_CALLBACKS(, , MPI_Fint)
FORTRAN_CALLBACKS(comm_, COMM_, MPI_Aint)
FORTRAN_CALLBACKS(type_, TYPE_, MPI_Aint)
FORTRAN_CALLBACKS(win_, WIN_, MPI_Aint)

EXPORTED void mpi_conversion_fn_null() {}
EXPORTED void mpi_conversion_fn_null_f() {}
FORTRAN_NAMES(mpi_conversion_fn_null, "MPI_CONVERSION_FN_NULL")

EXPORTED double mpi_wtime_f90() { return PMPI_Wtime(); }
FORTRAN_NAMES(mpi_wtime_f90, "MPI_WTIME_F90")
EXPORTED double mpi_wtick_f90() { return PMPI_Wtick(); }
FORTRAN_NAMES(mpi_wtick_f90, "MPI_WTICK_F90")
EXPORTED MPI_Aint mpi_aint_add_f90(MPI_Aint* base, MPI_Aint* displacement) { return *base + *displacement; }
FORTRAN_NAMES(mpi_aint_add_f90, "MPI_AINT_ADD_F90")
EXPORTED MPI_Aint mpi_aint_diff_f90(MPI_Aint* a, MPI_Aint* b) { return *a - *b; }
FORTRAN_NAMES(mpi_aint_diff_f90, "MPI_AINT_DIFF_F90")

// --- Internals that the bindings call. Numbers are enumerators of the header named.

// ompi/errhandler/errhandler.h: types 1 communicator, 2 window, 3 file; languages 0 C, 1 C++, 2 Fortran.
EXPORTED void* ompi_errhandler_create(int type, void (*function)(), int language) {
  const Kind kind = type == 2 ? Kind::kWin : type == 3 ? Kind::kFile : Kind::kComm;
  const Language l = language == 2 ? Language::kFortranInt : language == 1 ? Language::kCxx : Language::kC;
  return callback_of(make_errhandler(kind, function, l));
}
// Called when the bindings found a wrong argument. They read the handler in the object, where the shim has
// none: null means the object's own. The object begins with its vid, which says its kind.
EXPORTED int ompi_errhandler_invoke(void* errhandler, void* object, int, int code, const char* message) {
  const Vid on = handle_in<Kind::kComm>(static_cast<MPI_Comm>(object));
  const char* function = message ? message : "an MPI function";
  if (!errhandler) return invoke_errhandler_of(on, code, function);
  return invoke_errhandler(handle_in<Kind::kErrhandler>(static_cast<MPI_Errhandler>(errhandler)),
                           handle_exists(on) ? on : seam::kVid_MPI_COMM_WORLD, code, function);
}
EXPORTED void ompi_op_set_cxx_callback(void* op, void (*function)()) {
  static_cast<Callback*>(op)->proxy = function;
}

// ompi/attribute/attribute.h: types 1 communicator, 2 datatype, 3 window; flags 2 Fortran, 4 default integer.
static Kind kind_of(int type) { return type == 2 ? Kind::kDatatype : type == 3 ? Kind::kWin : Kind::kComm; }
static Language language_of(int flags) {
  return !(flags & 2) ? Language::kC : flags & 4 ? Language::kFortranInt : Language::kFortranAddress;
}
EXPORTED int ompi_attr_create_keyval(int type, void (*copy)(), void (*remove)(), int* key, void* extra,
                                     int flags, void*) {
  return create_keyval(kind_of(type), copy, remove, extra, language_of(flags), key);
}
// The name says what integers the callbacks get. libmpi_mpifh passes flags without that bit.
EXPORTED int ompi_attr_create_keyval_fint(int type, void (*copy)(), void (*remove)(), int* key,
                                          MPI_Fint extra, int, void*) {
  return create_keyval(kind_of(type), copy, remove, reinterpret_cast<void*>(static_cast<intptr_t>(extra)),
                       Language::kFortranInt, key);
}
EXPORTED int ompi_attr_create_keyval_aint(int type, void (*copy)(), void (*remove)(), int* key,
                                          MPI_Aint extra, int, void*) {
  return create_keyval(kind_of(type), copy, remove, reinterpret_cast<void*>(extra), Language::kFortranAddress,
                       key);
}
static Vid vid_of(int type, void* handle) {
  // The object begins with its vid, whatever its kind.
  return handle ? handle_in<Kind::kComm>(static_cast<MPI_Comm>(handle)) : make_vid(kind_of(type), 0);
}
EXPORTED int ompi_attr_set_fint(int type, void* handle, void**, int key, MPI_Fint value, bool) {
  return set_attribute(vid_of(type, handle), key, value, Language::kFortranInt, seam::kFn_MPI_Comm_set_attr);
}
EXPORTED int ompi_attr_set_aint(int type, void* handle, void**, int key, MPI_Aint value, bool) {
  return set_attribute(vid_of(type, handle), key, value, Language::kFortranAddress,
                       seam::kFn_MPI_Comm_set_attr);
}
// These get the hash table pointer from the object, not the handle; the shim's points to the object itself
// (objects.h). It is null in the objects of null handles, which have no attributes.
static int get_by_hash(const void* hash, int key, void* value, int* flag, Language language) {
  if (!hash) {
    *flag = 0;
    return MPI_SUCCESS;
  }
  return get_attribute(static_cast<const HandleObject*>(hash)->vid, key, value, flag, language,
                       seam::kFn_MPI_Comm_get_attr);
}
EXPORTED int ompi_attr_get_fint(void* hash, int key, MPI_Fint* value, int* flag) {
  return get_by_hash(hash, key, value, flag, Language::kFortranInt);
}
EXPORTED int ompi_attr_get_aint(void* hash, int key, MPI_Aint* value, int* flag) {
  return get_by_hash(hash, key, value, flag, Language::kFortranAddress);
}

// ompi/datatype/ompi_datatype.h: a datatype by size and class (0x1000 integer, 0x2000 float, 0x3000 complex).
EXPORTED const void* ompi_datatype_match_size(int size, uint16_t data, uint16_t) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  const int typeclass = (data & 0x3000) == 0x3000 ? MPI_TYPECLASS_COMPLEX
                        : data & 0x2000           ? MPI_TYPECLASS_REAL
                                                  : MPI_TYPECLASS_INTEGER;
  PMPI_Type_match_size(typeclass, size, &type);
  return type;
}

// --- Fortran strings: padded with blanks, without a final zero (ompi/mpi/fortran/base/strings.c).

static void skip_blanks(const char** fortran, int* length) {
  for (; *length > 0 && **fortran == ' '; --*length) ++*fortran;
}
EXPORTED int ompi_fortran_string_f2c(const char* fortran, int length, char** c) {
  skip_blanks(&fortran, &length);
  while (length > 0 && fortran[length - 1] == ' ') --length;
  *c = strndup(fortran, length > 0 ? static_cast<size_t>(length) : 0);
  return *c ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}
EXPORTED int ompi_fortran_string_c2f(const char* c, char* fortran, int length) {
  const size_t n = strnlen(c, static_cast<size_t>(length));
  memcpy(fortran, c, n);
  memset(fortran + n, ' ', static_cast<size_t>(length) - n);
  return MPI_SUCCESS;
}
static void free_words(char** words) {
  for (char** word = words; word && *word; ++word) free(*word);
  free(words);
}
static bool is_blank(const char* fortran, int length) {
  skip_blanks(&fortran, &length);
  return length <= 0 || !*fortran;
}
// `count` words, or all up to a blank one if it is negative.
static int collect(const char* array, int count, int length, int advance, char*** argv) {
  const auto word = [=](int i) { return array + static_cast<long>(i) * advance; };
  int n = 0;
  while (count < 0 ? !is_blank(word(n), length) : n < count) ++n;
  *argv = static_cast<char**>(calloc(static_cast<size_t>(n) + 1, sizeof(char*)));
  int result = *argv ? MPI_SUCCESS : MPI_ERR_NO_MEM;
  for (int i = 0; i < n && result == MPI_SUCCESS; ++i)
    result = ompi_fortran_string_f2c(word(i), length, &(*argv)[i]);
  if (result != MPI_SUCCESS) free_words(std::exchange(*argv, nullptr));
  return result;
}
EXPORTED int ompi_fortran_argv_blank_f2c(char* array, int length, int advance, char*** argv) {
  return collect(array, -1, length, advance, argv);
}
EXPORTED int ompi_fortran_argv_count_f2c(char* array, int count, int length, int advance, char*** argv) {
  return collect(array, count, length, advance, argv);
}
EXPORTED int ompi_fortran_multiple_argvs_f2c(int commands, char* array, int length, char**** argvs) {
  *argvs = static_cast<char***>(calloc(static_cast<size_t>(commands) + 1, sizeof(char**)));
  if (!*argvs) return MPI_ERR_NO_MEM;
  int result = MPI_SUCCESS;
  for (int i = 0; i < commands && result == MPI_SUCCESS; ++i)
    result = collect(array + static_cast<long>(i) * length, -1, length, commands * length, &(*argvs)[i]);
  if (result == MPI_SUCCESS) return result;
  for (char*** words = *argvs; *words; ++words) free_words(*words);
  free(*argvs);
  *argvs = nullptr;
  return result;
}

EXPORTED void mpiext_pcollreq_dummy() {}
EXPORTED int OMPI_Affinity_str(ompi_affinity_fmt_t, char* a, char* b, char* c) {
  *a = *b = *c = 0;
  return MPI_SUCCESS;
}

// The function behind MPI_ERRORS_ARE_FATAL. The Fortran library compares handlers with it, and may call it.
EXPORTED void ompi_mpi_errors_are_fatal_comm_handler(MPI_Comm* comm, int* code, ...) {
  invoke_errhandler(seam::kVid_MPI_ERRORS_ARE_FATAL,
                    comm ? handle_in<Kind::kComm>(*comm) : seam::kVid_MPI_COMM_WORLD,
                    code ? *code : MPI_ERR_UNKNOWN, "an MPI function");
}

// Error handlers, error codes and their texts. All of it lives in the upper half: the handlers are functions of the
// program, and codes must mean the same after a restart over another MPI. UH, any thread.
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include "interpose/mpi/upper/errors.h"
#include "interpose/mpi/upper/objects.h"

namespace cropdl::upper {
namespace {

struct Text {
  int neutral;
  const char* text;
};
constexpr Text kTexts[] = {
    {seam::kSuccess, "MPI_SUCCESS: no errors"},
    {seam::kErrBuffer, "MPI_ERR_BUFFER: invalid buffer pointer"},
    {seam::kErrCount, "MPI_ERR_COUNT: invalid count argument"},
    {seam::kErrType, "MPI_ERR_TYPE: invalid datatype"},
    {seam::kErrTag, "MPI_ERR_TAG: invalid tag"},
    {seam::kErrComm, "MPI_ERR_COMM: invalid communicator"},
    {seam::kErrRank, "MPI_ERR_RANK: invalid rank"},
    {seam::kErrRequest, "MPI_ERR_REQUEST: invalid request"},
    {seam::kErrRoot, "MPI_ERR_ROOT: invalid root"},
    {seam::kErrGroup, "MPI_ERR_GROUP: invalid group"},
    {seam::kErrOp, "MPI_ERR_OP: invalid reduce operation"},
    {seam::kErrTopology, "MPI_ERR_TOPOLOGY: invalid communicator topology"},
    {seam::kErrDims, "MPI_ERR_DIMS: invalid topology dimension"},
    {seam::kErrArg, "MPI_ERR_ARG: invalid argument of some other kind"},
    {seam::kErrUnknown, "MPI_ERR_UNKNOWN: unknown error"},
    {seam::kErrTruncate, "MPI_ERR_TRUNCATE: message truncated"},
    {seam::kErrOther, "MPI_ERR_OTHER: known error not in list"},
    {seam::kErrIntern, "MPI_ERR_INTERN: internal error"},
    {seam::kErrInStatus, "MPI_ERR_IN_STATUS: error code in status"},
    {seam::kErrPending, "MPI_ERR_PENDING: pending request"},
    {seam::kErrAccess, "MPI_ERR_ACCESS: invalid access mode"},
    {seam::kErrAmode, "MPI_ERR_AMODE: invalid amode argument"},
    {seam::kErrAssert, "MPI_ERR_ASSERT: invalid assert argument"},
    {seam::kErrBadFile, "MPI_ERR_BAD_FILE: bad file"},
    {seam::kErrBase, "MPI_ERR_BASE: invalid base"},
    {seam::kErrConversion, "MPI_ERR_CONVERSION: error in data conversion"},
    {seam::kErrDisp, "MPI_ERR_DISP: invalid displacement"},
    {seam::kErrDupDatarep, "MPI_ERR_DUP_DATAREP: error while duplicating data representation"},
    {seam::kErrFileExists, "MPI_ERR_FILE_EXISTS: file exists already"},
    {seam::kErrFileInUse, "MPI_ERR_FILE_IN_USE: file already in use"},
    {seam::kErrFile, "MPI_ERR_FILE: invalid file"},
    {seam::kErrInfoKey, "MPI_ERR_INFO_KEY: invalid key argument for info object"},
    {seam::kErrInfoNoKey, "MPI_ERR_INFO_NOKEY: unknown key for given info object"},
    {seam::kErrInfoValue, "MPI_ERR_INFO_VALUE: invalid value argument for info object"},
    {seam::kErrInfo, "MPI_ERR_INFO: invalid info object"},
    {seam::kErrIo, "MPI_ERR_IO: input/output error"},
    {seam::kErrKeyval, "MPI_ERR_KEYVAL: invalid key value"},
    {seam::kErrLocktype, "MPI_ERR_LOCKTYPE: invalid lock"},
    {seam::kErrName, "MPI_ERR_NAME: invalid name argument"},
    {seam::kErrNoMem, "MPI_ERR_NO_MEM: out of memory"},
    {seam::kErrNotSame, "MPI_ERR_NOT_SAME: objects are not identical"},
    {seam::kErrNoSpace, "MPI_ERR_NO_SPACE: no space left on device"},
    {seam::kErrNoSuchFile, "MPI_ERR_NO_SUCH_FILE: no such file or directory"},
    {seam::kErrPort, "MPI_ERR_PORT: invalid port"},
    {seam::kErrQuota, "MPI_ERR_QUOTA: out of quota"},
    {seam::kErrReadOnly, "MPI_ERR_READ_ONLY: file is read only"},
    {seam::kErrRmaConflict, "MPI_ERR_RMA_CONFLICT: rma conflict during operation"},
    {seam::kErrRmaSync, "MPI_ERR_RMA_SYNC: error executing rma sync"},
    {seam::kErrService, "MPI_ERR_SERVICE: unknown service name"},
    {seam::kErrSize, "MPI_ERR_SIZE: invalid size"},
    {seam::kErrSpawn, "MPI_ERR_SPAWN: could not spawn processes"},
    {seam::kErrUnsupportedDatarep, "MPI_ERR_UNSUPPORTED_DATAREP: data representation not supported"},
    {seam::kErrUnsupportedOperation, "MPI_ERR_UNSUPPORTED_OPERATION: operation not supported"},
    {seam::kErrWin, "MPI_ERR_WIN: invalid window"},
    {seam::kErrRmaRange, "MPI_ERR_RMA_RANGE: invalid RMA address range"},
    {seam::kErrRmaAttach, "MPI_ERR_RMA_ATTACH: could not attach RMA segment"},
    {seam::kErrRmaShared, "MPI_ERR_RMA_SHARED: memory cannot be shared"},
    {seam::kErrRmaFlavor, "MPI_ERR_RMA_FLAVOR: invalid type of window"},
    {seam::kErrSession, "MPI_ERR_SESSION: invalid session"},
    {seam::kErrProcAborted, "MPI_ERR_PROC_ABORTED: a process was aborted"},
    {seam::kErrValueTooLarge, "MPI_ERR_VALUE_TOO_LARGE: a value is too large for its type"},
};

const char* text_of(int neutral) {
  for (const Text& t : kTexts) {
    if (t.neutral == neutral) return t.text;
  }
  return "MPI_ERR_UNKNOWN: unknown error";
}

// Codes and classes the program adds. Their numbers lie above every predefined class of either ABI.
constexpr int kFirstAdded = 200;
constexpr int kMaxAdded = 4096;
struct Added {
  int error_class;  // its own number if it is a class
  char* text;
};
SpinLock added_lock;
Added added[kMaxAdded];
int added_count = 0;

int add(int error_class) {
  Locked locked(added_lock);
  if (added_count == kMaxAdded) return -1;
  const int number = kFirstAdded + added_count++;
  added[number - kFirstAdded] = {error_class < 0 ? number : error_class, nullptr};
  return number;
}
Added* find_added(int code) {
  return code >= kFirstAdded && code < kFirstAdded + added_count ? &added[code - kFirstAdded] : nullptr;
}

Vid default_errhandler(Kind kind) {
  return kind == Kind::kFile ? seam::kVid_MPI_ERRORS_RETURN : seam::kVid_MPI_ERRORS_ARE_FATAL;
}
// Errors of files that are not open, and what files inherit, are kept at the null file.
Vid errhandler_of(Vid object_vid) {
  const Object* o = object(object_vid, false);
  if (o && o->errhandler) return o->errhandler;
  if (seam::vid_kind(object_vid) == Kind::kFile) {
    const Object* base = object(seam::kVid_MPI_FILE_NULL, false);
    if (base && base->errhandler) return base->errhandler;
  }
  return default_errhandler(seam::vid_kind(object_vid));
}

[[noreturn]] void abort_job(Vid comm, int code, const char* function, const char* on, const char* what) {
  int rank = -1;
  call<int>(seam::kFn_MPI_Comm_rank, seam::kVid_MPI_COMM_WORLD, &rank);
  char line[512];
  const int n = snprintf(line, sizeof line,
                         "*** rank %d: an error occurred in %s on %s: %s; MPI_ERRORS_ARE_FATAL: the job is aborted\n",
                         rank, function, on, what);
  if (write(2, line, static_cast<size_t>(n < static_cast<int>(sizeof line) ? n : static_cast<int>(sizeof line) - 1)) < 0) {
    // standard error is closed: MPI_Abort still ends the job
  }
  // Hydra ends the job at the abort and drops what it has not read of the ranks' output: let it read the line.
  constexpr useconds_t kReadWithin = 50'000;
  usleep(kReadWithin);
  call<int>(seam::kFn_MPI_Abort, comm, code);
  _exit(1);
}

const char* describe(Vid vid) {
  if (vid == seam::kVid_MPI_COMM_WORLD) return "MPI_COMM_WORLD";
  if (vid == seam::kVid_MPI_COMM_SELF) return "MPI_COMM_SELF";
  switch (seam::vid_kind(vid)) {
    case Kind::kWin: return "a window";
    case Kind::kFile: return "a file";
    default: return "a communicator";
  }
}

}  // namespace

int invoke(Vid handler, Vid on, int code, const char* function) {
  if (handler == seam::kVid_MPI_ERRORS_RETURN) return code;
  if (Callback* c = callback_of(handler)) {
    int out = code;
    // Handles cross in variables of the handle's own type, which the callback may change (MPI_Comm_free in it).
    auto run = [&](auto handle) {
      using H = decltype(handle);
      if (c->cxx_dispatch) {
        reinterpret_cast<void (*)(void*, int*, const char*, void (*)())>(c->cxx_dispatch)(&handle, &out, function,
                                                                                           c->function);
      } else if (c->proxy) {
        const int kind = c->kind == Kind::kComm ? 0 : c->kind == Kind::kFile ? 1 : 2;
        reinterpret_cast<void (*)(int, H*, int*, void (*)())>(c->proxy)(kind, &handle, &out, c->function);
        out = MPI_SUCCESS;  // MPICH's C++ bindings would call the handler again for a code that comes back
      } else if (c->language == Language::kFortranInt) {
        MPI_Fint integer = handle_to_fortran(on);
        reinterpret_cast<void (*)(MPI_Fint*, MPI_Fint*)>(c->function)(&integer, &out);
      } else {
        reinterpret_cast<void (*)(H*, int*, ...)>(c->function)(&handle, &out, function, nullptr);
      }
    };
    switch (seam::vid_kind(on)) {
      case Kind::kWin: run(handle_out<Kind::kWin>(on)); break;
      case Kind::kFile: run(handle_out<Kind::kFile>(on)); break;
      default: run(handle_out<Kind::kComm>(on));
    }
    return c->proxy ? out : code;
  }
  char what[MPI_MAX_ERROR_STRING];
  int length;
  PMPI_Error_string(code, what, &length);
  abort_job(seam::vid_kind(on) == Kind::kComm ? on : seam::kVid_MPI_COMM_WORLD, code, function, describe(on), what);
}

int fail(Vid object_vid, int neutral, seam::Fn fn) {
  const char* name = seam::kFunctionNames[fn];
  const int code = constants::from_seam_error(neutral);
  if (strncmp(name, "MPI_T_", 6) == 0) return code;  // the tool interface never calls an error handler
  Vid on = object_vid;
  // An invalid or null communicator has no handler of its own.
  if (seam::vid_kind(on) != Kind::kFile && (vid_index(on) == 0 || vid_index(on) == kUnknownIndex)) {
    on = seam::kVid_MPI_COMM_WORLD;
  }
  return invoke(errhandler_of(on), on, code, name);
}

void inherit_errhandler(Vid parent, Vid child) {
  if (vid_index(child) == 0) return;
  const Object* from = object(parent, false);
  if (from && from->errhandler) set_errhandler(child, from->errhandler);
}

void set_errhandler(Vid vid, Vid handler) {
  if (Callback* c = callback_of(handler)) ++c->references;
  Object* o = object(vid, true);
  const Vid old = o->errhandler;
  o->errhandler = handler;
  if (old) free_callback(old);
}

Vid make_errhandler(Kind kind, void (*function)(), Language language) {
  return new_callback(kind, function, language)->vid;
}

int last_used_code() { return added_count ? kFirstAdded + added_count - 1 : MPI_ERR_LASTCODE; }

namespace {

template <Kind K>
int get(Vid on, MPI_Errhandler* errhandler) {
  const Vid handler = errhandler_of(on);
  if (Callback* c = callback_of(handler)) ++c->references;  // MPI-3.1, 8.3.1: the program frees what it got
  *errhandler = handle_out<Kind::kErrhandler>(handler);
  return MPI_SUCCESS;
}
template <Kind K, class F>
int create(F* function, MPI_Errhandler* errhandler) {
  *errhandler = handle_out<Kind::kErrhandler>(
      make_errhandler(K, reinterpret_cast<void (*)()>(function), Language::kC));
  return MPI_SUCCESS;
}
int set(Vid on, MPI_Errhandler errhandler, seam::Fn fn) {
  const Vid handler = handle_in<Kind::kErrhandler>(errhandler);
  if (vid_index(handler) == 0) return fail(on, seam::kErrErrhandler, fn);
  set_errhandler(on, handler);
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace cropdl::upper

using namespace cropdl;
using namespace cropdl::upper;

#define ERRHANDLERS(Type, Handle, kind)                                                                        \
  MPI_FUNCTION(int, Type##_create_errhandler, MPI_##Type##_errhandler_function* function, MPI_Errhandler* e) { \
    return create<Kind::kind>(function, e);                                                                    \
  }                                                                                                            \
  MPI_FUNCTION(int, Type##_set_errhandler, Handle object, MPI_Errhandler e) {                                  \
    return set(handle_in<Kind::kind>(object), e, seam::kFn_MPI_##Type##_set_errhandler);                       \
  }                                                                                                            \
  MPI_FUNCTION(int, Type##_get_errhandler, Handle object, MPI_Errhandler* e) {                                 \
    return get<Kind::kind>(handle_in<Kind::kind>(object), e);                                                  \
  }                                                                                                            \
  MPI_FUNCTION(int, Type##_call_errhandler, Handle object, int code) {                                         \
    const Vid on = handle_in<Kind::kind>(object);                                                              \
    invoke(errhandler_of(on), on, code, "MPI_" #Type "_call_errhandler");                                      \
    return MPI_SUCCESS;                                                                                        \
  }
ERRHANDLERS(Comm, MPI_Comm, kComm)
ERRHANDLERS(Win, MPI_Win, kWin)
ERRHANDLERS(File, MPI_File, kFile)
#if defined(CROPDL_ABI_MPICH)
ERRHANDLERS(Session, MPI_Session, kSession)
#endif

MPI_FUNCTION(int, Errhandler_free, MPI_Errhandler* errhandler) {
  free_callback(handle_in<Kind::kErrhandler>(*errhandler));
  *errhandler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}
// The MPI-1 names of the communicator's functions.
MPI_FUNCTION(int, Errhandler_create, MPI_Comm_errhandler_function* function, MPI_Errhandler* errhandler) {
  return PMPI_Comm_create_errhandler(function, errhandler);
}
MPI_FUNCTION(int, Errhandler_set, MPI_Comm comm, MPI_Errhandler errhandler) {
  return PMPI_Comm_set_errhandler(comm, errhandler);
}
MPI_FUNCTION(int, Errhandler_get, MPI_Comm comm, MPI_Errhandler* errhandler) {
  return PMPI_Comm_get_errhandler(comm, errhandler);
}

MPI_FUNCTION(int, Error_class, int code, int* error_class) {
  const Added* a = find_added(code);
  *error_class = a ? a->error_class : code;
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Error_string, int code, char* string, int* length) {
  const Added* a = find_added(code);
  text_out(string, a ? (a->text ? a->text : "") : text_of(constants::to_seam_error(code)), MPI_MAX_ERROR_STRING, length);
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_class, int* error_class) {
  *error_class = add(-1);
  return *error_class < 0 ? fail(kNoObject, seam::kErrIntern, seam::kFn_MPI_Add_error_class) : MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_code, int error_class, int* code) {
  *code = add(error_class);
  return *code < 0 ? fail(kNoObject, seam::kErrIntern, seam::kFn_MPI_Add_error_code) : MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_string, int code, const char* string) {
  Added* a = find_added(code);
  if (!a) return fail(kNoObject, seam::kErrArg, seam::kFn_MPI_Add_error_string);
  char* copy = strdup(string);
  Locked locked(added_lock);
  free(a->text);
  a->text = copy;
  return MPI_SUCCESS;
}
#if defined(CROPDL_ABI_MPICH)
// Numbers are not used again, so deleting one has only its text to forget.
extern "C" {
#pragma weak MPIX_Delete_error_class = PMPIX_Delete_error_class
#pragma weak MPIX_Delete_error_code = PMPIX_Delete_error_code
#pragma weak MPIX_Delete_error_string = PMPIX_Delete_error_string
__attribute__((visibility("default"))) int PMPIX_Delete_error_class(int error_class) {
  return find_added(error_class) ? MPI_SUCCESS : MPI_ERR_ARG;
}
__attribute__((visibility("default"))) int PMPIX_Delete_error_code(int code) {
  return find_added(code) ? MPI_SUCCESS : MPI_ERR_ARG;
}
__attribute__((visibility("default"))) int PMPIX_Delete_error_string(int code) {
  Added* a = find_added(code);
  if (!a) return MPI_ERR_ARG;
  Locked locked(added_lock);
  free(a->text);
  a->text = nullptr;
  return MPI_SUCCESS;
}
}
#endif

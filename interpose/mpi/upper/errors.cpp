// Error handlers, error codes and their texts, kept in the upper half: handlers are the program's functions,
// and codes must keep their meaning after a restart over another MPI. UH, any thread.
#include <unistd.h>
#include <cstdio>
#include <cstring>
#include <utility>

#include "interpose/mpi/upper/errors.h"
#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {
namespace {

// The texts of MPI_Error_string in Open MPI 4.1 and MPICH 4.0; programs print them.
struct Text {
  int neutral;
  const char* openmpi;
  const char* mpich;
};
constexpr Text kTexts[] = {
    {seam::kSuccess, "MPI_SUCCESS: no errors", "No MPI error"},
    {seam::kErrBuffer, "MPI_ERR_BUFFER: invalid buffer pointer", "Invalid buffer pointer"},
    {seam::kErrCount, "MPI_ERR_COUNT: invalid count argument", "Invalid count"},
    {seam::kErrType, "MPI_ERR_TYPE: invalid datatype", "Invalid datatype"},
    {seam::kErrTag, "MPI_ERR_TAG: invalid tag", "Invalid tag"},
    {seam::kErrComm, "MPI_ERR_COMM: invalid communicator", "Invalid communicator"},
    {seam::kErrRank, "MPI_ERR_RANK: invalid rank", "Invalid rank"},
    {seam::kErrRequest, "MPI_ERR_REQUEST: invalid request", "Request pending due to failure"},
    {seam::kErrRoot, "MPI_ERR_ROOT: invalid root", "Invalid root"},
    {seam::kErrGroup, "MPI_ERR_GROUP: invalid group", "Invalid group"},
    {seam::kErrOp, "MPI_ERR_OP: invalid reduce operation", "Invalid MPI_Op"},
    {seam::kErrTopology, "MPI_ERR_TOPOLOGY: invalid communicator topology", "Invalid topology"},
    {seam::kErrDims, "MPI_ERR_DIMS: invalid topology dimension", "Invalid dimension argument"},
    {seam::kErrArg, "MPI_ERR_ARG: invalid argument of some other kind", "Invalid argument"},
    {seam::kErrUnknown, "MPI_ERR_UNKNOWN: unknown error", "Unknown error.  Please file a bug report."},
    {seam::kErrTruncate, "MPI_ERR_TRUNCATE: message truncated", "Message truncated"},
    {seam::kErrOther, "MPI_ERR_OTHER: known error not in list", "Other MPI error"},
    {seam::kErrIntern, "MPI_ERR_INTERN: internal error", "Internal MPI error!"},
    {seam::kErrInStatus, "MPI_ERR_IN_STATUS: error code in status",
     "See the MPI_ERROR field in MPI_Status for the error code"},
    {seam::kErrPending, "MPI_ERR_PENDING: pending request", "Pending request (no error)"},
    {seam::kErrAccess, "MPI_ERR_ACCESS: invalid access mode", "Access denied to file"},
    {seam::kErrAmode, "MPI_ERR_AMODE: invalid amode argument", "Invalid amode value in MPI_File_open "},
    {seam::kErrAssert, "MPI_ERR_ASSERT: invalid assert argument", "Invalid assert argument"},
    {seam::kErrBadFile, "MPI_ERR_BAD_FILE: bad file", "Invalid file name"},
    {seam::kErrBase, "MPI_ERR_BASE: invalid base", "Invalid base address"},
    {seam::kErrConversion, "MPI_ERR_CONVERSION: error in data conversion",
     "An error occurred in a user-defined data conversion function"},
    {seam::kErrDisp, "MPI_ERR_DISP: invalid displacement", "Invalid displacement argument in RMA call "},
    {seam::kErrDupDatarep, "MPI_ERR_DUP_DATAREP: error duplicating data representation",
     "The requested datarep name has already been specified to MPI_REGISTER_DATAREP"},
    {seam::kErrFileExists, "MPI_ERR_FILE_EXISTS: file exists alreay", "File exists"},
    {seam::kErrFileInUse, "MPI_ERR_FILE_IN_USE: file already in use", "File in use by some process"},
    {seam::kErrFile, "MPI_ERR_FILE: invalid file", "Invalid MPI_File"},
    {seam::kErrInfoKey, "MPI_ERR_INFO_KEY: invalid key argument for info object",
     "Invalid key for MPI_Info "},
    {seam::kErrInfoNoKey, "MPI_ERR_INFO_NOKEY: unknown key for given info object",
     "MPI_Info key is not defined "},
    {seam::kErrInfoValue, "MPI_ERR_INFO_VALUE: invalid value argument for info object",
     "Invalid MPI_Info value "},
    {seam::kErrInfo, "MPI_ERR_INFO: invalid info object", "Invalid MPI_Info"},
    {seam::kErrIo, "MPI_ERR_IO: input/output error", "Other I/O error "},
    {seam::kErrKeyval, "MPI_ERR_KEYVAL: invalid key value", "Invalid keyval"},
    {seam::kErrLocktype, "MPI_ERR_LOCKTYPE: invalid lock", "Invalid locktype argument"},
    {seam::kErrName, "MPI_ERR_NAME: invalid name argument", "Invalid service name (see MPI_Publish_name)"},
    {seam::kErrNoMem, "MPI_ERR_NO_MEM: out of memory", "Unable to allocate memory for MPI_Alloc_mem"},
    {seam::kErrNotSame, "MPI_ERR_NOT_SAME: objects are not identical",
     "Inconsistent arguments to collective routine "},
    {seam::kErrNoSpace, "MPI_ERR_NO_SPACE: no space left on device", "Not enough space for file "},
    {seam::kErrNoSuchFile, "MPI_ERR_NO_SUCH_FILE: no such file or directory", "File does not exist"},
    {seam::kErrPort, "MPI_ERR_PORT: invalid port", "Invalid port"},
    {seam::kErrQuota, "MPI_ERR_QUOTA: out of quota", "Quota exceeded for files"},
    {seam::kErrReadOnly, "MPI_ERR_READ_ONLY: file is read only", "Read-only file or filesystem name"},
    {seam::kErrRmaConflict, "MPI_ERR_RMA_CONFLICT: rma conflict during operation",
     "Conflicting accesses to window "},
    {seam::kErrRmaSync, "MPI_ERR_RMA_SYNC: error executing rma sync", "Wrong synchronization of RMA calls "},
    {seam::kErrService, "MPI_ERR_SERVICE: unknown service name",
     "Attempt to lookup an unknown service name "},
    {seam::kErrSize, "MPI_ERR_SIZE: invalid size", "Invalid size argument in RMA call"},
    {seam::kErrSpawn, "MPI_ERR_SPAWN: could not spawn processes", "Error in spawn call"},
    {seam::kErrUnsupportedDatarep, "MPI_ERR_UNSUPPORTED_DATAREP: data representation not supported",
     "Unsupported datarep passed to MPI_File_set_view "},
    {seam::kErrUnsupportedOperation, "MPI_ERR_UNSUPPORTED_OPERATION: operation not supported",
     "Unsupported file operation "},
    {seam::kErrWin, "MPI_ERR_WIN: invalid window", "Invalid MPI_Win"},
    {seam::kErrRmaRange, "MPI_ERR_RMA_RANGE: invalid RMA address range",
     "Target memory is not contained within the window"},
    {seam::kErrRmaAttach, "MPI_ERR_RMA_ATTACH: could not attach RMA segment", "Memory cannot be attached"},
    {seam::kErrRmaShared, "MPI_ERR_RMA_SHARED: memory cannot be shared", "Memory cannot be shared"},
    {seam::kErrRmaFlavor, "MPI_ERR_RMA_FLAVOR: invalid type of window", "Incorrect window flavor"},
    {seam::kErrSession, "MPI_ERR_SESSION: invalid session", "Unknown error class"},
    {seam::kErrProcAborted, "MPI_ERR_PROC_ABORTED: a process was aborted", "Unknown error class"},
    {seam::kErrValueTooLarge, "MPI_ERR_VALUE_TOO_LARGE: a value is too large for its type",
     "Unknown error class"},
};

#if defined(CROPDL_ABI_MPICH)
constexpr bool kMpich = true;
#else
constexpr bool kMpich = false;
#endif
const char* text_of(int neutral) {
  for (const Text& t : kTexts) {
    if (t.neutral == neutral) return kMpich ? t.mpich : t.openmpi;
  }
  return kMpich ? "Unknown error class" : "MPI_ERR_UNKNOWN: unknown error";
}

// Codes and classes that the program adds, numbered as in its own MPI: programs compare them with
// MPI_ERR_LASTCODE and MPI_LASTUSEDCODE, and an exit status has only eight bits.
struct Added {
  int error_class;  // for a class, its own number
  bool used;
  char* text;
};
class Numbers {
 public:
  // Returns the lowest free number, at least 1; 0 if all below `limit` are taken, or there is no memory.
  int take(int limit) {
    int i = freed_ ? 1 : count_ + 1;
    while (i <= count_ && entries_[i - 1].used) ++i;
    if (i >= limit) return 0;
    if (i > count_) {
      if (count_ == size_ && !grow()) return 0;
      freed_ = false;
      count_ = i;
    }
    entries_[i - 1] = {0, true, nullptr};
    return i;
  }
  Added* at(int i) { return i >= 1 && i <= count_ && entries_[i - 1].used ? &entries_[i - 1] : nullptr; }
  void give_back(Added* entry) {
    free(entry->text);
    *entry = {0, false, nullptr};
    freed_ = true;
  }
  int count() const { return count_; }

 private:
  bool grow() {
    const int size = size_ ? size_ * 2 : 64;
    auto* grown =
        static_cast<Added*>(realloc(static_cast<void*>(entries_), static_cast<size_t>(size) * sizeof(Added)));
    if (!grown) return false;
    entries_ = grown;
    size_ = size;
    return true;
  }
  Added* entries_ = nullptr;
  int count_ = 0, size_ = 0;
  bool freed_ = false;
};
SpinLock added_lock;

#if defined(CROPDL_ABI_MPICH)
// As in mpir_errcodes.h of MPICH 4.0: the class in bits 0 to 6, a code's number from bit 8, and a bit that
// marks added classes.
constexpr int kClassMask = 0x7f, kDynamic = 0x4000'0000, kCodeShift = 8, kClasses = 128, kCodes = 8192;
Numbers classes, codes;
int add_class() {
  const int i = classes.take(kClasses);
  if (i) classes.at(i)->error_class = i | kDynamic;
  return i ? i | kDynamic : 0;
}
int add_code(int error_class) {
  const int i = codes.take(kCodes);
  if (i) codes.at(i)->error_class = error_class;
  return i ? error_class | i << kCodeShift : 0;
}
Added* find_added(int code) {
  if (code < 0) return nullptr;
  if (const int i = (code & ~kDynamic) >> kCodeShift) {
    Added* a = codes.at(i);
    return a && (a->error_class | i << kCodeShift) == code ? a : nullptr;
  }
  return code & kDynamic ? classes.at(code & kClassMask) : nullptr;
}
bool is_class(int error_class) {
  return error_class >= 0 && (error_class & kDynamic ? classes.at(error_class & ~kDynamic) != nullptr
                                                     : error_class <= MPI_ERR_LASTCODE);
}
#else
// As in ompi/errhandler/errcode.h of Open MPI 4.1: one sequence after the predefined codes.
Numbers codes;
int add_code(int error_class) {
  const int i = codes.take(1 << 30);
  if (!i) return 0;
  codes.at(i)->error_class = error_class < 0 ? MPI_ERR_LASTCODE + i : error_class;
  return MPI_ERR_LASTCODE + i;
}
int add_class() { return add_code(-1); }
Added* find_added(int code) { return codes.at(code > MPI_ERR_LASTCODE ? code - MPI_ERR_LASTCODE : 0); }
bool is_class(int error_class) {
  const Added* a = find_added(error_class);
  return a ? a->error_class == error_class : error_class >= 0 && error_class <= MPI_ERR_LASTCODE;
}
#endif

Vid default_errhandler(Kind kind) {
  return kind == Kind::kFile ? seam::kVid_MPI_ERRORS_RETURN : seam::kVid_MPI_ERRORS_ARE_FATAL;
}
// The null file keeps the handler for errors of files that are not open, which new files inherit.
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
  call_library<int>(seam::kFn_MPI_Comm_rank, seam::kVid_MPI_COMM_WORLD, &rank);
  char line[512];
  const int n =
      snprintf(line, sizeof line,
               "*** rank %d: an error occurred in %s on %s: %s; MPI_ERRORS_ARE_FATAL: the job is aborted\n",
               rank, function, on, what);
  if (write(2, line,
            static_cast<size_t>(n < static_cast<int>(sizeof line) ? n : static_cast<int>(sizeof line) - 1)) <
      0) {
    // standard error is closed: MPI_Abort still ends the job
  }
  // At the abort Hydra ends the job and drops unread output of the ranks. The sleep lets it read the line.
  constexpr useconds_t kReadWithin = 50'000;
  usleep(kReadWithin);
  call_library<int>(seam::kFn_MPI_Abort, comm, code);
  _exit(1);
}

const char* describe(Vid vid) {
  if (vid == seam::kVid_MPI_COMM_WORLD) return "MPI_COMM_WORLD";
  if (vid == seam::kVid_MPI_COMM_SELF) return "MPI_COMM_SELF";
  switch (seam::vid_kind(vid)) {
    case Kind::kWin:
      return "a window";
    case Kind::kFile:
      return "a file";
    default:
      return "a communicator";
  }
}

}  // namespace

int invoke_errhandler(Vid handler, Vid on, int code, const char* function) {
  if (handler == seam::kVid_MPI_ERRORS_RETURN) return code;
  if (Callback own; copy_callback(handler, &own)) {
    const Callback* c = &own;
    int out = code;
    // The callback gets the address of a variable with the handle, which it may change (MPI_Comm_free).
    auto run = [&](auto handle) {
      using H = decltype(handle);
      if (c->cxx_dispatch) {
        reinterpret_cast<void (*)(void*, int*, const char*, void (*)())>(c->cxx_dispatch)(
            &handle, &out, function, c->function);
      } else if (c->proxy) {
        const int kind = c->kind == Kind::kComm ? 0 : c->kind == Kind::kFile ? 1 : 2;
        reinterpret_cast<void (*)(int, H*, int*, void (*)())>(c->proxy)(kind, &handle, &out, c->function);
        out = MPI_SUCCESS;  // for a returned code, MPICH's C++ bindings would call the handler again
      } else if (c->language == Language::kFortranInt) {
        MPI_Fint integer = handle_to_fortran(on);
        reinterpret_cast<void (*)(MPI_Fint*, MPI_Fint*)>(c->function)(&integer, &out);
      } else {
        reinterpret_cast<void (*)(H*, int*, ...)>(c->function)(&handle, &out, function, nullptr);
      }
    };
    switch (seam::vid_kind(on)) {
      case Kind::kWin:
        run(handle_out<Kind::kWin>(on));
        break;
      case Kind::kFile:
        run(handle_out<Kind::kFile>(on));
        break;
      default:
        run(handle_out<Kind::kComm>(on));
    }
#if defined(CROPDL_ABI_MPICH)
    return out;  // the call returns the code as the handler changed it
#else
    return c->proxy ? out : code;
#endif
  }
  char what[MPI_MAX_ERROR_STRING];
  int length;
  PMPI_Error_string(code, what, &length);
  abort_job(seam::vid_kind(on) == Kind::kComm ? on : seam::kVid_MPI_COMM_WORLD, code, function, describe(on),
            what);
}

int fail_mpi_call(Vid object_vid, int neutral, seam::Fn fn) {
  seam::current_thread()->failed[0] = 0;
  const int code = constants::from_seam_error(neutral);
  if (strncmp(seam::kFunctionNames[fn], "MPI_T_", 6) == 0)
    return code;  // the tool interface calls no error handler
  // An invalid communicator or window has no handler.
  const Kind kind = seam::vid_kind(object_vid);
  const bool none =
      (kind == Kind::kComm && neutral == seam::kErrComm) || (kind == Kind::kWin && neutral == seam::kErrWin);
  return fail_mpi_call_with(none ? seam::kVid_MPI_COMM_WORLD : object_vid, code, fn);
}

int fail_mpi_call_with(Vid object_vid, int code, seam::Fn fn) {
  return invoke_errhandler_of(object_vid, code, seam::kFunctionNames[fn]);
}

int invoke_errhandler_of(Vid object_vid, int code, const char* function) {
  Vid on = object_vid;
  // Datatypes, groups etc. have no handler, nor has an invalid or null communicator or window.
  const Kind kind = seam::vid_kind(on);
  const bool has_handler = kind == Kind::kComm || kind == Kind::kWin || kind == Kind::kSession;
  if (kind != Kind::kFile && !(has_handler && handle_exists(on))) on = seam::kVid_MPI_COMM_WORLD;
#if defined(CROPDL_ABI_MPICH)
  // A communicator or window without its own handler uses MPI_COMM_WORLD's current one (errutil.c of MPICH
  // 4.0).
  const Object* o = kind == Kind::kComm || kind == Kind::kWin ? object(on, false) : nullptr;
  if ((kind == Kind::kComm || kind == Kind::kWin) && !(o && o->errhandler)) on = seam::kVid_MPI_COMM_WORLD;
#endif
  return invoke_errhandler(errhandler_of(on), on, code, function);
}

int fail_completion(int neutral, seam::Fn fn) {
#if defined(CROPDL_ABI_OPENMPI)
  // The handler of the communicator of the first failed request is called, with that request's error
  // (errhandler_invoke.c of Open MPI 4.1). MPICH 4.0 calls MPI_COMM_WORLD's.
  auto& failed = seam::current_thread()->failed;
  const Vid on = std::exchange(failed[0], 0);
  if (on) {
    const int code = fail_mpi_call(on, static_cast<int>(failed[1]), fn);
    return neutral == seam::kErrInStatus ? MPI_ERR_IN_STATUS : code;
  }
#endif
  return fail_mpi_call(kNoObject, neutral, fn);
}

void inherit_errhandler(Vid parent, Vid child) {
  if (vid_index(child) == 0) return;
  const Object* from = object(parent, false);
  if (from && from->errhandler) set_errhandler(child, from->errhandler);
}

void set_errhandler(Vid vid, Vid handler) {
  hold_callback(handler);
  Object* o = object(vid, true);
  const Vid old = __atomic_exchange_n(&o->errhandler, handler, __ATOMIC_ACQ_REL);
  if (old) free_callback(old);
}

Vid make_errhandler(Kind kind, void (*function)(), Language language) {
  const Callback* made = new_callback(kind, function, language);
  return made ? made->vid : make_vid(Kind::kErrhandler, 0);
}

int last_used_code() {
#if defined(CROPDL_ABI_MPICH)
  return classes.count() ? classes.count() | kDynamic : MPI_ERR_LASTCODE;  // MPICH does not count codes
#else
  return MPI_ERR_LASTCODE + codes.count();
#endif
}

namespace {

// The null file has a handler, for files not yet open.
template <Kind K>
bool carries_handler(Vid on) {
  return handle_exists(on) || (K == Kind::kFile && vid_index(on) == 0);
}
template <Kind K>
constexpr int kInvalid = K == Kind::kComm   ? seam::kErrComm
                         : K == Kind::kWin  ? seam::kErrWin
                         : K == Kind::kFile ? seam::kErrFile
                                            : seam::kErrSession;

template <Kind K>
int get(Vid on, MPI_Errhandler* errhandler, seam::Fn fn) {
  if (!carries_handler<K>(on)) return fail_mpi_call(on, kInvalid<K>, fn);
  if (!errhandler) return fail_mpi_call(on, seam::kErrArg, fn);
  // The program frees the handler that it gets (MPI-3.1, 8.3.1). Another thread may set a different one
  // meanwhile.
  Vid handler = errhandler_of(on);
  for (Vid seen = 0; !hold_callback(handler) && handler != seen;)
    seen = std::exchange(handler, errhandler_of(on));
  *errhandler = handle_out<Kind::kErrhandler>(handler);
  return MPI_SUCCESS;
}
template <Kind K, class F>
int create_handler(F* function, MPI_Errhandler* errhandler, seam::Fn fn) {
  if (!function || !errhandler) return fail_mpi_call(kNoObject, seam::kErrArg, fn);
  const Vid made = make_errhandler(K, reinterpret_cast<void (*)()>(function), Language::kC);
  if (vid_index(made) == 0) return fail_mpi_call(kNoObject, seam::kErrNoMem, fn);
  *errhandler = handle_out<Kind::kErrhandler>(made);
  return MPI_SUCCESS;
}
template <Kind K>
int set(Vid on, MPI_Errhandler errhandler, seam::Fn fn) {
  if (!carries_handler<K>(on)) return fail_mpi_call(on, kInvalid<K>, fn);
  const Vid handler = handle_in<Kind::kErrhandler>(errhandler);
  const Callback* own = callback_of(handler);
  if (!handle_exists(handler) || (vid_index(handler) >= seam::kFirstDynamic && !(own && own->kind == K))) {
    return fail_mpi_call(on, seam::kErrArg, fn);
  }
  set_errhandler(on, handler);
  return MPI_SUCCESS;
}
template <Kind K>
int call_handler(Vid on, int code, seam::Fn fn) {
  if (!carries_handler<K>(on)) return fail_mpi_call(on, kInvalid<K>, fn);
  invoke_errhandler(errhandler_of(on), on, code, seam::kFunctionNames[fn]);
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace cropdl::shim

using namespace cropdl;
using namespace cropdl::shim;

#define ERRHANDLERS(Type, Handle, kind)                                                              \
  MPI_FUNCTION(int, Type##_create_errhandler, MPI_##Type##_errhandler_function* function,            \
               MPI_Errhandler* e) {                                                                  \
    return create_handler<Kind::kind>(function, e, seam::kFn_MPI_##Type##_create_errhandler);        \
  }                                                                                                  \
  MPI_FUNCTION(int, Type##_set_errhandler, Handle object, MPI_Errhandler e) {                        \
    return set<Kind::kind>(handle_in<Kind::kind>(object), e, seam::kFn_MPI_##Type##_set_errhandler); \
  }                                                                                                  \
  MPI_FUNCTION(int, Type##_get_errhandler, Handle object, MPI_Errhandler* e) {                       \
    return get<Kind::kind>(handle_in<Kind::kind>(object), e, seam::kFn_MPI_##Type##_get_errhandler); \
  }                                                                                                  \
  MPI_FUNCTION(int, Type##_call_errhandler, Handle object, int code) {                               \
    return call_handler<Kind::kind>(handle_in<Kind::kind>(object), code,                             \
                                    seam::kFn_MPI_##Type##_call_errhandler);                         \
  }
ERRHANDLERS(Comm, MPI_Comm, kComm)
ERRHANDLERS(Win, MPI_Win, kWin)
ERRHANDLERS(File, MPI_File, kFile)
#if defined(CROPDL_ABI_MPICH)
ERRHANDLERS(Session, MPI_Session, kSession)
#endif

MPI_FUNCTION(int, Errhandler_free, MPI_Errhandler* errhandler) {
  if (!errhandler || !handle_exists(handle_in<Kind::kErrhandler>(*errhandler))) {
    return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Errhandler_free);
  }
  free_callback(handle_in<Kind::kErrhandler>(*errhandler));
  *errhandler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}
// The MPI-1 names of the communicator functions.
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
#if defined(CROPDL_ABI_MPICH)
  *error_class = code & (kClassMask | kDynamic);
#else
  const Added* a = find_added(code);
  if (!a && (code < 0 || code > MPI_ERR_LASTCODE))
    return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Error_class);
  *error_class = a ? a->error_class : code;
#endif
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Error_string, int code, char* string, int* length) {
  const Added* a = find_added(code);
#if defined(CROPDL_ABI_OPENMPI)
  if (!a && (code < 0 || code > MPI_ERR_LASTCODE))
    return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Error_string);
#endif
  text_out(string, a ? (a->text ? a->text : "") : text_of(constants::to_seam_error(code)),
           MPI_MAX_ERROR_STRING, length);
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_class, int* error_class) {
  if (!error_class) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Add_error_class);
  int made;
  {
    Locked locked(added_lock);
    made = add_class();
  }
  if (!made) return fail_mpi_call(kNoObject, seam::kErrOther, seam::kFn_MPI_Add_error_class);
  *error_class = made;
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_code, int error_class, int* code) {
  if (!code || !is_class(error_class))
    return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Add_error_code);
  int made;
  {
    Locked locked(added_lock);
    made = add_code(error_class);
  }
  if (!made) return fail_mpi_call(kNoObject, seam::kErrOther, seam::kFn_MPI_Add_error_code);
  *code = made;
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_string, int code, const char* string) {
  char* copy = string ? strdup(string) : nullptr;
  if (string && !copy) return fail_mpi_call(kNoObject, seam::kErrNoMem, seam::kFn_MPI_Add_error_string);
  {
    Locked locked(added_lock);
    if (Added* a = copy ? find_added(code) : nullptr) {
      free(a->text);
      a->text = copy;
      return MPI_SUCCESS;
    }
  }
  free(copy);
  return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Add_error_string);
}
#if defined(CROPDL_ABI_MPICH)
extern "C" {
#pragma weak MPIX_Delete_error_class = PMPIX_Delete_error_class
#pragma weak MPIX_Delete_error_code = PMPIX_Delete_error_code
#pragma weak MPIX_Delete_error_string = PMPIX_Delete_error_string
__attribute__((visibility("default"))) int PMPIX_Delete_error_class(int error_class) {
  Locked locked(added_lock);
  Added* a = (error_class >> kCodeShift & (kCodes - 1)) ? nullptr : find_added(error_class);
  if (!a) return MPI_ERR_OTHER;
  classes.give_back(a);
  return MPI_SUCCESS;
}
__attribute__((visibility("default"))) int PMPIX_Delete_error_code(int code) {
  Locked locked(added_lock);
  Added* a = (code >> kCodeShift & (kCodes - 1)) ? find_added(code) : nullptr;
  if (!a) return MPI_ERR_OTHER;
  codes.give_back(a);
  return MPI_SUCCESS;
}
__attribute__((visibility("default"))) int PMPIX_Delete_error_string(int code) {
  Locked locked(added_lock);
  Added* a = find_added(code);
  if (!a) return MPI_ERR_OTHER;
  free(a->text);
  a->text = nullptr;
  return MPI_SUCCESS;
}
}
#endif

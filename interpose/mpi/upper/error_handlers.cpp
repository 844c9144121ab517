// Error handlers, kept in the upper half because they are the program's functions. UH, any thread.
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <utility>

#include "interpose/mpi/upper/fortran_handles.h"
#include "interpose/mpi/upper/objects.h"
#include "interpose/seam/message.h"

namespace cropdl::shim {
namespace {

// The null file keeps the handler for errors of files that are not open, which new files inherit.
Vid errhandler_of(Vid object_vid) {
  const bool is_file = seam::vid_kind(object_vid) == Kind::kFile;
  const Object* o = object(object_vid, false);
  if (is_file && !(o && o->errhandler)) o = object(seam::kVid_MPI_FILE_NULL, false);
  if (o && o->errhandler) return o->errhandler;
  return is_file ? seam::kVid_MPI_ERRORS_RETURN : seam::kVid_MPI_ERRORS_ARE_FATAL;
}

// At the abort Hydra ends the job and drops unread output of the ranks. Its proxy, which may be late, reads
// the line from a pipe, and then passes it on.
void wait_until_read() {
  constexpr int kLooks = 10'000;  // ms; a reader may be stopped
  constexpr useconds_t kPassedOnWithin = 50'000;
  struct stat is;
  const bool is_pipe = fstat(2, &is) == 0 && S_ISFIFO(is.st_mode);
  pollfd closed{2, 0, 0};
  for (int i = 0, unread = 0; is_pipe && i < kLooks && ioctl(2, FIONREAD, &unread) == 0 && unread > 0; ++i)
    if (poll(&closed, 1, 1) > 0) break;
  usleep(kPassedOnWithin);
}

const char* describe(Vid vid) {
  if (vid == seam::kVid_MPI_COMM_WORLD) return "MPI_COMM_WORLD";
  if (vid == seam::kVid_MPI_COMM_SELF) return "MPI_COMM_SELF";
  const Kind kind = seam::vid_kind(vid);
  return kind == Kind::kWin ? "a window" : kind == Kind::kFile ? "a file" : "a communicator";
}

[[noreturn]] void abort_job(Vid on, int code, const char* function) {
  char what[MPI_MAX_ERROR_STRING];
  int length, rank = -1;
  error_text(code, what, &length);
  call_library<int>(seam::kFn_MPI_Comm_rank, seam::kVid_MPI_COMM_WORLD, &rank);
  char line[512];
  const auto n = static_cast<size_t>(
      snprintf(line, sizeof line,
               "*** rank %d: an error occurred in %s on %s: %s; MPI_ERRORS_ARE_FATAL: the job is aborted\n",
               rank, function, describe(on), what));
  if (write(2, line, std::min(n, sizeof line - 1)) < 0) {
    // standard error is closed: MPI_Abort still ends the job
  }
  wait_until_read();
  const bool is_comm = seam::vid_kind(on) == Kind::kComm;
  call_library<int>(seam::kFn_MPI_Abort, is_comm ? on : seam::kVid_MPI_COMM_WORLD, code);
  _exit(1);
}

}  // namespace

int invoke_errhandler(Vid handler, Vid on, int code, const char* function) {
  if (handler == seam::kVid_MPI_ERRORS_RETURN) return code;
  if (Callback c; copy_callback(handler, &c)) {
    int out = code;
    // The callback gets the address of a variable with the handle, which it may change (MPI_Comm_free).
    with_kind(on, [&]<Kind K>() {
      using H = typename HandleOf<K>::type;
      H handle = handle_out<K>(on);
      if (c.cxx_dispatch) {
        reinterpret_cast<void (*)(void*, int*, const char*, void (*)())>(c.cxx_dispatch)(
            &handle, &out, function, c.function);
      } else if (c.proxy) {
        const int kind = c.kind == Kind::kComm ? 0 : c.kind == Kind::kFile ? 1 : 2;
        reinterpret_cast<void (*)(int, H*, int*, void (*)())>(c.proxy)(kind, &handle, &out, c.function);
        out = MPI_SUCCESS;  // for a returned code, MPICH's C++ bindings would call the handler again
      } else if (c.language == Language::kFortranInt) {
        MPI_Fint integer = handle_to_fortran(on);
        reinterpret_cast<void (*)(MPI_Fint*, MPI_Fint*)>(c.function)(&integer, &out);
      } else {
        reinterpret_cast<void (*)(H*, int*, ...)>(c.function)(&handle, &out, function, nullptr);
      }
    });
    return !kIsOpenMpi || c.proxy ? out : code;  // in MPICH as the handler changed it
  }
  abort_job(on, code, function);
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
  // In MPICH a communicator or window without its own handler uses MPI_COMM_WORLD's current one (errutil.c of
  // MPICH 4.0).
  if (!kIsOpenMpi && (kind == Kind::kComm || kind == Kind::kWin)) {
    const Object* o = object(on, false);
    if (!o || !o->errhandler) on = seam::kVid_MPI_COMM_WORLD;
  }
  return invoke_errhandler(errhandler_of(on), on, code, function);
}

int fail_completion(int neutral, seam::Fn fn) {
  // In Open MPI the handler of the communicator of the first failed request is called, with that request's
  // error (errhandler_invoke.c of Open MPI 4.1). MPICH 4.0 calls MPI_COMM_WORLD's.
  auto& failed = seam::current_thread()->failed;
  const Vid on = kIsOpenMpi ? std::exchange(failed[0], 0) : kNoObject;
  if (on == kNoObject) return fail_mpi_call(kNoObject, neutral, fn);
  const int code = fail_mpi_call(on, static_cast<int>(failed[1]), fn);
  return neutral == seam::kErrInStatus ? MPI_ERR_IN_STATUS : code;
}

// Functions not offered yet: interpose/gen/mpi/annotations.toml.
int refuse(seam::Fn fn) {
  static int said[seam::kFnCount / 8 + 1];
  if (!(__atomic_fetch_or(&said[fn / 8], 1 << fn % 8, __ATOMIC_RELAXED) & 1 << fn % 8)) {
    char line[160];
    snprintf(line, sizeof line, "cropdl: %s is not offered in this version; the call returns an error\n",
             seam::kFunctionNames[fn]);
    seam::say_by_c_library(line);
  }
  return fail_mpi_call(kNoObject, seam::kErrUnsupportedOperation, fn);
}

void inherit_errhandler(Vid parent, Vid child, seam::Fn fn) {
  if (vid_index(child) == 0) return;
  if (!kIsOpenMpi && (fn == seam::kFn_MPI_Comm_create || fn == seam::kFn_MPI_Comm_create_group)) return;
  const Object* from = object(parent, false);
  if (from && from->errhandler) set_errhandler(child, from->errhandler);
}

void set_errhandler(Vid vid, Vid handler) {
  hold_callback(handler);
  Object* o = object(vid, true);
  const Vid old = __atomic_exchange_n(&o->errhandler, handler, __ATOMIC_ACQ_REL);
  if (old) free_callback(old);
}

// The null file has a handler, for files not yet open.
static bool carries_handler(Kind kind, Vid on) {
  return handle_exists(on) || (kind == Kind::kFile && vid_index(on) == 0);
}
static int get(Kind kind, Vid on, MPI_Errhandler* errhandler, seam::Fn fn) {
  if (!carries_handler(kind, on)) return fail_mpi_call(on, invalid_handle(kind), fn);
  if (!errhandler) return fail_mpi_call(on, seam::kErrArg, fn);
  // The program frees the handler that it gets (MPI-3.1, 8.3.1). Another thread may set another meanwhile.
  Vid handler = errhandler_of(on);
  for (Vid seen = 0; !hold_callback(handler) && handler != seen;)
    seen = std::exchange(handler, errhandler_of(on));
  *errhandler = handle_out<Kind::kErrhandler>(handler);
  return MPI_SUCCESS;
}
static int create_handler(Kind kind, void (*function)(), MPI_Errhandler* errhandler, seam::Fn fn) {
  if (!function || !errhandler) return fail_mpi_call(kNoObject, seam::kErrArg, fn);
  const Vid made = make_errhandler(kind, function, Language::kC);
  if (vid_index(made) == 0) return fail_mpi_call(kNoObject, seam::kErrNoMem, fn);
  *errhandler = handle_out<Kind::kErrhandler>(made);
  return MPI_SUCCESS;
}
static int set(Kind kind, Vid on, MPI_Errhandler errhandler, seam::Fn fn) {
  if (!carries_handler(kind, on)) return fail_mpi_call(on, invalid_handle(kind), fn);
  const Vid handler = handle_in<Kind::kErrhandler>(errhandler);
  const Callback* own = callback_of(handler);
  if (!handle_exists(handler) || (vid_index(handler) >= seam::kFirstDynamic && !(own && own->kind == kind)))
    return fail_mpi_call(on, seam::kErrArg, fn);
  set_errhandler(on, handler);
  return MPI_SUCCESS;
}
static int call_handler(Kind kind, Vid on, int code, seam::Fn fn) {
  if (!carries_handler(kind, on)) return fail_mpi_call(on, invalid_handle(kind), fn);
  invoke_errhandler(errhandler_of(on), on, code, seam::kFunctionNames[fn]);
  return MPI_SUCCESS;
}
#define ERRHANDLERS(Type, Handle, kind)                                                              \
  MPI_FUNCTION(int, Type##_create_errhandler, MPI_##Type##_errhandler_function* function,            \
               MPI_Errhandler* e) {                                                                  \
    return create_handler(Kind::kind, reinterpret_cast<void (*)()>(function), e,                     \
                          seam::kFn_MPI_##Type##_create_errhandler);                                 \
  }                                                                                                  \
  MPI_FUNCTION(int, Type##_set_errhandler, Handle object, MPI_Errhandler e) {                        \
    return set(Kind::kind, handle_in<Kind::kind>(object), e, seam::kFn_MPI_##Type##_set_errhandler); \
  }                                                                                                  \
  MPI_FUNCTION(int, Type##_get_errhandler, Handle object, MPI_Errhandler* e) {                       \
    return get(Kind::kind, handle_in<Kind::kind>(object), e, seam::kFn_MPI_##Type##_get_errhandler); \
  }                                                                                                  \
  MPI_FUNCTION(int, Type##_call_errhandler, Handle object, int code) {                               \
    return call_handler(Kind::kind, handle_in<Kind::kind>(object), code,                             \
                        seam::kFn_MPI_##Type##_call_errhandler);                                     \
  }
ERRHANDLERS(Comm, MPI_Comm, kComm)
ERRHANDLERS(Win, MPI_Win, kWin)
ERRHANDLERS(File, MPI_File, kFile)
#if defined(CROPDL_ABI_MPICH)
ERRHANDLERS(Session, MPI_Session, kSession)
#endif

MPI_FUNCTION(int, Errhandler_free, MPI_Errhandler* errhandler) {
  if (!errhandler || !handle_exists(handle_in<Kind::kErrhandler>(*errhandler)))
    return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Errhandler_free);
  free_callback(handle_in<Kind::kErrhandler>(*errhandler));
  *errhandler = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}

}  // namespace cropdl::shim

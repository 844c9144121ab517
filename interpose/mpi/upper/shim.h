// The parts of every MPI shim function: translate, call the lower half, translate back. The shim is the
// program's libmpi, in the upper half and in images, so it keeps only state that must survive a restart.
//
// UH, any thread, UH FS base. C++ without exceptions, RTTI or its run-time library; of libc only malloc,
// free, string functions, snprintf, write, sched_yield. No constructor runs before main.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "interpose/handles/spin_lock.h"
#include "interpose/seam/gate.h"
#include "interpose/seam/mpi_abi.h"
#include "mpi_constants.h"
#include "mpi_functions.h"
#include "mpi_predefined.h"

// The application ABI that the shim is compiled for; the build defines CROPDL_ABI_OPENMPI or _MPICH. Without
// the C++ bindings, of another library; with functions that MPI 3 removed and Open MPI still exports.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#define OMPI_OMIT_MPI1_COMPAT_DECLS 0
#define OMPI_REMOVED_USE_STATIC_ASSERT 0
// The shim exports the functions of these headers; everything else is hidden.
#pragma GCC visibility push(default)
#include <mpi.h>
#if defined(CROPDL_ABI_OPENMPI)
#include <mpi-ext.h>
// The state that Open MPI's own libraries read (ompi/runtime/mpiruntime.h): 2 initialised, 5 finalised.
extern "C" int ompi_mpi_state;
#endif
#pragma GCC visibility pop
#if defined(CROPDL_ABI_OPENMPI)
#include "constants_openmpi.h"
#include "upper_handles_openmpi.h"
#elif defined(CROPDL_ABI_MPICH)
#include "constants_mpich.h"
#include "upper_handles_mpich.h"
#else
#error "the build must say which application ABI the shim is for"
#endif
// mpi.h also defines these names as macros.
#undef MPI_Aint_add
#undef MPI_Aint_diff
#undef PMPI_Aint_add
#undef PMPI_Aint_diff

#define EXPORTED extern "C" __attribute__((visibility("default")))
// Defines PMPI_name, and MPI_name as its weak alias, as MPI's profiling interface requires.
#define CROPDL_PRAGMA(text) _Pragma(#text)
#define MPI_FUNCTION(result, name, ...)        \
  CROPDL_PRAGMA(weak MPI_##name = PMPI_##name) \
  EXPORTED result PMPI_##name(__VA_ARGS__)

namespace cropdl::shim {

inline constexpr bool kIsOpenMpi = std::is_pointer_v<MPI_Comm>;  // else MPICH's ABI

using seam::Kind;
using seam::kUnknownIndex;
using seam::make_vid;
using seam::Vid;
using seam::vid_index;

// Holders call neither the program nor the lower half.
using handles::SpinLock;
using Locked = handles::SpinGuard;

// --- Calls

// Calls the lower half's `fn` until it no longer returns kAgain (a checkpoint wanted the thread). Rereads the
// table, which a restart replaces.
template <class... A>
__attribute__((cold, noinline)) int call_again(seam::Fn fn, A... arguments) {
  for (;;) {
    const int r =
        seam::call_lower<int>(&seam::control()->libraries[seam::kLibraryMpi].table, fn, arguments...);
    if (r != seam::kAgain) return r;
  }
}

template <class R, class... A>
inline R call_library(seam::Fn fn, A... arguments) {
  const R r = seam::call_lower<R>(&seam::control()->libraries[seam::kLibraryMpi].table, fn, arguments...);
  if constexpr (std::is_same_v<R, int>) {
    if (__builtin_expect(r == seam::kAgain, 0)) return call_again(fn, arguments...);
  }
  return r;
}

// --- Handles

// Pointer handles. Predefined: the address of a data symbol whose first word is the vid; the program may have
// a copy of the symbol. Kinds that Open MPI's C++ and Fortran libraries read (is_object): the shim's object
// that begins likewise. Others: this tag above the vid, a non-canonical address.
inline constexpr uintptr_t kTag = 0x7a7a;
// Integer handles: the two top bits of MPICH's "direct" handles, the kind, the index. MPICH's own handles
// have other kinds in bits 26 to 29; the program never gets one.
inline constexpr uint32_t kIntegerTag = 0xc000'0000;

// A handle that the lower half has not written.
inline constexpr Vid kUnsetVid = ~Vid{0};

// Returns the object behind a handle of an is_object kind (objects.cpp).
void* object_of(Vid vid);
// The object of a request, or nullptr: only Open MPI's Fortran library reads requests (fortran.cpp).
void* request_object(Vid vid);
extern bool requests_are_read;
// The shim's record of an object being freed. It is detached before the call, because afterwards another
// thread's new object may have the vid, and restored if the free fails.
class FreedObject {
 public:
  explicit FreedObject(Vid vid);
  ~FreedObject();  // restores the record unless it was dropped
  FreedObject(const FreedObject&) = delete;
  FreedObject& operator=(const FreedObject&) = delete;
  void drop();  // after the MPI freed the object

 private:
  struct Object* object_;
  struct HandleObject* handle_;
};
// Calls `fn`, which frees *vid, with the record detached. Returns the neutral error.
int free_object(seam::Fn fn, Vid* vid);
constexpr bool is_object(Kind k) {
  return k == Kind::kComm || k == Kind::kDatatype || k == Kind::kWin || k == Kind::kGroup || k == Kind::kOp ||
         k == Kind::kErrhandler;
}

template <Kind K>
__attribute__((always_inline)) inline Vid handle_in(typename HandleOf<K>::type handle) {
  using H = typename HandleOf<K>::type;
  if constexpr (std::is_pointer_v<H>) {
    const auto word = reinterpret_cast<uintptr_t>(handle);
    if (word >> 48 == kTag) return static_cast<Vid>(word);
    return word == 0 ? make_vid(K, 0) : *reinterpret_cast<const Vid*>(word);
  } else {
    const auto word = static_cast<uint32_t>(handle);
    const auto& predefined = HandleOf<K>::entry(word);
    if (__builtin_expect(predefined.value == word, 1)) return predefined.vid;
    return make_vid(K, (word & 0xf000'0000) == kIntegerTag ? vid_index(word) : kUnknownIndex);
  }
}

template <Kind K>
inline typename HandleOf<K>::type handle_out(Vid vid) {
  using H = typename HandleOf<K>::type;
  if (vid_index(vid) < HandleOf<K>::count) return HandleOf<K>::of(vid_index(vid));
  if constexpr (std::is_pointer_v<H>) {
    if constexpr (is_object(K)) {
      return static_cast<H>(object_of(vid));
    } else {
      if constexpr (K == Kind::kRequest) {
        if (__builtin_expect(__atomic_load_n(&requests_are_read, __ATOMIC_RELAXED), 0))
          if (void* object = request_object(vid)) return static_cast<H>(object);
      }
      return reinterpret_cast<H>(kTag << 48 | vid);
    }
  } else {
    return static_cast<H>(kIntegerTag | static_cast<uint32_t>(K) << 24 | vid_index(vid));
  }
}

// Calls run<kind of vid>(), for an object with attributes or an error handler.
template <class F>
auto with_kind(Vid vid, F run) {
  const Kind kind = seam::vid_kind(vid);
  if (kind == Kind::kDatatype) return run.template operator()<Kind::kDatatype>();
  if (kind == Kind::kWin) return run.template operator()<Kind::kWin>();
  if (kind == Kind::kFile) return run.template operator()<Kind::kFile>();
  return run.template operator()<Kind::kComm>();
}

// An array for one call, on the stack, or on the heap if it has more than kInline entries.
template <class T, long kInline>
class Scratch {
 public:
  T* data() const { return n_ ? data_ : nullptr; }

 protected:
  explicit Scratch(long n) : n_(n > 0 ? n : 0) {
    if (n_ > kInline) data_ = static_cast<T*>(malloc(static_cast<size_t>(n_) * sizeof(T)));
    if (!data_) abort();
  }
  ~Scratch() {
    if (n_ > kInline) free(data_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  long n_;
  T inline_[kInline];
  T* data_ = inline_;
};

template <Kind K>
class Handles : Scratch<Vid, 64> {  // most programs wait for fewer
 public:
  using H = typename HandleOf<K>::type;
  Handles(const H* from, long n) : Scratch(from ? n : 0) {
    if (!from) data_ = nullptr;
    for (long i = 0; i < n_; ++i) data_[i] = handle_in<K>(from[i]);
  }
  explicit Handles(long n) : Scratch(n) {
    for (long i = 0; i < n_; ++i) data_[i] = make_vid(K, 0);
  }
  Vid* vids() { return data_; }
  void write_back(H* to) {
    for (long i = 0; i < n_; ++i) to[i] = handle_out<K>(data_[i]);
  }
};

// --- Values

inline void* buffer_in(const void* p) {
  return __builtin_expect(p == MPI_IN_PLACE, 0) ? seam::in_place() : const_cast<void*>(p);
}

inline int* weights_in(const int* weights) {
  return weights == MPI_UNWEIGHTED      ? seam::unweighted()
         : weights == MPI_WEIGHTS_EMPTY ? seam::weights_empty()
                                        : const_cast<int*>(weights);
}
inline void* all_handles_in(MPI_T_pvar_handle handle) {
  return handle == MPI_T_PVAR_ALL_HANDLES ? seam::all_variables() : reinterpret_cast<void*>(handle);
}

inline bool status_wanted(const MPI_Status* status) {
  return status != MPI_STATUS_IGNORE && status != MPI_STATUSES_IGNORE && status != nullptr;
}
// Marks a status that the lower half has not filled; error classes are not negative.
inline constexpr int kUnsetError = -1;
inline seam::Status status_in(const MPI_Status& from) {
  seam::Status s;
  constants::to_seam_status(from, &s);
  s.error = constants::to_seam_error(from.MPI_ERROR);
  return s;
}

// Statuses of several requests; only functions that return these set MPI_ERROR, as the standard requires.
// Entries that the lower half leaves out (Waitsome, Testsome) keep their values.
class Statuses : public Scratch<seam::Status, 16> {
 public:
  Statuses(const MPI_Status* wanted, long n) : Scratch(status_wanted(wanted) ? n : 0) {
    for (long i = 0; i < n_; ++i) data_[i].error = kUnsetError;
  }
  void write_back(MPI_Status* to) {
    for (long i = 0; i < n_; ++i) {
      if (data_[i].error == kUnsetError) continue;
      constants::from_seam_status(data_[i], &to[i]);
      to[i].MPI_ERROR = constants::from_seam_error(data_[i].error);
    }
  }
};

// NOLINTBEGIN(bugprone-sizeof-expression): T may be a pointer.
// Zeroed memory of the program's malloc, for `n` of them. Aborts if there is none.
template <class T>
T* allocate(size_t n = 1) {
  void* memory = calloc(n, sizeof(T));
  if (!memory) abort();
  return static_cast<T*>(memory);
}

// Doubles an array that begins with 16 entries; new ones are zero. False: there are `most`, or no memory.
template <class T>
bool grow(T** array, uint32_t* size, uint32_t most = UINT32_MAX) {
  const uint32_t wanted = *size ? *size * 2 : 16, larger = wanted < most ? wanted : most;
  void* grown = larger > *size ? realloc(static_cast<void*>(*array), larger * sizeof(T)) : nullptr;
  if (!grown) return false;
  *array = static_cast<T*>(grown);
  memset(static_cast<void*>(*array + *size), 0, (larger - *size) * sizeof(T));
  *size = larger;
  return true;
}
// NOLINTEND(bugprone-sizeof-expression)

// Integers, some of which are MPI constants to translate.
class Constants : public Scratch<int, 16> {
 public:
  Constants(const int* from, long n, int (*translate)(int)) : Scratch(from ? n : 0) {
    for (long i = 0; i < n_; ++i) data_[i] = translate(from[i]);
  }
};

inline bool fits(int64_t value) { return value == static_cast<int>(value); }

class NarrowArray : public Scratch<int, 16> {
 public:
  NarrowArray(const MPI_Count* from, int64_t n) : Scratch(from ? n : 0) {
    for (long i = 0; i < n_; ++i) {
      fits_ = fits_ && shim::fits(from[i]);
      data_[i] = static_cast<int>(from[i]);
    }
  }
  bool fits() const { return fits_; }

 private:
  bool fits_ = true;
};

// The MPI underneath may have longer strings than the program's buffer (a name: 256 bytes against 128).
inline constexpr int kTextCapacity = 1024;
void text_out(char* to, const char* from, int capacity, int* length);

// --- Errors (error_handlers.cpp)

inline constexpr Vid kNoObject = 0;  // errors are raised on MPI_COMM_WORLD
// Calls the error handler of `object` (a communicator, window or file) and returns the program's error code.
int fail_mpi_call(Vid object, int neutral, seam::Fn fn);
int fail_mpi_call_with(Vid object, int code, seam::Fn fn);  // the same with the program's own code
int fail_completion(int neutral, seam::Fn fn);              // the same for a call that completes requests
// Neither the null handle nor an unknown one.
inline bool handle_exists(Vid vid) { return vid_index(vid) != 0 && vid_index(vid) != kUnknownIndex; }
// The class for an invalid handle of a kind that has attributes or an error handler.
constexpr int invalid_handle(Kind kind) {
  return kind == Kind::kDatatype  ? seam::kErrType
         : kind == Kind::kWin     ? seam::kErrWin
         : kind == Kind::kFile    ? seam::kErrFile
         : kind == Kind::kSession ? seam::kErrSession
                                  : seam::kErrComm;
}
// The class by which the program's own MPI rejects a null result pointer, a negative number of requests.
inline constexpr int kNegativeCount = kIsOpenMpi ? seam::kErrArg : seam::kErrCount;
constexpr int null_result(Kind kind, seam::Fn fn) {
  if (!kIsOpenMpi || fn == seam::kFn_MPI_Comm_group || fn == seam::kFn_MPI_Comm_remote_group)
    return seam::kErrArg;
  return kind == Kind::kRequest    ? seam::kErrRequest
         : kind == Kind::kDatatype ? seam::kErrType
         : kind == Kind::kGroup    ? seam::kErrGroup
         : kind == Kind::kInfo     ? seam::kErrInfo
                                   : seam::kErrArg;
}
int refuse(seam::Fn fn);  // for a function that is not offered: says so once, and fails
// Gives a communicator that `fn` made from `parent` that one's error handler, if the program's MPI does so.
void inherit_errhandler(Vid parent, Vid child, seam::Fn fn);

// --- Communicators (communicators.cpp)

void forget_rank(Vid comm);  // `comm` is about to end
void forget_ranks();         // MPI ends

// --- Which arguments MPI ignores (`when` in annotations.toml); they may be anything, such as unset variables

// Whether this process is the root of a call on `comm`: by its rank, or by MPI_ROOT if `comm` is an
// inter-communicator. False for an invalid one (communicators.cpp).
bool is_root(MPI_Comm comm, int root);
// Whether this process exchanges data with a root; not those of the root's side of an inter-communicator.
inline bool has_root(int root) { return root != MPI_ROOT && root != MPI_PROC_NULL; }
inline bool is_no_op(MPI_Op op) { return handle_in<Kind::kOp>(op) == seam::kVid_MPI_NO_OP; }

// --- The tool interface (tool_objects.cpp)

// The object of a control or performance variable for the lower half, from the address of the tool's handle.
void* object_of_cvar(int index, const void* handle);
void* object_of_pvar(int index, const void* handle);

// --- Info (info.cpp)

// An Info of the lower half with the contents of the program's. Freed with this object.
class LowerInfo {
 public:
  explicit LowerInfo(MPI_Info info);
  ~LowerInfo();
  LowerInfo(const LowerInfo&) = delete;
  LowerInfo& operator=(const LowerInfo&) = delete;
  Vid vid() const { return vid_; }

 private:
  Vid vid_;
  bool made_;
};
MPI_Info info_from_lower(Vid lower);

}  // namespace cropdl::shim

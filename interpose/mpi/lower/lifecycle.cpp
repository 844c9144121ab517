// From MPI_Init to MPI_Finalize. LH, LH FS base, the program's main thread.
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <array>
#include <bit>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "base/float_modes.h"
#include "interpose/mpi/lower/counting.h"
#include "interpose/mpi/lower/lifecycle.h"
#include "interpose/mpi/lower/message_drain.h"
#include "interpose/seam/state.h"
#include "interpose/upper/raw.h"
#include "lower_functions.h"

namespace cropdl::mpi {
namespace {

// Restores the process's kernel signal actions after a call of a library that installs handlers of its own:
// Open MPI's and UCX's print a trace, and would run on the program's FS base.
class SignalActions {
 public:
  SignalActions() {
    for (int sig = 1; sig <= 64; ++sig)
      upper::raw(SYS_rt_sigaction, sig, 0, reinterpret_cast<long>(&kept_[sig]), sizeof(uint64_t));
  }
  ~SignalActions() {
    for (int sig = 1; sig <= 64; ++sig) {
      seam::SignalAction now{};
      upper::raw(SYS_rt_sigaction, sig, 0, reinterpret_cast<long>(&now), sizeof(uint64_t));
      if (now.handler != kept_[sig].handler)
        upper::raw(SYS_rt_sigaction, sig, reinterpret_cast<long>(&kept_[sig]), 0, sizeof(uint64_t));
    }
  }
  SignalActions(const SignalActions&) = delete;
  SignalActions& operator=(const SignalActions&) = delete;

 private:
  std::array<seam::SignalAction, 65> kept_{};
};

// The modes in which the program called MPI_Init. Threads that the MPI starts inherit them, and may compute
// (MPICH's for MPIR_CVAR_ASYNC_PROGRESS).
FloatModes modes_of_init() {
  uint64_t& kept = state->more[3];
  if (state->initialized == 0) kept = std::bit_cast<uint64_t>(float_modes());
  return kept != 0 ? std::bit_cast<FloatModes>(kept) : float_modes();  // 0: an image of an older CropDL
}

// An MPICH with shared memory of its own (ch4:ofi; not ch4:ucx) adds in another order from the fifth
// reduction, broadcast or barrier on a communicator on (posix_coll_release_gather.h). A restart makes
// communicators again, and MPICH would count from zero. So it takes that order from the first one on.
void always_add_in_one_order() {
#if !defined(OPEN_MPI)
  for (const char* name : {"MPICH_POSIX_NUM_COLLS_THRESHOLD", "MPIR_PARAM_POSIX_NUM_COLLS_THRESHOLD"})
    if (getenv(name) != nullptr) return;
  setenv("MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD", "0", 0);
#endif
}

}  // namespace

int initialize_mpi(int required) {
  always_add_in_one_order();
  const InFloatModes modes(modes_of_init());
  // Threads that the MPI starts inherit the mask; they must never handle a signal of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int provided = MPI_THREAD_SINGLE;
  const SignalActions kept;
  // An invalid level requests the highest.
  const bool is_level = required >= seam::kThreadSingle && required <= seam::kThreadMultiple;
  const int level = is_level ? constants::from_seam_thread_level(required) : MPI_THREAD_MULTIPLE;
  int code = required == kLevelOfEnvironment ? MPI_Init(nullptr, nullptr)
                                             : MPI_Init_thread(nullptr, nullptr, level, &provided);
  if (code == MPI_SUCCESS && required == kLevelOfEnvironment) code = MPI_Query_thread(&provided);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (code != MPI_SUCCESS) return code;
  if (const int r = prepare_end(); r != MPI_SUCCESS) return r;
  state->provided = constants::to_seam_thread_level(provided);
  multiple = state->provided == seam::kThreadMultiple;
  start_early_drain();
  return code;
}

// Hydra's proxy considers a rank crashed if its connection (PMI_FD) closes before this command: pmi_cb() and
// fn_finalize(), pm/pmiserv/pmip_cb.c and pmip_pmi_v1.c. Waits for the answer, because a connection on which
// the proxy cannot answer counts as a crash, too.
void leave_hydra() {
  const char* const connection = getenv("PMI_FD");
  if (connection == nullptr || getenv("HYDI_CONTROL_FD") == nullptr) return;
  constexpr int kLongest = 30'000;  // ms; more than a live proxy needs, on a busy machine too
  constexpr std::string_view kFinalize = "cmd=finalize\n";
  pollfd answer{atoi(connection), POLLIN, 0};
  char taken[64];
  // If the descriptor is no socket, nothing is sent: the program may have closed it.
  if (send(answer.fd, kFinalize.data(), kFinalize.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0 &&
      poll(&answer, 1, kLongest) == 1)
    (void)recv(answer.fd, taken, sizeof taken, MSG_DONTWAIT);
}

static bool finalizing = false;
static uint32_t own_number() {
  return static_cast<uint32_t>(seam::current_thread() - seam::state()->threads) + 1;
}

bool may_call_beside_others() {
  return multiple || (state->provided < seam::kThreadSerialized && state->thread == own_number());
}

void progress_once() {
  if (!state->initialized || __atomic_load_n(&finalizing, __ATOMIC_RELAXED) || state->finalized ||
      !may_drive())
    return;
  int flag = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

// Returns false if the heap is full.
static bool make_counters() {
  MPI_Comm_rank(MPI_COMM_WORLD, &state->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &state->size);
  const size_t counters = static_cast<size_t>(state->size) * sizeof(uint64_t);
  state->sent = reinterpret_cast<uint64_t>(handles::heap_allocate(counters));
  state->received = reinterpret_cast<uint64_t>(handles::heap_allocate(counters));
  return state->sent && state->received;
}

static int init(int required, int* provided) {
  if (state->initialized) return seam::kErrOther;
  if (!begin_collective(seam::kVid_MPI_COMM_WORLD, seam::kFn_MPI_Init)) return seam::kAgain;
  bool has_room = take_program_environment();
  int result = has_room ? error_out(initialize_mpi(required)) : seam::kSuccess;
  if (result == seam::kSuccess && has_room) {
    state->required = required == kLevelOfEnvironment ? state->provided : required;
    state->thread = own_number();
    has_room = make_counters() && register_world_and_self();
  }
  if (!has_room) {
    say_heap_is_full(seam::kFn_MPI_Init);
    result = seam::kErrNoMem;
  } else if (result == seam::kSuccess) {
    state->initialized = 1;
    *provided = state->provided;
  }
  end_collective();
  return result;
}

template <class T>
static int answer(T value, int* to) {
  *to = static_cast<int>(value);
  return seam::kSuccess;
}

extern "C" {

int lower_MPI_Init_thread(int required, int* provided) { return init(required, provided); }

int lower_MPI_Init() {
  int provided = 0;
  return init(kLevelOfEnvironment, &provided);
}

int lower_MPI_Finalize() {
  if (!state->initialized || state->finalized) return seam::kErrOther;
  if (!begin_collective(seam::kVid_MPI_COMM_WORLD, seam::kFn_MPI_Finalize)) return seam::kAgain;
  finish_freed_comms();
  const SignalActions kept;  // MPI_Finalize restores handlers that it found, perhaps long ago
  __atomic_store_n(&finalizing, true, __ATOMIC_SEQ_CST);
  const int code = MPI_Finalize();
  if (code == MPI_SUCCESS) state->finalized = 1;
  end_collective();
  return error_out(code);
}

int lower_MPI_Initialized(int* flag) { return answer(state->initialized, flag); }
int lower_MPI_Finalized(int* flag) { return answer(state->finalized, flag); }
int lower_MPI_Query_thread(int* provided) { return answer(state->provided, provided); }

int lower_MPI_Abort(Vid comm, int code) {
  if (state->initialized && !state->finalized) MPI_Abort(mpi::comm(comm), code);
  _exit(code);
}

// At a restart, a different thread may initialise the MPI than the program's did.
int lower_MPI_Is_thread_main(int* flag) {
  if (!flag || !state->thread) return error_out(MPI_Is_thread_main(flag));
  return answer(state->thread == own_number(), flag);
}

// Continues over a restart. Seconds.
double lower_MPI_Wtime() { return MPI_Wtime() + state->wtime_offset; }

}  // extern "C"

}  // namespace cropdl::mpi

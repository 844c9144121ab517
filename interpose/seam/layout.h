// Layout of the window: fixed addresses, ThreadRecord and ControlPage. Images outlive the code that wrote
// them: within a seam version every structure here is append-only. Another layout needs a new kSeamVersion.
//
// Ownership is the address: everything in the window belongs to the upper half (UH) and is saved, except the
// control page. Everything outside belongs to the lower half (LH) and is made afresh at every start.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cropdl::seam {

inline constexpr uint32_t kSeamVersion = 8;  // recorded in images; a newer image is refused
inline constexpr uint32_t kOldestSeam = 5;   // older ones had other ControlPages and handle tables: refused

// SECCOMP_RET_DATA of calls that CropDL's filter traps, unlike those that a filter of the program traps.
inline constexpr int kTrapData = 0x4352;

inline constexpr uintptr_t kWindowBegin = 0x4000'0000'0000;
inline constexpr uintptr_t kWindowEnd = 0x5000'0000'0000;

inline constexpr uintptr_t kControlPage = kWindowBegin;  // volatile: rewritten by each LH, never saved
inline constexpr size_t kControlPageSize = 0x10000;
inline constexpr uintptr_t kCore = kWindowBegin + 0x10'0000;  // core text; its system calls are trusted
inline constexpr size_t kCoreSize = 0x10'0000;
inline constexpr uintptr_t kState = kWindowBegin + 0x20'0000;  // PersistentState
inline constexpr size_t kStateSize = 0xe0'0000;
// Where the kernel starts the core's signal handlers, one per ThreadRecord: the program's may be too small.
inline constexpr uintptr_t kSignalStacks = kWindowBegin + 0x4000'0000;  // only stacks in use are mapped
inline constexpr size_t kSignalStackSize = 0x1'0000;  // a frame needs 3.4 KiB with AVX-512, 11 KiB with AMX
// Handle tables, recipes, drained messages.
inline constexpr uintptr_t kHeapBegin = kWindowBegin + 0x1'0000'0000;
inline constexpr uintptr_t kHeapEnd = kWindowBegin + 0x10'0000'0000;
inline constexpr uintptr_t kBrkBegin = kWindowBegin + 0x10'0000'0000;  // the emulated brk area
inline constexpr uintptr_t kBrkEnd = kWindowBegin + 0x30'0000'0000;
inline constexpr uintptr_t kMapBegin = kWindowBegin + 0x40'0000'0000;  // everything the UH maps
// A guard of 4 GiB lies between here and the window's end.
inline constexpr uintptr_t kMapEnd = kWindowEnd - 0x1'0000'0000;

// The only range below 4 GiB that belongs to the LH. It holds the LH's thread blocks
// (docs/inside-a-rank.md). It lies above 2 GiB, the limit of position-dependent programs and MAP_32BIT.
inline constexpr uintptr_t kLowBegin = 0xfc00'0000, kLowEnd = 0x1'0000'0000;
// From here up to kLowBegin lie stacks of the program's threads, with their thread blocks.
inline constexpr uintptr_t kLowStacks = 0x8000'0000;

constexpr bool in_window(uintptr_t a) { return a >= kWindowBegin && a < kWindowEnd; }

// One per UH thread, in PersistentState. GS base of the thread points at its record for the thread's whole
// life (glibc and the x86-64 psABI leave GS to the system; every checkpoint checks it first).
struct ThreadRecord {
  ThreadRecord* self;  // for `mov %gs:0, reg`
  uint64_t upper_fs;   // FS base of the thread in the UH; valid while the thread is in the LH or stopped
  uint64_t lower_fs;   // FS base lent by the LH; 0: none yet. "In the LH" means FS base == lower_fs
  // Stack of the LH. serve() and stay() run on the main thread's, leave() on the calling thread's.
  uint64_t lower_sp;
  int32_t used;         // ThreadUse
  int32_t tid;          // kernel's id in this run
  int32_t virtual_tid;  // the id that the program knows
  // > 0: the thread holds addresses of this run's LH (registers, or frames below) and must not be saved.
  volatile int32_t pinned;
  uint32_t lower_selector;  // of the segment whose base is lower_fs in this run; 0: none
  uint32_t upper_selector;  // the same for upper_fs
  uint64_t context;         // address of the ucontext on the UH stack that rt_sigreturn resumes
  uint64_t clear_tid;       // argument of set_tid_address
  uint64_t robust_list;     // arguments of set_robust_list
  uint64_t robust_size;
  uint32_t pending[2];  // requests of an interrupted blocking call; the repeated call continues them
  uint32_t failed[2];   // communicator (Vid) and error class of the first failed request that the call found
  uint64_t clone_return;       // where the current clone() continues (core only)
  ThreadRecord* clone_record;  // record of the thread that clone() makes
  int32_t clone_flags;         // of the current clone(), or of the clone() that made the thread (core only)
  int32_t shares_files;        // 1: a spawned child with CLONE_FILES; it shares its parent's descriptors
  uint32_t handlers;           // number of the program's signal handlers that ran on this thread
  uint32_t kind;               // ThreadKind
  uint64_t vdso_frame;         // stack pointer of the current call of the proxy vDSO; 0: none
  uint64_t clone_mask;         // signals that the program blocks during clone() (core only)
  uint64_t alternate_sp;       // sigaltstack as the program set it; the kernel has the core's
  uint64_t alternate_size;
  uint64_t alternate_flags;  // SS_DISABLE: none
  uint64_t moved_mask;       // mask to set on the moved frame of a handler (core only)
  uint64_t has_moved;        // 1: moved_mask is to be set
  uint64_t clone_child_tid;  // where clone() writes the child's id for the child (core only)
  // Stopping (docs/threads.md). Numbers of stops belong to this run.
  uint64_t stopped_fs;  // FS base that belongs to `context`
  // LH: the stop for which it sent the suspend signal. The core sets 0: send it again.
  volatile uint32_t asked;
  volatile uint32_t parked;  // the core: the stop for which the thread waits, changing nothing
  volatile uint32_t wake;    // futex on which the parked thread waits; a counter of wake-ups
  uint32_t gone;             // main thread: has ended (pthread_exit); its kernel thread stays with the LH
  // LH: a function that the parked thread runs; 0: none, or done.
  void (*volatile task)(ThreadRecord*);
  uint64_t task_argument;
  int64_t cpu_before;        // CPU time of former runs, ns; not used for the main thread
  int64_t usage_before[18];  // their struct rusage (man 2 getrusage)
  uint64_t rseq;             // man 2 rseq: the registered area; 0: none
  uint32_t rseq_length, rseq_signature;
  // In the LH (interpose/counting): identity of the communicator whose collective the thread is inside, and
  // of the communicator whose next collective it waits to begin. 0: none; always 0 outside the LH.
  volatile uint64_t inside, held;
  // Address of the temporary mask of the program's current wait (pselect6: of its pair); 0: none (core only).
  uint64_t masked_wait;
  // MPI in the LH: 1 inside a blocking send that returns to the program if the thread must park. Used only if
  // several threads may call MPI; 0 outside the LH.
  volatile uint64_t sending;
  uint64_t left;              // time when it began to end, CLOCK_BOOTTIME of its run, ns
  uint64_t clone_parent_tid;  // where clone() writes the child's id for the parent (core only)
  uint64_t nccl_group;  // LH: address of the calls between ncclGroupStart and ncclGroupEnd; 0: in no group
  // 1: runs a function that the program gave to CUDA; such a function must not call CUDA.
  uint64_t in_host_function;
  uint64_t generation;  // unique among all threads that ever had this record; the main thread's is 0
  // LH: 1 inside a call of a device library, which may wait for the device. 0 outside the LH.
  volatile uint64_t in_device_call;
  // Frame of the shim's function that the program called, until it is counted as a collective
  // (interpose/boundaries). Images of older builds have its return address.
  uint64_t caller;
  // Instruction of the call that a signal of CropDL interrupted and that the kernel restarts; 0: none, or a
  // handler of the program has run since (core only).
  uint64_t rewound;
  uint64_t wait_mask;  // copy of the mask of the wait in masked_wait
  // siginfo from a wait, its si_pid not yet translated to the virtual pid; 0: none (core only).
  uint64_t sender_untranslated;
};
enum ThreadUse : int32_t { kFree, kLive, kLeaving };  // kLeaving: until the kernel has released the thread
enum ThreadKind : uint32_t { kMainThread, kOtherThread, kSpawnedChild };
inline constexpr uint64_t kNoAlternateStack = 2;  // SS_DISABLE

// Bits of ControlPage::attention.
inline constexpr uint32_t kAttentionHold = 1;  // collectives ask before they begin; other calls ignore it
// Blocking calls leave the LH with kAgain, and the thread parks.
inline constexpr uint32_t kAttentionStop = 2;

// Libraries of the LH that the UH calls through tables. Append-only: shims in images call by these numbers,
// and the persistent heap keeps its roots under them.
enum LibraryNumber : uint32_t {
  kLibraryMpi,
  kLibraryCudart,  // this and the following: CUDA's family; one plug-in of the LH, one space of handles
  kLibraryCudaDriver,
  kLibraryNccl,
  kLibraryCublas,
  kLibraryCublasLt,
  kLibraryCurand,
  kLibraryCufft,
  kLibraryCusparse,
  kLibraryCusolver,
  kLibraryCudnn,
  kLibraryCudaShims,  // not an NVIDIA library: cuda_shims.h
  kMaxLibraries = 16
};

struct LowerLibrary {
  void* const* volatile table;  // indexed by the library's append-only function index; null: not in this LH
  uint32_t reserved;
  char implementation[20];  // "openmpi", "mpich"
};

// int () functions of the LH that the core calls through the gate.
enum ForCore : unsigned { kObjectsChanged };

// ld.so opens `file` instead of a file whose name begins with `begins`.
struct StandIn {
  char begins[64];
  char file[256];  // empty: not installed, and ld.so opens the original
};
inline constexpr unsigned kMaxStandIns = 32;

// The conditions of a StandIn. A core that knows no rules applies none.
struct StandInRule {
  uint32_t bits;
};
inline constexpr uint32_t kOfDevice = 1;   // not beside libraries of another version of the device's software
inline constexpr uint32_t kWhereItIs = 2;  // only if a file of that name exists
// `begins` ends with the version; another version is a different library.
inline constexpr uint32_t kOneVersion = 4;

// `virtual_*`: the ids that the program got in its first run; `kernel_*`: their values in this run. The
// process's own pair: PersistentState::virtual_pid, kernel_pid. 0: not known (first run, older images).
struct ProcessIds {
  int32_t virtual_parent, kernel_parent;
  int32_t virtual_group, kernel_group;
  int32_t virtual_session, kernel_session;
  int32_t reserved[2];
};

// In the control page of a process that continues an image: the other ranks that share its pid namespace, by
// the pids of their first run and of this one. All are on this node.
struct RankIds {
  static constexpr uint32_t kMax = 4096;  // further ranks are not listed
  struct Pair {
    int32_t virtual_pid, kernel_pid;
  };
  uint32_t entries;
  Pair ranks[kMax];

  // The other id of a rank; 0: no rank has this one.
  int32_t kernel_pid(int32_t virtual_pid) const {
    for (uint32_t i = 0; i < entries; ++i)
      if (ranks[i].virtual_pid == virtual_pid) return ranks[i].kernel_pid;
    return 0;
  }
  int32_t virtual_pid(int32_t kernel_pid) const {
    for (uint32_t i = 0; i < entries; ++i)
      if (ranks[i].kernel_pid == kernel_pid) return ranks[i].virtual_pid;
    return 0;
  }
};

// System V semaphore sets and message queues that the program has used: the machine's, in no image. The core
// writes the list, where the next one takes the place of a removed one; a cut reads it.
struct SystemVObjects {
  static constexpr uint32_t kMax = 63;
  uint32_t semaphores, queues;  // number of entries; more than kMax: some are not listed
  int32_t semaphore[kMax], queue[kMax];
};
struct SharedSegments {
  static constexpr uint32_t kMax = SystemVObjects::kMax;
  uint32_t followed;  // 1: the core lists them; 0: the core of an older image
  uint32_t entries;   // more than kMax: some are not listed
  int32_t segment[kMax];
};

// The kernel gives no ids from here on (PID_MAX_LIMIT, include/linux/threads.h). It is added to the id of a
// process of this run if the program knows that id from its first run.
inline constexpr int kForeignId = 1 << 22;

// In the control page of a process that continues an image: offsets by which clocks do not go back; 0 if this
// machine's clock is ahead anyway. CPU time is that of all former runs.
struct ClockOffsets {
  int64_t shifted;                   // 0: the first run, nothing is added
  int64_t monotonic, raw, boottime;  // ns
  int64_t process_cpu, thread_cpu;   // ns; of the process, and of its main thread
  int64_t usage[3][18];              // struct rusage (man 2 getrusage): process, children, main thread
};

// Where these lie on the program's stack. /proc does not show the program's environment.
struct ProcessView {
  uint64_t arguments, environment;  // strings, one after the other
  uint64_t reserved;
  uint64_t auxiliary, auxiliary_bytes;
};

// Functions and flags of the LH of this run. The UH reads them at every call and keeps no copy.
struct ControlPage {
  uint32_t reserved0;
  volatile uint32_t attention;            // kAttention bits
  LowerLibrary libraries[kMaxLibraries];  // by LibraryNumber
  uint32_t restarted;                     // this process continues an image: ids are translated
  void (*park)();                         // core: stops here if the LH wants it; any UH thread, UH FS base
  // LH: sets lower_fs (if 0) and both selectors; UH FS base, UH stack.
  void (*lend_lower_fs)(ThreadRecord*);
  void (*serve)(ThreadRecord*);  // LH: runs on lower_sp with lower_fs while the main thread is parked
  // LH: exit_group of the process; on lower_sp with lower_fs; does not return.
  void (*leave)(ThreadRecord*, int);
  uint64_t vdso[5];    // real vDSO: clock_gettime gettimeofday time getcpu clock_getres; 0: missing
  int32_t trigger_fd;  // eventfd that asks the agent for a checkpoint (SIGUSR1), or -1
  int32_t patch_libc;  // 0: redirect placement calls by seccomp alone
  StandIn stand_ins[kMaxStandIns];  // ends at the first empty entry
  int32_t message_fd;               // for messages to users, or -1
  int32_t last_version_fd;          // eventfd that reports a SIGTERM to the agent, or -1
  uint32_t messages_as_json;        // 1: --log json
  uint32_t reserved1;
  uint64_t reserved[62];
  ClockOffsets clocks;
  int32_t first_lower_file;    // the LH's own descriptors have numbers from here on
  volatile uint32_t stop;      // number of the current or last stop; threads park under it
  volatile uint32_t released;  // number of the last stop that is over
  // LH: called when the main thread has ended; on lower_sp with lower_fs; does not return.
  void (*stay)(ThreadRecord*, int);
  StandInRule stand_in_rules[kMaxStandIns];  // of stand_ins, by position
  void* const* volatile for_core;            // functions of the LH that the core calls, by ForCore
  // 1: programs may read and write FS and GS bases by instructions; 0: only by arch_prctl.
  uint32_t has_fsgsbase;
  RankIds other_ranks;  // none in a first run: there the kernel's ids are the program's
};
static_assert(sizeof(ControlPage) <= kControlPageSize);

inline ControlPage* control() { return reinterpret_cast<ControlPage*>(kControlPage); }

}  // namespace cropdl::seam

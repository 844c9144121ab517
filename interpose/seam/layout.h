// The upper half's window and what lies at fixed addresses in it. Both halves include this header, and images
// outlive the code that wrote them: within a seam version every structure here is append-only, and what an
// image of an older one holds elsewhere refuses its restart (kOldestSeam).
//
// Ownership is the address: everything in the window belongs to the upper half (UH) and is saved, except the
// control page. Everything outside belongs to the lower half (LH) and is made afresh at every start.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/seam/process.h"

namespace cropdl::seam {

inline constexpr uint32_t kSeamVersion = 8;  // recorded in images; a newer one is refused
inline constexpr uint32_t kOldestSeam =
    5;  // and so is an older one: ControlPage and handle tables were laid out otherwise

// What the filter says of calls that it traps (SECCOMP_RET_DATA): a filter of the program's own says
// something else.
inline constexpr int kTrapData = 0x4352;

inline constexpr uintptr_t kWindowBegin = 0x4000'0000'0000;
inline constexpr uintptr_t kWindowEnd = 0x5000'0000'0000;

inline constexpr uintptr_t kControlPage = kWindowBegin;        // volatile: rewritten by each LH, never saved
inline constexpr size_t kControlPageSize = 0x10000;            //
inline constexpr uintptr_t kCore = kWindowBegin + 0x10'0000;   // UH core text; its system calls are trusted
inline constexpr size_t kCoreSize = 0x10'0000;                 //
inline constexpr uintptr_t kState = kWindowBegin + 0x20'0000;  // PersistentState
inline constexpr size_t kStateSize = 0xe0'0000;                //
// The stacks on which the kernel starts the core's signal handlers, one per ThreadRecord: the program's own
// may be small.
inline constexpr uintptr_t kSignalStacks = kWindowBegin + 0x4000'0000;  // only those in use are mapped
inline constexpr size_t kSignalStackSize = 0x1'0000;  // a frame needs 3.4 KiB with AVX-512, 11 KiB with AMX
inline constexpr uintptr_t kHeapBegin =
    kWindowBegin + 0x1'0000'0000;  // handle tables, recipes, drained messages
inline constexpr uintptr_t kHeapEnd = kWindowBegin + 0x10'0000'0000;   //
inline constexpr uintptr_t kBrkBegin = kWindowBegin + 0x10'0000'0000;  // the emulated brk area
inline constexpr uintptr_t kBrkEnd = kWindowBegin + 0x30'0000'0000;    //
inline constexpr uintptr_t kMapBegin = kWindowBegin + 0x40'0000'0000;  // everything the UH maps
inline constexpr uintptr_t kMapEnd = kWindowEnd - 0x1'0000'0000;  // a guard of 4 GiB below the window's end

// The LH's own below 4 GiB, where everything else is the UH's: thread blocks (docs/architecture.md, "Entering
// and leaving"). Above what position-dependent programs and MAP_32BIT reach (2 GiB).
inline constexpr uintptr_t kLowBegin = 0xfc00'0000, kLowEnd = 0x1'0000'0000;
// Up to there, stacks of the program's threads, with their blocks.
inline constexpr uintptr_t kLowStacks = 0x8000'0000;

constexpr bool in_window(uintptr_t a) { return a >= kWindowBegin && a < kWindowEnd; }

// One per UH thread, in PersistentState. GS base of the thread points at it as long as the thread lives
// (glibc and the x86-64 psABI leave GS to the system; checked before every checkpoint).
struct ThreadRecord {
  ThreadRecord* self;   // for `mov %gs:0, reg`
  uint64_t upper_fs;    // FS base of the thread in the UH; true when it is in the LH or stopped
  uint64_t lower_fs;    // FS base lent by the LH; 0: none yet. "In the LH" means FS base == lower_fs
  uint64_t lower_sp;    // stack of the LH: serve() and stay() run on main's, leave() on that of who calls it
  int32_t used;         // ThreadUse
  int32_t tid;          // kernel's id in this run
  int32_t virtual_tid;  // the id the UH was told when the thread began
  volatile int32_t
      pinned;  // > 0: holds addresses of this run's LH (in registers, or in frames below): not to be saved
  uint32_t lower_selector;  // of the segment whose base is lower_fs in this run; 0: there is none
  uint32_t upper_selector;  // likewise upper_fs
  uint64_t context;         // address of the ucontext on the UH stack that rt_sigreturn resumes
  uint64_t clear_tid;       // set_tid_address
  uint64_t robust_list;     // set_robust_list
  uint64_t robust_size;     //
  uint32_t pending[2];      // requests of an interrupted blocking call, continued when it is called again
  uint32_t failed[2];  // communicator (Vid) and error class of the first request that the call found failed
  uint64_t clone_return;       // where the clone() under way continues (core only)
  ThreadRecord* clone_record;  // and the record of the thread it makes
  int32_t clone_flags;         // of the clone() that is under way, or that made the thread (core only)
  int32_t shares_files;        // a spawned child with CLONE_FILES: its descriptors are its parent's
  uint32_t handlers;           // program's signal handlers that ran on this thread
  uint32_t kind;               // ThreadKind
  uint64_t vdso_frame;         // stack pointer in a call of the proxy vDSO; 0: in none
  uint64_t clone_mask;         // signals that the program blocks while clone() is under way (core only)
  uint64_t alternate_sp;       // sigaltstack as the program set it; the kernel has the core's
  uint64_t alternate_size;     //
  uint64_t alternate_flags;    // SS_DISABLE: none
  uint64_t moved_mask;         // to be set on the frame of a handler that was moved (core only)
  uint64_t has_moved;          //
  uint64_t clone_child_tid;    // where that tells the child its number (core only)
  // Stopping (docs/threads.md). Numbers of stops are of this run.
  uint64_t stopped_fs;       // FS base with `context`
  volatile uint32_t asked;   // LH: the stop for which the suspend signal was sent; the core: 0, send it again
  volatile uint32_t parked;  // the core: the stop for which the thread waits, changing nothing
  volatile uint32_t wake;    // futex on which it waits; counts what it is woken for
  uint32_t gone;             // main thread: has ended (pthread_exit); its kernel thread stays with the LH
  void (*volatile task)(ThreadRecord*);  // LH: to be run by the thread while it is parked; 0: none, or done
  uint64_t task_argument;
  int64_t cpu_before;        // CPU time of former runs, ns; other threads only
  int64_t usage_before[18];  // and struct rusage of them (man 2 getrusage)
  uint64_t rseq;             // man 2 rseq: the registered area, 0: none
  uint32_t rseq_length, rseq_signature;
  // In the LH (interpose/counting): identity of the communicator whose collective the thread is inside of,
  // and of that whose next collective it waits to begin. 0: none, always so outside the LH.
  volatile uint64_t inside, held;
  uint64_t masked_wait;  // where the temporary mask of the program's wait under way lies (pselect6: its
                         // pair); 0: it waits under none (core only)
  // MPI in the LH: 1 inside a blocking send from which the thread returns to the program, where it parks.
  // Only where several threads may call MPI; 0 outside the LH.
  volatile uint64_t sending;
  uint64_t left;              // when it began to end, CLOCK_BOOTTIME of its run, ns
  uint64_t clone_parent_tid;  // where clone() tells the parent the thread's number (core only)
  uint64_t nccl_group;  // LH: address of the calls between ncclGroupStart and ncclGroupEnd; 0: in no group
  uint64_t
      in_host_function;  // 1: it runs a function that the program gave to CUDA, which may call nothing there
  uint64_t generation;   // no other thread that ever had the record has it; the main thread's is 0
  // LH: 1 inside a call of a device's library, which may wait for the device. 0 outside the LH.
  volatile uint64_t in_device_call;
  uint64_t caller;     // where the program called the collective that it called last (interpose/boundaries)
  uint64_t rewound;    // instruction of the call that a signal of ours interrupted, and the kernel will make
                       // anew; 0: none, or a handler of the program has come since (core only)
  uint64_t wait_mask;  // the mask of that call (masked_wait)
  uint64_t sender_untranslated;  // information on a signal that was waited for, whose sender is to be told; 0
                                 // (core only)
};
enum ThreadUse : int32_t { kFree, kLive, kLeaving };  // kLeaving: until the kernel has let go of the thread
enum ThreadKind : uint32_t { kMainThread, kOtherThread, kSpawnedChild };
inline constexpr uint64_t kNoAlternateStack = 2;  // SS_DISABLE

// Bits of ControlPage::attention.
inline constexpr uint32_t kAttentionHold = 1;  // collectives ask whether they may begin; nothing else cares
inline constexpr uint32_t kAttentionStop =
    2;  // blocking calls leave the LH with kAgain, and the thread parks

// Libraries of the LH that the UH calls through tables. Append-only: images hold shims that call them by this
// number, and the persistent heap has their roots under it.
enum LibraryNumber : uint32_t {
  kLibraryMpi,
  kLibraryCudart,  // with those that follow, CUDA's family: one plug-in of the LH, one space of handles
  kLibraryCudaDriver,
  kLibraryNccl,
  kLibraryCublas,
  kLibraryCublasLt,
  kLibraryCurand,
  kLibraryCufft,
  kLibraryCusparse,
  kLibraryCusolver,
  kLibraryCudnn,
  kLibraryCudaShims,  // not one of NVIDIA's: cuda_shims.h
  kMaxLibraries = 16
};

struct LowerLibrary {
  void* const* volatile table;  // indexed by the library's append-only function index; null: not in this LH
  uint32_t reserved;
  char implementation[20];  // "openmpi", "mpich"
};

// int () functions of the LH that the core calls through the gate.
enum ForCore : unsigned { kObjectsChanged };

// What ld.so opens instead of a file whose name begins so.
struct StandIn {
  char begins[64];
  char file[256];  // empty: it is not installed, and nothing is changed
};
inline constexpr unsigned kMaxStandIns = 32;

// When it does. A core that knows no rules follows none.
struct StandInRule {
  uint32_t bits;
};
inline constexpr uint32_t kOfDevice = 1;   // not beside libraries of another version of the device's software
inline constexpr uint32_t kWhereItIs = 2;  // only if a file of that name is there
inline constexpr uint32_t kOneVersion = 4;  // `begins` ends with the version, and other versions are others

// Functions and flags of the LH of this run. The UH reads it at every call and keeps nothing of it.
struct ControlPage {
  uint32_t reserved0;
  volatile uint32_t attention;            // kAttention bits
  LowerLibrary libraries[kMaxLibraries];  // by LibraryNumber
  uint32_t restarted;                     // this process continues an image: ids are translated
  void (*park)();                         // core: stop here if the LH wants it; any UH thread, UH FS base
  void (*lend_lower_fs)(
      ThreadRecord*);            // LH: makes lower_fs (if 0) and both selectors true; UH FS base, UH stack
  void (*serve)(ThreadRecord*);  // LH: runs on lower_sp with lower_fs while the main thread is parked
  void (*leave)(ThreadRecord*, int);  // LH: the process's exit_group; on lower_sp with lower_fs; no return
  uint64_t vdso[5];                   // real vDSO: clock_gettime gettimeofday time getcpu clock_getres, or 0
  int32_t trigger_fd;                 // eventfd that asks the agent for a checkpoint (SIGUSR1), or -1
  int32_t patch_libc;                 // 0: steer placement calls by seccomp alone
  StandIn stand_ins[kMaxStandIns];    // until the first empty one
  int32_t message_fd;                 // for lines to people, or -1
  int32_t last_version_fd;            // eventfd that tells the agent of a SIGTERM, or -1
  uint64_t reserved[63];
  ClockOffsets clocks;
  int32_t first_lower_file;    // the LH's own descriptors are numbered from here on
  volatile uint32_t stop;      // number of the stop under way, or of the last one; threads park under it
  volatile uint32_t released;  // the last one that is over
  void (*stay)(ThreadRecord*, int);  // LH: the main thread has ended; on lower_sp with lower_fs; no return
  StandInRule stand_in_rules[kMaxStandIns];  // of stand_ins, by position
  void* const* volatile for_core;            // functions of the LH that the core calls, by ForCore
  uint32_t has_fsgsbase;  // programs may read and write FS and GS bases by themselves; else the kernel does
};
static_assert(sizeof(ControlPage) <= kControlPageSize);

inline ControlPage* control() { return reinterpret_cast<ControlPage*>(kControlPage); }

}  // namespace cropdl::seam

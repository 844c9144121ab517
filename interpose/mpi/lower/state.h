// The lower half's MPI state: what survives a restart (in the persistent heap), and what each process makes
// anew. LH only. Threads of the program write everything, under `structure_lock` where a structure changes
// shape. The agent's thread reads counters at any time, and the list of communicators under the lock, and
// sets the hold (interpose/counting). Structures in the heap are in images: append only; the root has
// `version`.
#pragma once

#include <mpi.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/float_modes.h"
#include "base/result.h"
#include "interpose/counting/counting.h"
#include "interpose/handles/heap.h"
#include "interpose/handles/spin_lock.h"
#include "interpose/handles/table.h"
#include "interpose/mpi/lower/runtime.h"
#include "mpi_functions.h"
#include "mpi_predefined.h"

namespace cropdl::mpi {

inline constexpr uint32_t kStateVersion = 2;
// No other gid: they are (leader's world rank + 1) << 32 | serial, or a hash with bit 55 (MPI_Comm_idup).
inline constexpr uint64_t kWorldGid = 1;

// A communicator, possibly freed while the agreement still needs its count (deferred_comm_free.cpp).
struct CommRecord {
  uint64_t gid;            // equal on all members and over restarts; 0: not re-made
  counting::Record count;  // of its collectives, by gid; not counted with one member, or if not saved
  // Address of uint32_t[size], the world rank of each rank; 0: point-to-point is not counted.
  uint64_t members;
  uint32_t size, rank;
  uint32_t freed;                       // the program freed it
  uint32_t named;                       // the program has set its name, perhaps to ""
  uint64_t next;                        // list of all records
  char name[128];                       // 128: the larger of the MPIs' MPI_MAX_OBJECT_NAME
  uint64_t before;                      // back link of the list; rebuilt at a restart
  uint64_t topology, topology_numbers;  // address and length of int[], copied from the recipe when freed
  std::span<const uint32_t> ranks() const { return {reinterpret_cast<const uint32_t*>(members), size}; }
};
inline CommRecord* record_at(uint64_t word) { return reinterpret_cast<CommRecord*>(word); }

enum RequestState : uint8_t {
  kRequestFree,
  kRequestActive,    // begun, with a real request
  kRequestParked,    // a receive cancelled for the cut, to be posted again
  kRequestDone,      // completed and not yet handed out; `status` is kept
  kRequestInactive,  // persistent, not started
};
enum RequestKind : uint8_t {
  kSendRequest,
  kReceiveRequest,
  kCollectiveRequest,  // all members have begun it at a cut, so the drain completes it
  kOtherRequest,       // cannot be saved (generalized requests, ...)
  kPersistentOther,    // cannot be saved, and can be started (persistent collectives, ...)
  kPersistentSend,
  kPersistentReceive,
};

struct RequestRecord {
  uint8_t state;
  uint8_t kind;
  uint8_t orphan;  // freed by the program while active: never handed out
  union {
    uint8_t matched;  // began as a matched receive: cannot be posted again
    uint8_t ended;    // MPI_Grequest_complete was called (generalized request)
  };
  uint32_t next;  // free list
  Vid comm, datatype;
  int32_t peer, tag;  // values of the seam
  int64_t count;
  uint64_t buffer;
  uint64_t serial;  // posting order
  uint64_t owned;   // heap block freed with the operation
  uint64_t record;  // CommRecord*
  uint32_t maker;
  uint32_t holds_comm;  // keeps the index of `comm` from reuse
  seam::Status status;
  uint64_t more[4];
};
static_assert(sizeof(RequestRecord) == 128);
inline bool is_persistent(const RequestRecord* r) { return r->kind >= kPersistentOther; }
inline bool receives(const RequestRecord* r) {
  return r->kind == kReceiveRequest || r->kind == kPersistentReceive;
}
inline bool sends(const RequestRecord* r) { return r->kind == kSendRequest || r->kind == kPersistentSend; }
inline bool without_recipe(const RequestRecord* r) {
  return r->kind == kOtherRequest || r->kind == kPersistentOther;
}

// A message that a drain received; `bytes` bytes follow the structure.
struct DrainedMessage {
  uint64_t next;      // in matching order
  uint32_t complete;  // all bytes have arrived (always true in an image)
  Vid comm;
  int32_t source, tag;  // of the seam; the source is a rank in the communicator
  int64_t bytes;
  void* data() { return this + 1; }
};

struct State {
  uint32_t version;
  int32_t rank, size;          // of MPI_COMM_WORLD; size 0: never initialised
  int32_t required, provided;  // seam::ThreadLevel
  uint32_t initialized, finalized;
  uint32_t thread;          // that called MPI_Init: its record's number + 1; 0: unknown
  uint64_t sent, received;  // addresses of uint64_t[size]: point-to-point messages per world rank
  uint64_t comms;           // list of CommRecords
  uint64_t comm_serial;     // for gids
  uint64_t reserved2;
  uint64_t requests;  // address of RequestRecord[kCapacity]
  uint32_t request_top, request_free;
  uint64_t request_serial;
  uint64_t unsaved_requests;       // live ones of functions without recipe
  uint64_t drained, drained_last;  // list of DrainedMessages
  struct {
    uint64_t buffer, size;  // attached by the program
    uint64_t used;          // by buffered sends that have not completed
  } bsend;
  double wtime_offset, wtime_at_save;
  uint32_t unsaved_function;  // permanent: mark_unsaved
  uint32_t largest_tag_told;  // the MPI_TAG_UB that the program first got; 0: it never asked
  char unsaved_why[192];
  uint8_t used[2048];  // by function index: functions that only one MPI has and that the program used
  uint64_t more[32];   // the world's and MPI_COMM_SELF's records; environment.cpp's; lifecycle.cpp's
};

// --- Survives a restart; format() and restart() set these pointers.
extern State* state;
extern handles::Tables* tables;

// --- Made anew in each process.
extern CommRecord* comm_records[kCapacity];  // by a communicator's index; nullptr: not a communicator
extern bool multiple;  // MPI_THREAD_MULTIPLE: several threads of the program may be in here
extern handles::SpinLock structure_lock;

inline CommRecord* comm_record(Vid v) { return comm_records[v & kIndexMask]; }

extern uint64_t uncounted;  // dummy counter of messages that are not counted (messages.h)
inline void add_to_counter(uint64_t* counter, uint64_t n) { counting::add(counter, n, multiple); }

inline constexpr Vid kNullComm = seam::make_vid(Kind::kComm, 0);
inline constexpr Vid kNullDatatype = seam::make_vid(Kind::kDatatype, 0);
inline constexpr Vid kNullGroup = seam::make_vid(Kind::kGroup, 0);
inline constexpr Vid kNullOp = seam::make_vid(Kind::kOp, 0);
inline constexpr Vid kNullRequest = seam::make_vid(Kind::kRequest, 0);
inline constexpr Vid kNullMessage = seam::make_vid(Kind::kMessage, 0);

// The floating-point modes of the program's threads that make progress in the MPI: where CropDL makes it for
// them, the program's reductions (MPI_Iallreduce) go on as natively. Any thread.
using ProgressModes = std::atomic<FloatModes>;
static_assert(ProgressModes::is_always_lock_free);
// Of the thread that last began a blocking send: the thread of the early drain (message_drain.cpp) has them.
inline ProgressModes modes_of_sender{FloatModes{0x1f80, 0x037f}};
// Of the thread that last began a nonblocking collective, or tested one that was not complete.
inline ProgressModes modes_of_collectives{FloatModes{0x1f80, 0x037f}};
inline void note_modes(ProgressModes* of) { of->store(float_modes(), std::memory_order_relaxed); }

using counting::stop_wanted;  // a blocking call then leaves the LH with kAgain

// The program has begun nonblocking synchronous sends; no cut is made while one is pending.
inline std::atomic<bool> synchronous_sends{false};

// Sessions without MPI_Init: no checkpoint is taken, and waiting calls use the MPI's own blocking call,
// because MPI_Test crashes in MPICH 4.0 without MPI_COMM_WORLD.
inline bool only_sessions() { return __builtin_expect(!state->initialized, 0); }
inline int test_or_wait(MPI_Request* request, int* over, MPI_Status* status) {
  *over = only_sessions();
  return *over ? MPI_Wait(request, status) : MPI_Test(request, over, status);
}

// The turns of a loop that waits for the MPI. With more ranks than cores the peer may need this core, and
// neither MPI's test yields. 128 turns take about 10 us: less would not pay for the system call. (Measured
// with two ranks on one core: 50 to 160 us per exchange; the MPIs' own blocking calls need 300 us and more.)
class Spin {
 public:
  void turn() {
    if (__builtin_expect((++turns_ & 127) == 0, 0)) sched_yield();
  }

 private:
  uint32_t turns_ = 0;
};

inline const char* function_name(uint32_t index) {
  return index < seam::kFnCount ? seam::kFunctionNames[index] : "a function of a newer CropDL";
}

// Writes a line with the rank to stderr: why a call fails.
void say_of_rank(const std::string& line);
void say_heap_is_full(uint32_t function);

// --- objects.cpp
void fill_predefined();  // real_handles of null and predefined objects
bool is_predefined(Vid vid);
// Registers a live object; the null vid if no index is left or the heap is full. The second form sets the
// recipe in the same step, because the agent may look for objects without a recipe at any time.
Vid new_object(Kind kind, uint64_t word, uint32_t maker);
Vid new_object(Kind kind, uint64_t word, uint32_t maker, std::span<const Vid> dependencies,
               const void* payload, size_t bytes);
// The recipe of an object, but for the handles in it; empty: it has none.
template <class T>
std::span<const T> recipe_of(Vid vid) {
  const handles::Slot* s = tables->slot(vid);
  if (!s || !s->recipe) return {};
  const auto* recipe = reinterpret_cast<const handles::Recipe*>(s->recipe);
  return {static_cast<const T*>(recipe->payload()), recipe->bytes / sizeof(T)};
}
// Frees the real objects of unused handles. Under the lock that freed these: their indices are reused.
void destroy_objects(std::span<const handles::Handle> gone);

// --- topologies.cpp: topologies in the recipes of communicators
// Reads the new communicator's topology, with its hint for collectives, as its recipe stores it; empty if it
// has neither. Returns a code of the MPI.
int read_topology(MPI_Comm comm, std::vector<int>* topology);
std::span<const int> without_hint(std::span<const int> topology);  // as a duplicate made without hints has it
// Replaces `comm` by a communicator of the same members with topology and hint. Collective over `comm`.
int lay_topology(std::span<const int> topology, MPI_Comm* comm);

// --- communicators.cpp
bool register_world_and_self();  // false: the heap is full
void unlist_record(CommRecord* c);
Vid new_group(MPI_Group real, uint32_t maker);  // the recipe is its members, if all are in MPI_COMM_WORLD

// --- deferred_comm_free.cpp
// MPI_Comm_free, without blocking, in two steps. Each returns a code of the MPI.
class CommFree {
 public:
  CommFree(Vid comm, uint32_t function);  // `function`, for people
  ~CommFree();
  CommFree(const CommFree&) = delete;
  CommFree& operator=(const CommFree&) = delete;
  // Takes the memory that run() needs, or says why not. Nothing has begun, and the call may be repeated.
  int prepare();
  int run();  // the caller forgets the handle

 private:
  const Vid vid_;
  const uint32_t function_;
  CommRecord* record_;  // nullptr: nothing but the MPI knows the communicator
  bool has_room_ = false;
};
void test_freed_comms();  // in a drain: drops the messages left on freed communicators
// Before an image is written, after the drains of all ranks: frees the communicators that all members have
// freed, and their records. The others stay listed, also in images: a restart makes them again.
void give_back_freed_comms();
// At a restart: returns the records of freed communicators that some rank still has, and drops the others;
// collective over all ranks. leave_again then takes the communicator made again for such a record.
int freed_comms_to_remake(std::span<const uint64_t> alive, std::vector<CommRecord*>* freed);
int leave_again(CommRecord* c, MPI_Comm made);
int prepare_end();          // collective over all ranks, once; a code of the MPI
void finish_freed_comms();  // before MPI_Finalize

// --- request_records.cpp
inline RequestRecord* request_record(Vid v) {
  return reinterpret_cast<RequestRecord*>(state->requests) + (v & kIndexMask);
}
inline std::span<RequestRecord> all_requests() {  // free ones as well
  return {request_record(seam::kFirstDynamic), state->request_top - seam::kFirstDynamic};
}
inline Vid vid_of(const RequestRecord& r) {  // that it has or had
  return seam::make_vid(Kind::kRequest, static_cast<uint32_t>(&r - request_record(0)));
}
inline bool is_request(Vid v) {  // a live one
  return seam::vid_kind(v) == Kind::kRequest && (v & kIndexMask) < state->request_top &&
         seam::vid_index(v) != 0 && request_record(v)->state != kRequestFree;
}
inline MPI_Request* real_request(Vid v) {  // both MPIs' handles are in the first bytes of the word
  return reinterpret_cast<MPI_Request*>(&real_handles[static_cast<unsigned>(Kind::kRequest)][v & kIndexMask]);
}
extern std::atomic<uint32_t> duplicates_under_way;  // communicators that MPI_Comm_idup is still making
// Whether CropDL may call the MPI between two calls of the program. During MPI_Comm_idup, any call of Open
// MPI may begin nonblocking collectives on the parent, in one sequence with the program's own, to agree on
// the duplicate's identity. A call between two collectives of the program on one rank only mixes up the
// sequence (natively too, with MPI_Iprobe), and the duplicate differs between ranks.
inline bool may_drive() {
#if defined(OPEN_MPI)
  return duplicates_under_way.load(std::memory_order_relaxed) == 0;
#else
  return true;
#endif
}
inline uint64_t next_serial() {
  return multiple ? __atomic_add_fetch(&state->request_serial, 1, __ATOMIC_RELAXED) : ++state->request_serial;
}
struct RequestArguments {
  RequestKind kind;
  uint32_t maker;
  const void* buffer;
  int count;
  Vid datatype;
  int peer, tag;
  Vid comm;
};
// Initial status for an MPI call that may fail without a message: from MPI_PROC_NULL, so not counted.
inline MPI_Status no_message() {
  MPI_Status s{};
  s.MPI_SOURCE = MPI_PROC_NULL;
  s.MPI_ERROR = MPI_SUCCESS;
  return s;
}
// A record reserved before an operation begins, because a begun operation could not be taken back.
class RequestPlace {
 public:
  enum Saying { kAloud, kQuietly };
  explicit RequestPlace(Saying says = kAloud);  // false, with a message, if none is left
  ~RequestPlace();                              // released unless taken
  RequestPlace(const RequestPlace&) = delete;
  RequestPlace& operator=(const RequestPlace&) = delete;
  explicit operator bool() const { return vid_ != kNullRequest; }
  // The operation has begun (real != null), is done (set its status), or is persistent (kRequestInactive).
  Vid take(const RequestArguments& operation, MPI_Request real, RequestState begins = kRequestActive);

 private:
  Vid vid_;
};
// The same, for adopt_request() on this thread.
class AdoptedRequestPlace : public RequestPlace {
 public:
  AdoptedRequestPlace();
  ~AdoptedRequestPlace();

 private:
  RequestPlace* const outer_;  // of an outer call that called the program, which made this call
};
void finish_request(RequestRecord* r, const MPI_Status& real_status, int code);
void finish_request_with(RequestRecord* r, const seam::Status& status);  // the result is status.error
// Makes progress on one request. True: it is complete or inactive. `waits`: the caller repeats until then.
bool test_request(Vid v, RequestRecord* r, bool waits = false);
// Gives the program a completed request's status and error class. Only a persistent one's vid stays.
int hand_out_request(Vid* v, RequestRecord* r, seam::Status* status);
void release_request(Vid v);
void let_go_of_comm(RequestRecord* r);  // the persistent request no longer keeps its communicator's index
void free_inactive(Vid v);              // frees the real request of an inactive persistent one
// Of an operation without a message; the second, of a receive from MPI_PROC_NULL.
inline seam::Status empty_status(int error = seam::kSuccess) {
  return {seam::kAnySource, seam::kAnyTag, error, 0, 0};
}
inline seam::Status status_of_no_process() { return {seam::kProcNull, seam::kAnyTag, seam::kSuccess, 0, 0}; }
// Why live requests refuse a checkpoint, or "". The second: a synchronous send (MPI_Issend, a started
// MPI_Ssend_init) is pending, which ends when the program or test_synchronous_sends() has seen its receive;
// `oldest` gets its number in the order of requests. The third: after all threads have stopped.
std::string refusing_request();
std::string pending_synchronous_send(uint64_t* oldest = nullptr);
std::string request_trouble();
// For a thread held in an agreement. No rank stops while a synchronous send is pending, so what ends one is a
// receive of the program's, and no drain. (Several threads might be testing it already.)
void test_synchronous_sends();

// --- drained_messages.cpp
// The first drained message that matches (ranks and tags of the seam): probe_drained copies its status,
// take_drained removes it from the queue.
bool probe_drained(Vid comm, int source, int tag, seam::Status* status);
DrainedMessage* take_drained(Vid comm, int source, int tag);
// Copies a drained message to the program's buffer by the MPI's rules (types, truncation) and frees it.
// Complete on return.
seam::Status deliver_drained(DrainedMessage* message, void* buffer, int count, Vid datatype);
seam::Status status_of(const DrainedMessage* message);
// Begins to receive a matched message whole. Returns a code of the MPI.
int receive_bytes(MPI_Message* message, void* to, int64_t bytes, MPI_Request* request);
void append_drained(DrainedMessage* message);             // after the others, before the program continues
std::vector<DrainedMessage*> take_all_drained(Vid comm);  // also of a communicator being freed
void drop_drained(std::span<DrainedMessage* const> messages);
// Makes what a delivery needs. Called before there is a message to deliver, hence on the parked main thread
// or before the program runs: otherwise a thread of the program might be duplicating MPI_COMM_SELF.
bool ready_to_deliver();

// --- datatypes.cpp, operations.cpp, communicators.cpp, infos.cpp: re-make one object at a restart
int remake_datatype(Vid vid);
Status compare_datatypes();  // after all: an error if one has another size than it had
int remake_op(Vid vid);
// A request that used it, which keeps it alive after the program's free, is complete.
void let_go_of_op(Vid op);
int remake_group(Vid vid);
Vid new_info(MPI_Info real, uint32_t maker);  // the recipe is its keys and values
int remake_info(Vid vid);
int remake_comms();                // all communicators; collective over the world
int remake_persistent_requests();  // persistent.cpp. The real requests of all persistent ones, inactive

}  // namespace cropdl::mpi

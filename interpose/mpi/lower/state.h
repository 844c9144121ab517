// The state of the lower half's MPI: what survives (in the persistent heap) and what each process has anew.
//
// LH only. Who writes what: threads of the program write everything, under `structure_lock` where a structure
// changes shape; the control plane's agent reads counters at any time and the list of communicators under the
// lock, and writes the hold (interpose/counting). Structures in the heap are in images: append-only,
// `version` in the root.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "interpose/counting/counting.h"
#include "interpose/handles/heap.h"
#include "interpose/handles/spin_lock.h"
#include "interpose/handles/table.h"
#include "interpose/mpi/lower/runtime.h"
#include "mpi_functions.h"
#include "mpi_predefined.h"

namespace cropdl::mpi {

inline constexpr uint32_t kStateVersion = 2;
inline constexpr uint64_t kWorldGid =
    1;  // others are (world rank of the leader + 1) << 32 | serial, so never 1

// A communicator, or one that was freed and whose count the agreement still needs (deferred_comm_free.cpp).
struct CommRecord {
  uint64_t gid;            // equal on all members and over restarts; 0: not ours to re-make
  counting::Record count;  // of its collectives, by its gid; not counted: one member, or not saved
  uint64_t members;   // address of uint32_t[size]: world rank of each rank; 0: point-to-point is not counted
  uint32_t size;      //
  uint32_t rank;      //
  uint32_t freed;     // the program freed it
  uint32_t reserved;  //
  uint64_t next;      // list of all records
  char name[128];     // 128: the larger of the MPIs' MPI_MAX_OBJECT_NAME
  uint64_t before;    // the list backwards; made anew at a restart
  uint64_t topology, topology_numbers;  // address of int[]: if freed, what the recipe said
  uint32_t world_rank(int r) const { return reinterpret_cast<const uint32_t*>(members)[r]; }
};

enum RequestState : uint8_t {
  kRequestFree,
  kRequestActive,    // begun; a real request stands behind it
  kRequestParked,    // a receive that was cancelled for the cut; posted again afterwards
  kRequestDone,      // completed, the program has not asked yet; `status` is kept
  kRequestInactive,  // persistent, not started
};
enum RequestKind : uint8_t {
  kSendRequest,
  kReceiveRequest,
  kCollectiveRequest,  // at a cut all members have begun it, so the drain completes it
  kOtherRequest,       // cannot be saved (generalized requests, ...)
  kPersistentOther,    // likewise, and is started (persistent collectives, ...)
  kPersistentSend,
  kPersistentReceive,
};

struct RequestRecord {
  uint8_t state;
  uint8_t kind;
  uint8_t orphan;  // the program freed it while it was active: nobody will ask
  union {
    uint8_t matched;  // began as a matched receive: can not be posted again
    uint8_t ended;    // a generalized request of which MPI_Grequest_complete was called
  };
  uint32_t next;  // free list
  Vid comm;
  Vid datatype;
  int32_t peer, tag;  // of the seam
  int64_t count;
  uint64_t buffer;
  uint64_t serial;  // posting order
  uint64_t owned;   // heap block that lives as long as the operation
  uint64_t record;  // CommRecord*
  uint32_t maker;
  uint32_t holds_comm;  // no other communicator gets the number of `comm` meanwhile
  seam::Status status;
  uint64_t more[4];
};
static_assert(sizeof(RequestRecord) == 128);
inline bool is_persistent(const RequestRecord* r) { return r->kind >= kPersistentOther; }
inline bool without_recipe(const RequestRecord* r) {
  return r->kind == kOtherRequest || r->kind == kPersistentOther;
}

// A message that a cut took out of the network; `bytes` bytes follow the structure.
struct DrainedMessage {
  uint64_t next;      // in the order in which it would have been matched
  uint32_t complete;  // all bytes are here (always true in an image)
  Vid comm;
  int32_t source;  // rank in the communicator
  int32_t tag;
  int64_t bytes;
  void* data() { return this + 1; }
};

struct BsendState {
  uint64_t buffer, size;  // what the program attached
  uint64_t used;          // by buffered sends that have not completed
};

struct State {
  uint32_t version;
  int32_t rank, size;          // of MPI_COMM_WORLD; size 0: never initialised
  int32_t required, provided;  // seam::ThreadLevel
  uint32_t initialized, finalized;
  uint32_t thread;          // that called MPI_Init: 1 more than its record's number; 0: not known
  uint64_t sent, received;  // addresses of uint64_t[size]: point-to-point messages per world rank
  uint64_t comms;           // list of CommRecords
  uint64_t comm_serial;     // for gids
  uint64_t reserved2;       //
  uint64_t requests;        // address of RequestRecord[kCapacity]
  uint32_t request_top, request_free;
  uint64_t request_serial;         //
  uint64_t unsaved_requests;       // alive, of functions without recipe
  uint64_t drained, drained_last;  // list of DrainedMessages
  BsendState bsend;
  double wtime_offset, wtime_at_save;
  uint32_t unsaved_function;  // sticky: mark_unsaved
  uint32_t largest_tag_told;  // MPI_TAG_UB, when the program first asked for it; 0: it did not
  char unsaved_why[192];
  uint8_t used[2048];  // by function index: functions that only one MPI has, used by the program
  uint64_t more[32];
};

// --- Survives: reached through these pointers, which format() and restart() set.
extern State* state;
extern handles::Tables* tables;

// --- Anew in each process.
extern CommRecord* comm_records[kCapacity];  // by a communicator's index; nullptr: not a communicator
extern bool multiple;  // MPI_THREAD_MULTIPLE: several threads of the program may be in here
extern handles::SpinLock structure_lock;
extern MPI_Group world_group;

inline CommRecord* comm_record(Vid v) { return comm_records[v & kIndexMask]; }

extern uint64_t uncounted;  // counts messages that need not be (messages.h)
inline void add_to_counter(uint64_t* counter, uint64_t n) { counting::add(counter, n, multiple); }

inline constexpr Vid kNullComm = seam::make_vid(Kind::kComm, 0);
inline constexpr Vid kNullDatatype = seam::make_vid(Kind::kDatatype, 0);
inline constexpr Vid kNullGroup = seam::make_vid(Kind::kGroup, 0);
inline constexpr Vid kNullOp = seam::make_vid(Kind::kOp, 0);
inline constexpr Vid kNullRequest = seam::make_vid(Kind::kRequest, 0);
inline constexpr Vid kNullMessage = seam::make_vid(Kind::kMessage, 0);

using counting::stop_wanted;  // a blocking call leaves the LH with kAgain

// The program has begun synchronous sends that do not block: those that are pending refuse a checkpoint.
inline std::atomic<bool> synchronous_sends{false};

// A session without MPI_Init: no checkpoint is taken. A call that waits is then the MPI's own, since MPI_Test
// crashes in MPICH 4.0 where there is no MPI_COMM_WORLD.
inline bool only_sessions() { return __builtin_expect(!state->initialized, 0); }

// Once per turn of a loop that waits for the MPI. With more ranks than cores the peer may need this core, and
// neither MPI's test yields it. 128 turns are some 10 us: a wait that short never pays for the system call.
// (Measured with two ranks on one core: 50 to 160 us for an exchange that the MPIs' own blocking calls need
// 300 us and more for.)
class Spin {
 public:
  void turn() {
    if (__builtin_expect((++turns_ & 127) == 0, 0)) yield();
  }

 private:
  static void yield();
  uint32_t turns_ = 0;
};

inline const char* function_name(uint32_t index) {
  return index < seam::kFnCount ? seam::kFunctionNames[index] : "a function of a newer CropDL";
}

// A line on stderr, with the rank: why a call fails.
void say_of_rank(const std::string& line);

// --- objects.cpp
void fill_predefined();  // real_handles of null and predefined objects
bool is_predefined(Vid vid);
Vid predefined(Kind kind, uint64_t word);  // its vid, or the null vid
// A live object; the null vid when there are no indices left or the heap is full. The second form gives it
// its recipe in the same step: the agent, which asks for objects without one at any time, must never see it
// in between.
Vid new_object(Kind kind, uint64_t word, uint32_t maker);
Vid new_object(Kind kind, uint64_t word, uint32_t maker, std::span<const Vid> dependencies,
               const void* payload, size_t bytes);
// The real objects behind handles nobody needs any more. Still under the lock that freed them: their indices
// are given out again.
void destroy_objects(std::span<const handles::Handle> gone);

// --- communicators.cpp
// What the communicator's recipe says (topologies.h); empty: none.
std::span<const int> topology_of(Vid vid);
// Registers a communicator that all its members have just made (the last step is a broadcast on it):
// membership is its recipe. Null communicators give the null vid. Returns an error class.
int new_comm(MPI_Comm made, uint32_t maker, Vid* vid);
void register_world_and_self();
void link_records();                                           // after a restart: the list backwards
void add_counts(std::vector<coord::CollectiveCount>& counts);  // AGENT
void unlist_record(CommRecord* c);
// World ranks of a group; false if one is not in MPI_COMM_WORLD.
bool world_ranks(MPI_Group group, std::vector<uint32_t>* ranks);

// --- deferred_comm_free.cpp
// MPI_Comm_free, never blocking; the handle is the caller's to forget. Returns a code of the MPI.
int free_comm(Vid comm);
// Lets go of the freed communicators that all members have freed. One that a member still has stays listed,
// in images, too, for it must be made again.
void test_freed_comms();
void give_back_freed_comms();  // the records of those that are gone
// At a restart: the records of those that some rank still has; the others are given back. Collective over all
// ranks. Then the communicator made again of such a record.
int freed_comms_to_remake(std::span<const uint64_t> alive, std::vector<CommRecord*>* freed);
int leave_again(CommRecord* c, MPI_Comm made);
int prepare_end();          // collective over all ranks, once; a code of the MPI
void finish_freed_comms();  // before MPI_Finalize

// --- requests.cpp
inline RequestRecord* request_record(Vid v) {
  return reinterpret_cast<RequestRecord*>(state->requests) + (v & kIndexMask);
}
inline bool is_request(Vid v) {  // one that is alive
  return seam::vid_kind(v) == Kind::kRequest && (v & kIndexMask) < state->request_top &&
         seam::vid_index(v) != 0 && request_record(v)->state != kRequestFree;
}
inline MPI_Request* real_request(Vid v) {  // both MPIs' handles lie in the first bytes of the word
  return reinterpret_cast<MPI_Request*>(&real_handles[static_cast<unsigned>(Kind::kRequest)][v & kIndexMask]);
}
// Communicators that MPI_Comm_idup is still making.
extern std::atomic<uint32_t> duplicates_under_way;
// Whether the MPI may be called on our own account between two calls of the program. Open MPI agrees on the
// identity of such a duplicate by nonblocking collectives on its parent that it begins whenever it is called,
// in one sequence with the program's own: called between two of these on one rank only, it mixes them up
// (natively with an MPI_Iprobe there), and the duplicate differs between ranks.
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
// What an MPI call that fails without a message leaves alone: a message from nobody, so that none is counted.
inline MPI_Status no_message() {
  MPI_Status s{};
  s.MPI_SOURCE = MPI_PROC_NULL;
  s.MPI_ERROR = MPI_SUCCESS;
  return s;
}
// A record for an operation that is about to begin: what has begun could not be taken back for want of one.
class RequestPlace {
 public:
  enum Saying { kAloud, kQuietly };
  explicit RequestPlace(Saying says = kAloud);  // false if none is left, which is said
  ~RequestPlace();                              // given back unless it was taken
  RequestPlace(const RequestPlace&) = delete;
  RequestPlace& operator=(const RequestPlace&) = delete;
  explicit operator bool() const { return vid_ != kNullRequest; }
  // For an operation that has begun (real != null) or is done already (then set its status), or for a
  // persistent one (kRequestInactive).
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
  RequestPlace* const outer_;  // of a call in whose course the program called this one
};
void finish_request(RequestRecord* r, const MPI_Status& real_status, int code);
void finish_request_with(RequestRecord* r, const seam::Status& status);  // status.error is the result
// Makes progress on one request; true: it is complete (or inactive). `waits`: the caller asks until it is.
bool test_request(Vid v, RequestRecord* r, bool waits = false);
// Hands a completed request to the program: its status, its error class; the vid becomes null unless
// persistent.
int hand_out_request(Vid* v, RequestRecord* r, seam::Status* status);
void release_request(Vid v);
// Ends a real request that is inactive now but was made persistent.
void free_inactive(Vid v);
// Why requests that are alive refuse a checkpoint, or "".
std::string refusing_request();
// ... and why the state they are in once everything has stopped does.
std::string request_trouble();
// After the drain: receives that are pending leave the MPI, to be posted again in the same order by
// post_parked(). A code of the MPI. If it is an error, of a receive that `maker` began, that receive is
// pending still or complete with the error; others may be parked.
int park_receives(uint32_t* maker);
// One that cannot be posted completes with the error. The first error.
int post_parked();
seam::Status empty_status();

// --- operations.cpp
// A request that is not complete uses the operation, which therefore stays when the program frees it.
void let_go_of_op(Vid op);

// --- message_drain.cpp
// The first drained message that matches (ranks and tags of the seam): its status, or itself, taken out of
// the queue.
bool probe_drained(Vid comm, int source, int tag, seam::Status* status);
DrainedMessage* take_drained(Vid comm, int source, int tag);
// Puts a drained message into the program's buffer with the MPI's own rules (types, truncation), frees it,
// and returns an error class. Complete when it returns.
int deliver_drained(DrainedMessage* message, void* buffer, int count, Vid datatype, seam::Status* status);
seam::Status status_of(const DrainedMessage* message);
std::vector<DrainedMessage*> take_all_drained(Vid comm);  // of a communicator that the program cannot name
void drop_drained(std::span<DrainedMessage* const> messages);
void drain_begin(std::span<const uint64_t> expected_by_rank);
bool drain_step();
// Takes what has arrived, and nothing else, while threads of the program are inside blocking sends
// (early_drain.h).
void early_drain_begin();
void early_drain_step();
const char* drain_trouble();  // nullptr: none. Any thread
bool ready_to_deliver();      // after a restart, before the program runs

// --- datatypes.cpp, operations.cpp, groups.cpp: the replay of one object
int remake_datatype(Vid vid);
int remake_op(Vid vid);
int remake_group(Vid vid);
// communicators.cpp: all of them, collective over the world
int remake_comms();

// --- persistent.cpp
// After a restart: the real requests of all persistent ones, which are inactive.
int remake_persistent_requests();
bool is_synchronous(const RequestRecord* r);  // a send that ends when its receive has begun

}  // namespace cropdl::mpi

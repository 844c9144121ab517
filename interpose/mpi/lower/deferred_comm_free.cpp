// Communicators that the program has freed. The agreement needs a communicator's count until every member has
// begun its MPI_Comm_free: until then a member may be short of the count. So the free begins a nonblocking
// barrier on the communicator. When it is complete, each member knows the final count, and the record is
// dropped. Nothing blocks: freeing is local in both MPIs, and programs rely on that. A cut does not wait
// either, since a member may free much later or never. Then the record is in the image; at a restart its rank
// helps to make the communicator again, and leaves it immediately. LH, LH FS base, threads of the program.
//
// Messages that the program left there are received and dropped, because a drain waits for every message that
// was sent. The barrier tells that all were sent, not that all have arrived: only neighbours in it exchange
// messages, and another member's may still be behind others on its way. So the communicator is freed some
// calls later, or when an image is about to be written: then all messages have been received.
#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>

#include "base/caught.h"
#include "base/format.h"
#include "interpose/mpi/lower/counting.h"
#include "interpose/mpi/lower/message_drain.h"
#include "interpose/mpi/lower/messages.h"

namespace cropdl::mpi {
namespace {

struct Leaving {
  CommRecord* record;
  // Freed after the barrier: Open MPI's barrier keeps no reference to its communicator.
  MPI_Comm comm;
  MPI_Request all_came;
  // False while a duplicate of the communicator is being made: see may_drive.
  bool begun;
  bool counted = true;       // in the agreement's list
  uint64_t quiet_until = 0;  // the turn in which it is freed if no message comes before; 0: not yet known
  bool receivable = true;    // false once no persistent receive is left for the communicator
  MPI_Request receives = MPI_REQUEST_NULL;  // a message to be dropped, as follows
  int source = 0, tag = 0;
  std::unique_ptr<char[]> bytes = {};
};

// What is left on a communicator: nothing, a message that is being received, or one that stays for now.
enum class Left { kNone, kBusy, kKept };

// A communicator is tested when another is freed, in a drain, after all ranks' drains, in MPI_Finalize.
enum class When { kFree, kDrain, kDrained, kEnd };

// Removed from the agreement's list; pending requests and matched messages may still name them.
struct Unlisted {
  CommRecord* record;
  bool named;
};

// A duplicate of MPI_COMM_WORLD. The program may have begun more nonblocking collectives on MPI_COMM_WORLD on
// one rank than on another, which MPIs accept at the end, but a barrier after them would never complete.
MPI_Comm all_ranks = MPI_COMM_NULL;

// For the process's life: communicators are freed between checkpoints and across them.
// Insertion takes the lock; testing uses try_lock, since one tester is enough.
handles::SpinLock freed_lock;
std::vector<Leaving> leaving;
size_t next_to_test;
std::vector<Unlisted> unlisted;
size_t freeing;  // CommFrees that have room in both lists
uint64_t turns;  // calls of test_leaving

// Communicators tested per freed one: more than two, the tests that each needs, so that the list shrinks
// after a peer was late; few, so that a late peer costs no time.
constexpr size_t kTestedPerFree = 4;
// Turns from the end of a barrier, or the last message, to the last look for a message and the free.
constexpr uint64_t kQuietTurns = 16;
// Minimum number of records for one search through all requests; also at least the number of requests, so
// that the search costs each record a few steps.
constexpr size_t kSearchedAtOnce = 256;
// Seconds that MPI_Finalize waits for the last barriers after all ranks have reached it. A program that frees
// a communicator on some ranks only continues then. A turn counts as kLongestTurn at most: a longer one is a
// pause of this thread, and others may have one as well.
constexpr double kPatienceAtTheEnd = 1.0, kLongestTurn = 0.001;
// MPI_Finalize polls this long for the other ranks, then sleeps between polls.
constexpr double kSpinAtTheEnd = 0.01;
constexpr timespec kNapAtTheEnd = {0, 1'000'000};

void give_back(CommRecord* c) {
  handles::heap_free(reinterpret_cast<void*>(c->members));
  handles::heap_free(reinterpret_cast<void*>(c->topology));
  handles::heap_free(c);
}

void give_back_unnamed() {
  std::ranges::sort(unlisted, {}, &Unlisted::record);
  for (Unlisted& u : unlisted) u.named = false;
  const auto mark = [](uint64_t record) {
    const auto u = std::ranges::lower_bound(unlisted, record_at(record), {}, &Unlisted::record);
    if (u != unlisted.end() && u->record == record_at(record)) u->named = true;
  };
  // A request uses its record at its completion or start; else only a matched message does.
  for (const RequestRecord& r : all_requests())
    if (r.state != kRequestFree && (r.state != kRequestDone || is_persistent(&r))) mark(r.record);
  {
    const handles::SpinGuard guard(structure_lock, multiple);
    for (handles::Handle h : tables->in_order(static_cast<uint32_t>(Kind::kMessage)))
      mark(tables->slot(h)->owner[2]);
  }
  std::erase_if(unlisted, [](const Unlisted& u) {
    if (!u.named) give_back(u.record);
    return !u.named;
  });
}

template <class T>
void grow_to(size_t n, std::vector<T>* list) {
  if (n > list->capacity()) list->reserve(std::max(n, 2 * list->capacity()));
}

// Makes room in both lists for `more` communicators: once one is freed, nothing may fail. Under freed_lock.
Status make_room(size_t more) {
  return caught([more] {
    grow_to(leaving.size() + more, &leaving);
    grow_to(unlisted.size() + leaving.size() + more, &unlisted);
  });
}

// Takes a record that the agreement's list no longer has.
void give_back_later(CommRecord* c) {
  unlisted.push_back({c, false});
  if (unlisted.size() < std::max<size_t>(kSearchedAtOnce, state->request_top - seam::kFirstDynamic)) return;
  // Without memory for the search they stay for the next one.
  [[maybe_unused]] const Status searched = caught(give_back_unnamed);
}

void unlist(CommRecord* c) {
  unlist_record(c);
  give_back_later(c);
}

int begin_leaving(Leaving& l) {
  l.begun = true;
  return MPI_Ibarrier(l.comm, &l.all_came);
}

// Returns whether it has begun to receive a message (kBusy).
Left begin_to_drop(Leaving& l, bool draining) {
  int flag = 0;
  MPI_Status s = no_message();
  if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, l.comm, &flag, &s) != MPI_SUCCESS) return Left::kKept;
  if (!flag) return Left::kNone;
  l.quiet_until = 0;
  // A persistent receive may still be started; nobody can make another one for a freed communicator.
  l.receivable =
      l.receivable && std::ranges::any_of(all_requests(), [&l](const RequestRecord& r) {
        return r.state != kRequestFree && r.kind == kPersistentReceive && record_at(r.record) == l.record;
      });
  if (l.receivable) return Left::kKept;
  seam::Status status;
  status_out(s, &status);
  l.bytes.reset(new (std::nothrow) char[static_cast<size_t>(status.bytes) + 1]);
  if (!l.bytes) {
    if (draining) set_drain_trouble(kNoMemoryToDrain);
    return Left::kKept;
  }
  MPI_Message real = MPI_MESSAGE_NULL;
  if (MPI_Improbe(s.MPI_SOURCE, s.MPI_TAG, l.comm, &flag, &real, &s) != MPI_SUCCESS || !flag)
    return Left::kKept;
  l.source = s.MPI_SOURCE;
  l.tag = s.MPI_TAG;
  if (receive_bytes(&real, l.bytes.get(), status.bytes, &l.receives) == MPI_SUCCESS) return Left::kBusy;
  // Nobody can receive it any more, so the counts of this job will never agree.
  l.receives = MPI_REQUEST_NULL;
  mark_unsaved(seam::kFn_MPI_Comm_free, kFailedToDrain);
  if (draining) set_drain_trouble(kFailedToDrain);
  return Left::kKept;
}

// Drops the messages that have arrived on the communicator. Never blocks. In a drain it also tells the drain
// why one cannot be dropped.
Left drop_left_messages(Leaving& l, bool draining) {
  for (;;) {
    if (l.receives != MPI_REQUEST_NULL) {
      int over = 1;
      if (MPI_Test(&l.receives, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && !over) return Left::kBusy;
      l.receives = MPI_REQUEST_NULL;
      l.bytes = nullptr;
      message_came({l.record, l.source, l.tag});
    }
    if (const Left left = begin_to_drop(l, draining); left != Left::kBusy) return left;
  }
}

// Whether each member has begun its free. Then the agreement no longer needs the count.
bool have_all_come(Leaving& l) {
  int over = 0;
  if (!l.begun && begin_leaving(l) != MPI_SUCCESS) l.all_came = MPI_REQUEST_NULL;
  if (MPI_Test(&l.all_came, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS || !over) return false;
  if (l.counted) unlist_record(l.record);
  l.counted = false;
  return true;
}

// Whether no message can come any more; or no drain, in MPI_Finalize.
bool may_free(Leaving& l, Left left, When when) {
  if (when == When::kEnd) return left != Left::kBusy;
  if (left != Left::kNone || when == When::kDrain) return false;
  if (when == When::kDrained) return true;
  if (l.quiet_until == 0) l.quiet_until = turns + kQuietTurns;
  return turns >= l.quiet_until;
}

// Tests at most `n` communicators, unless another thread does. While messages are drained, also drops those
// on communicators that other members still have.
void test_leaving(When when, size_t n = SIZE_MAX) {
  const std::unique_lock turn(freed_lock, std::try_to_lock);
  if (!turn || !may_drive()) return;
  const bool draining = when == When::kDrain || when == When::kDrained;
  ++turns;
  for (size_t unseen = leaving.size(); n > 0 && unseen > 0; --unseen) {
    if (next_to_test >= leaving.size()) next_to_test = 0;
    Leaving& l = leaving[next_to_test];
    // Nothing is to be done for it but to wait until no message can come any more.
    if (when == When::kFree && !l.counted && turns < l.quiet_until) {
      ++next_to_test;
      continue;
    }
    --n;
    const bool all_came = have_all_come(l);
    const Left left = all_came || draining ? drop_left_messages(l, draining) : Left::kNone;
    if (!all_came || !may_free(l, left, when)) {
      ++next_to_test;
      continue;
    }
    MPI_Comm_free(&l.comm);
    give_back_later(l.record);
    std::swap(l, leaving.back());
    leaving.pop_back();
  }
}

// An earlier call, which failed or was repeated, may have kept it.
bool keep_topology(Vid vid, CommRecord* c) {
  const std::span<const int> topology = recipe_of<int>(vid);
  if (topology.empty() || c->topology) return true;
  void* copy = handles::heap_allocate(topology.size_bytes());
  if (!copy) return false;
  std::memcpy(copy, topology.data(), topology.size_bytes());
  c->topology = reinterpret_cast<uint64_t>(copy);
  c->topology_numbers = topology.size();
  return true;
}

}  // namespace

CommFree::CommFree(Vid comm, uint32_t function)
    : vid_(comm), function_(function), record_(is_predefined(comm) ? nullptr : comm_record(comm)) {
  if (record_ && !record_->gid) record_ = nullptr;
}

CommFree::~CommFree() {
  if (!has_room_) return;
  const handles::SpinGuard guard(freed_lock);
  --freeing;
}

int CommFree::prepare() {
  if (!record_) return MPI_SUCCESS;
  Status made;
  {
    const handles::SpinGuard guard(freed_lock);
    made = make_room(freeing + 1);
    has_room_ = static_cast<bool>(made);
    if (has_room_) ++freeing;
  }
  if (!has_room_) {
    say_of_rank(formatted("{}: {}", function_name(function_), made.error().message));
    return MPI_ERR_NO_MEM;
  }
  if (!record_->count.identity || keep_topology(vid_, record_)) return MPI_SUCCESS;
  say_heap_is_full(function_);
  return MPI_ERR_NO_MEM;
}

int CommFree::run() {
  MPI_Comm real = comm(vid_);
  CommRecord* const c = record_;
  if (!c) return MPI_Comm_free(&real);
  Leaving left{c, real, MPI_REQUEST_NULL, false};
  bool over = false;
  if (c->count.identity) {
    if (may_drive())
      if (const int code = begin_leaving(left); code != MPI_SUCCESS) return code;
  } else {
    left.begun = true;  // one member: there is no barrier
    over = may_drive() && drop_left_messages(left, false) == Left::kNone;
    if (over)
      if (const int code = MPI_Comm_free(&left.comm); code != MPI_SUCCESS) return code;
  }
  // Persistent requests may still be started and receive the drained messages.
  if (!tables->slot(vid_)->users) drop_drained(take_all_drained(vid_));
  comm_records[vid_ & kIndexMask] = nullptr;
  c->freed = 1;
  {
    const handles::SpinGuard guard(freed_lock);
    if (over) {
      unlist(c);
    } else {
      leaving.push_back(std::move(left));
    }
  }
  test_leaving(When::kFree, kTestedPerFree);
  return MPI_SUCCESS;
}

void test_freed_comms() { test_leaving(When::kDrain); }

int freed_comms_to_remake(std::span<const uint64_t> alive, std::vector<CommRecord*>* freed) {
  std::vector<CommRecord*> mine;
  std::vector<uint64_t> gids;
  for (CommRecord* c = record_at(state->comms); c; c = record_at(c->next)) {
    if (!c->freed) continue;
    mine.push_back(c);
    gids.push_back(c->gid);
  }
  // Finds out which communicators some rank still has. Of these all members are here, with a handle or a
  // freed record; of the others, some members already know that all have freed them.
  const auto ranks = static_cast<size_t>(state->size);
  std::vector<int> counts(ranks), from(ranks);
  const int n = static_cast<int>(gids.size());
  int code = MPI_Allgather(&n, 1, MPI_INT, counts.data(), 1, MPI_INT, MPI_COMM_WORLD);
  if (code != MPI_SUCCESS) return code;
  std::exclusive_scan(counts.begin(), counts.end(), from.begin(), 0);
  std::vector<uint64_t> all(static_cast<size_t>(from.back() + counts.back()));
  if (all.empty()) return MPI_SUCCESS;
  code = MPI_Allgatherv(gids.data(), n, MPI_UINT64_T, all.data(), counts.data(), from.data(), MPI_UINT64_T,
                        MPI_COMM_WORLD);
  if (code != MPI_SUCCESS) return code;
  std::vector<int> lives(all.size());
  for (size_t i = 0; i < all.size(); ++i)
    lives[i] = std::find(alive.begin(), alive.end(), all[i]) != alive.end();
  code = MPI_Allreduce(MPI_IN_PLACE, lives.data(), static_cast<int>(lives.size()), MPI_INT, MPI_MAX,
                       MPI_COMM_WORLD);
  for (size_t i = 0; i < mine.size() && code == MPI_SUCCESS; ++i) {
    if (lives[static_cast<size_t>(from[static_cast<size_t>(state->rank)]) + i])
      freed->push_back(mine[i]);
    else
      unlist(mine[i]);
  }
  return code;
}

int leave_again(CommRecord* c, MPI_Comm made) {
  if (!make_room(1)) return MPI_ERR_NO_MEM;
  leaving.push_back({c, made, MPI_REQUEST_NULL, false});
  return begin_leaving(leaving.back());
}

int prepare_end() { return MPI_Comm_dup(MPI_COMM_WORLD, &all_ranks); }

void finish_freed_comms() {
  // MPI_Finalize waits for all ranks anyway. MPICH dislikes incomplete requests at its end.
  MPI_Request all_came = MPI_REQUEST_NULL;
  int over = MPI_Ibarrier(all_ranks, &all_came) != MPI_SUCCESS;
  const double began = MPI_Wtime();
  for (Spin spin; !over && MPI_Test(&all_came, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS; spin.turn())
    if (!over && MPI_Wtime() - began > kSpinAtTheEnd) nanosleep(&kNapAtTheEnd, nullptr);
  double left = kPatienceAtTheEnd, before = MPI_Wtime();
  for (Spin spin; !leaving.empty() && left > 0; spin.turn()) {
    test_leaving(When::kEnd);
    const double now = MPI_Wtime();
    left -= std::min(now - before, kLongestTurn);
    before = now;
  }
  MPI_Comm_free(&all_ranks);
}

void give_back_freed_comms() {
  test_leaving(When::kDrained);
  give_back_unnamed();
}

}  // namespace cropdl::mpi

#include "gpu_state/software/nccl/tasks.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "base/say.h"

namespace cropdl::nccl {

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"ncclAllReduce",     "ncclReduce",   "ncclBroadcast", "ncclAllGather",
                                    "ncclReduceScatter", "ncclAlltoAll", "ncclGather",    "ncclScatter",
                                    "ncclSend",          "ncclRecv"};
  return kNames[static_cast<size_t>(kind)];
}

namespace {

// In each step, all ranks publish a chunk (possibly empty) and read their parts of the others' chunks; the
// last reader frees the slot. A collective starts when all ranks have started it: no rank completes one that
// another has not called.
class Collective : public Task {
 public:
  Collective(const Call& call, Segment& segment)
      : call_(call), segment_(segment), size_(size_of(call.datatype)), bytes_(call.count * size_) {
    // Chunks contain whole elements: kChunk is a multiple of every element size.
    chunks_ = (bytes_ + kChunk - 1) / kChunk;
    bool each_to_each =
        call.kind == Kind::kReduceScatter || call.kind == Kind::kAllToAll || call.kind == Kind::kScatter;
    targets_ = each_to_each ? segment.ranks : 1;
    steps_ = chunks_ * targets_;
  }

  bool advance() override {
    RankPart& own = segment_.part(segment_.rank);
    bool moved = false;
    if (!announced_) {
      number_ = own.begun.load();
      own.descriptions[number_ & 1] = description();
      own.begun.store(number_ + 1);
      first_ = own.published.load();
      segment_.ring_all();
      announced_ = moved = true;
    }
    if (!begun_) {
      for (int other = 0; other < segment_.ranks; other++)
        if (segment_.part(other).begun.load() <= number_) return moved;
      for (int other = 0; other < segment_.ranks; other++)
        if (segment_.part(other).descriptions[number_ & 1] != description()) return differ(other);
      begun_ = moved = true;
    }
    while (published_ < steps_ && room()) {
      publish(published_);
      own.published.store(first_ + ++published_);
      segment_.ring_all();
      moved = true;
      if (!take_what_is_there()) break;
    }
    moved |= take_what_is_there();
    if (taken_ == steps_) finished = moved = true;
    return moved;
  }

 private:
  Description description() const {
    uint32_t root = call_.kind == Kind::kReduce || call_.kind == Kind::kBroadcast ||
                            call_.kind == Kind::kGather || call_.kind == Kind::kScatter
                        ? static_cast<uint32_t>(call_.root)
                        : 0;
    // User-defined operations have different numbers on each rank.
    int operation = std::min(static_cast<int>(call_.operation), static_cast<int>(ncclNumOps));
    return {static_cast<uint32_t>(call_.kind), static_cast<uint32_t>(call_.datatype),
            static_cast<uint32_t>(operation), root, call_.count};
  }

  bool differ(int other) {
    const Description& theirs = segment_.part(other).descriptions[number_ & 1];
    wrong = formatted(
        "the ranks of a communicator do not call the same collective: its number {} is {} of {} elements of "
        "type {} (operation {}, "
        "root {}) on rank {}, but {} of {} elements of type {} (operation {}, root {}) on rank {}",
        number_ + 1, name_of(call_.kind), call_.count, static_cast<int>(call_.datatype),
        static_cast<int>(call_.operation), call_.root, segment_.rank, name_of(static_cast<Kind>(theirs.kind)),
        theirs.count, theirs.datatype, theirs.operation, theirs.root, other);
    return false;
  }

  // Whether all ranks have read the slot of the next chunk.
  bool room() {
    uint64_t next = first_ + published_;
    if (next < kSlots) return true;
    for (int other = 0; other < segment_.ranks; other++)
      if (segment_.part(other).consumed.load() + kSlots <= next) return false;
    return true;
  }

  struct Piece {
    int target;
    size_t offset, length;
  };
  Piece piece(uint64_t step) const {
    size_t chunk = step % chunks_, offset = chunk * kChunk;
    return {static_cast<int>(step / chunks_), offset, std::min(kChunk, bytes_ - offset)};
  }

  void publish(uint64_t step) {
    Piece p = piece(step);
    bool root_only = call_.kind == Kind::kBroadcast || call_.kind == Kind::kScatter;
    if (root_only && segment_.rank != call_.root) return;
    auto from = static_cast<const std::byte*>(call_.send) + (targets_ > 1 ? p.target * bytes_ : 0) + p.offset;
    give(call_.reduction, call_.datatype, from, segment_.slot(segment_.rank, first_ + step),
         p.length / size_);
  }

  bool take_what_is_there() {
    bool took = false;
    for (; taken_ < steps_; taken_++, took = true) {
      uint64_t chunk = first_ + taken_;
      for (int other = 0; other < segment_.ranks; other++)
        if (segment_.part(other).published.load() <= chunk) return took;
      take(taken_, chunk);
      segment_.part(segment_.rank).consumed.store(chunk + 1);
      segment_.ring_all();
    }
    return took;
  }

  void take(uint64_t step, uint64_t chunk) {
    Piece p = piece(step);
    int me = segment_.rank;
    auto to = static_cast<std::byte*>(call_.receive);
    switch (call_.kind) {
      case Kind::kReduce:
        if (me != call_.root) return;
        [[fallthrough]];
      case Kind::kReduceScatter:
        if (call_.kind == Kind::kReduceScatter && p.target != me) return;
        [[fallthrough]];
      case Kind::kAllReduce: {
        const void* sources[kMostRanks];
        for (int other = 0; other < segment_.ranks; other++) sources[other] = segment_.slot(other, chunk);
        reduce(call_.reduction, call_.datatype, sources, segment_.ranks, to + p.offset, p.length / size_);
        return;
      }
      case Kind::kBroadcast:
        if (me != call_.root || call_.send != call_.receive)
          std::memcpy(to + p.offset, segment_.slot(call_.root, chunk), p.length);
        return;
      case Kind::kScatter:
        if (p.target == me) std::memcpy(to + p.offset, segment_.slot(call_.root, chunk), p.length);
        return;
      case Kind::kGather:
        if (me != call_.root) return;
        [[fallthrough]];
      case Kind::kAllToAll:
        if (call_.kind == Kind::kAllToAll && p.target != me) return;
        [[fallthrough]];
      default:  // kAllGather
        for (int other = 0; other < segment_.ranks; other++)
          std::memcpy(to + other * bytes_ + p.offset, segment_.slot(other, chunk), p.length);
    }
  }

  const Call call_;
  Segment& segment_;
  const size_t size_, bytes_;  // size of an element, and of one rank's block
  size_t chunks_ = 0, targets_ = 1;
  uint64_t steps_ = 0, number_ = 0, first_ = 0, published_ = 0, taken_ = 0;
  bool announced_ = false, begun_ = false;
};

// A message, in chunks. A send completes when the receiver has read all of it, as on a device with small
// buffers: programs that rely on buffering are wrong, and this makes them hang.
class Message : public Task {
 public:
  Message(const Call& call, Segment& segment)
      : call_(call),
        segment_(segment),
        bytes_(call.count * size_of(call.datatype)),
        sends_(call.kind == Kind::kSend),
        pair_(sends_ ? segment.pair(segment.rank, call.root) : segment.pair(call.root, segment.rank)),
        chunks_(std::max<uint64_t>(1, (bytes_ + kPairChunk - 1) / kPairChunk)) {}

  bool advance() override {
    bool moved = false;
    if (!begun_) {
      if (sends_ && !segment_.reserve_pair(call_.root)) {
        wrong = formatted("no space left in /dev/shm for messages from rank {} to rank {}", segment_.rank,
                          call_.root);
        return false;
      }
      first_ = sends_ ? pair_.sent.load() : pair_.received.load();
    }
    begun_ = true;
    for (; done_ < chunks_; done_++, moved = true) {
      uint64_t chunk = first_ + done_;
      size_t offset = done_ * kPairChunk, length = std::min(kPairChunk, bytes_ - offset);
      if (sends_) {
        if (chunk >= pair_.received.load() + kSlots) break;
        pair_.bytes[chunk % kSlots] = length;
        pair_.message[chunk % kSlots] = bytes_;
        std::memcpy(segment_.pair_slot(segment_.rank, call_.root, chunk),
                    static_cast<const std::byte*>(call_.send) + offset, length);
        pair_.sent.store(chunk + 1);
      } else {
        if (pair_.sent.load() <= chunk) break;
        if (pair_.message[chunk % kSlots] != bytes_) {
          wrong = formatted("rank {} receives {} bytes from rank {}, which sends {}", segment_.rank, bytes_,
                            call_.root, pair_.message[chunk % kSlots]);
          return false;
        }
        std::memcpy(static_cast<std::byte*>(call_.receive) + offset,
                    segment_.pair_slot(call_.root, segment_.rank, chunk), length);
        pair_.received.store(chunk + 1);
      }
      segment_.ring(call_.root);
    }
    if (done_ == chunks_ && (!sends_ || pair_.received.load() >= first_ + chunks_)) finished = moved = true;
    return moved;
  }

 private:
  const Call call_;
  Segment& segment_;
  const size_t bytes_;
  const bool sends_;
  Pair& pair_;
  const uint64_t chunks_;
  uint64_t first_ = 0, done_ = 0;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<Task> make_task(const Call& call, Segment& segment) {
  if (call.kind == Kind::kSend || call.kind == Kind::kReceive)
    return std::make_unique<Message>(call, segment);
  return std::make_unique<Collective>(call, segment);
}

bool run(const std::vector<Call>& calls, Segment& segment, const Watch& watch, std::string* wrong) {
  // Only the first task of each list advances. One list has all collectives; each direction and peer has a
  // list of messages.
  std::vector<std::vector<std::unique_ptr<Task>>> lists(1 + 2 * static_cast<size_t>(segment.ranks));
  for (const Call& call : calls) {
    size_t list = call.kind == Kind::kSend      ? 1 + static_cast<size_t>(call.root)
                  : call.kind == Kind::kReceive ? 1 + static_cast<size_t>(segment.ranks + call.root)
                                                : 0;
    lists[list].push_back(make_task(call, segment));
  }
  for (auto& list : lists) std::reverse(list.begin(), list.end());  // the next task is at the back
  bool said = false;
  for (;;) {
    uint32_t heard = segment.part(segment.rank).doorbell.load();
    bool moved = false, all = true;
    for (auto& list : lists) {
      while (!list.empty()) {
        moved |= list.back()->advance();
        if (!list.back()->wrong.empty()) return *wrong = list.back()->wrong, true;
        if (!list.back()->finished) break;
        list.pop_back();
      }
      all &= list.empty();
    }
    if (all) return true;
    if (watch.aborted->load()) return false;
    if (moved || segment.wait(heard)) continue;
    int gone = segment.lost();
    if (gone >= 0 && !said) {
      watch.asynchronous_error->store(ncclRemoteError);
      say(
          formatted("software NCCL: rank {} is gone; rank {} waits for it in a collective until its "
                    "communicator is aborted",
                    gone, segment.rank));
      said = true;
    }
  }
}

}  // namespace cropdl::nccl

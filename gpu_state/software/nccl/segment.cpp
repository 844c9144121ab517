#include "gpu_state/software/nccl/segment.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/interprocess/shared_memory_object.hpp>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/format.h"

namespace cropdl::nccl {

namespace {

namespace ipc = boost::interprocess;

size_t pairs_at(int ranks) { return sizeof(Header) + sizeof(RankPart) * ranks; }
size_t slots_at(int ranks) {
  size_t end = pairs_at(ranks) + sizeof(Pair) * ranks * ranks;
  return (end + 4095) & ~size_t{4095};
}
size_t pair_slots_at(int ranks) { return slots_at(ranks) + kChunk * kSlots * ranks; }
size_t size_for(int ranks) { return pair_slots_at(ranks) + kPairChunk * kSlots * ranks * ranks; }

Header& header(const ipc::mapped_region& region) { return *static_cast<Header*>(region.get_address()); }

// Field 22 of /proc/PID/stat (proc(5)); 0: no such process, or one that has ended and is not yet waited for.
uint64_t start_time(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  size_t after = text.rfind(')');
  if (after == text.npos) return 0;
  std::istringstream words(text.substr(after + 1));
  std::string word;
  for (int field = 3; words >> word; field++) {
    if (field == 3 && (word == "Z" || word == "X")) return 0;
    if (field == 22) return std::stoull(word);
  }
  return 0;
}

}  // namespace

Segment::Segment(int rank, int ranks, ipc::mapped_region region)
    : rank(rank), ranks(ranks), region_(std::move(region)) {}

Segment::~Segment() { leave(kFinished); }

RankPart& Segment::part(int of) {
  return reinterpret_cast<RankPart*>(static_cast<std::byte*>(region_.get_address()) + sizeof(Header))[of];
}

Pair& Segment::pair(int from, int to) {
  return reinterpret_cast<Pair*>(static_cast<std::byte*>(region_.get_address()) +
                                 pairs_at(ranks))[from * ranks + to];
}

std::byte* Segment::slot(int of, uint64_t chunk) {
  return static_cast<std::byte*>(region_.get_address()) + slots_at(ranks) +
         kChunk * (of * kSlots + chunk % kSlots);
}

std::byte* Segment::pair_slot(int from, int to, uint64_t chunk) {
  return static_cast<std::byte*>(region_.get_address()) + pair_slots_at(ranks) +
         kPairChunk * ((from * ranks + to) * kSlots + chunk % kSlots);
}

void Segment::ring(int whom) {
  auto& bell = part(whom).doorbell;
  bell.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &bell, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void Segment::ring_all() {
  for (int other = 0; other < ranks; other++)
    if (other != rank) ring(other);
}

bool Segment::wait(uint32_t heard) {
  timespec most{0, 100'000'000};
  return syscall(SYS_futex, &part(rank).doorbell, FUTEX_WAIT, heard, &most, nullptr, 0) == 0 ||
         errno != ETIMEDOUT;
}

int Segment::lost() {
  for (int other = 0; other < ranks; other++) {
    Presence& presence = part(other).presence;
    uint32_t state = presence.state.load();
    if (state == kAborted) return other;
    int pid = presence.pid.load();
    if (state == kPresent && pid != getpid() && start_time(pid) != presence.started.load()) return other;
  }
  return -1;
}

void Segment::leave(State how) {
  uint32_t present = kPresent;
  if (!part(rank).presence.state.compare_exchange_strong(present, how)) return;
  ring_all();
}

Result<std::unique_ptr<Segment>> Segment::join(const std::string& token, int rank, int ranks, int device,
                                               const std::atomic<bool>& aborted) {
  std::string name = "cropdl-software-nccl-" + token;
  ipc::mapped_region region;
  try {
    ipc::shared_memory_object object(ipc::open_or_create, name.c_str(), ipc::read_write,
                                     ipc::permissions(0600));
    object.truncate(
        static_cast<ipc::offset_t>(size_for(ranks)));  // all say the same size; new memory is zero
    region = ipc::mapped_region(object, ipc::read_write);
  } catch (const ipc::interprocess_exception& error) {
    return Error{
        formatted("no memory shared by the ranks of a communicator (/dev/shm/{}): {}", name, error.what())};
  }
  uint32_t nobody = 0;
  if (!header(region).ranks.compare_exchange_strong(nobody, ranks) && nobody != static_cast<uint32_t>(ranks))
    return Error{
        formatted("rank {} says that the communicator has {} ranks, another says {}", rank, ranks, nobody)};
  std::unique_ptr<Segment> segment(new Segment(rank, ranks, std::move(region)));
  Presence& own = segment->part(rank).presence;
  uint32_t absent = kAbsent;
  if (!own.state.compare_exchange_strong(absent, kPresent))
    return Error{formatted("rank {} is there twice", rank)};
  own.started.store(start_time(getpid()));
  own.device.store(static_cast<uint32_t>(device));
  own.pid.store(getpid());
  auto& attached = header(segment->region_).attached;
  attached.fetch_add(1);
  segment->ring_all();
  for (;;) {
    uint32_t heard = segment->part(rank).doorbell.load();
    if (attached.load() == static_cast<uint32_t>(ranks)) break;
    int gone = -1;
    for (int other = 0; other < ranks && gone < 0; other++) {
      Presence& presence = segment->part(other).presence;
      int pid = presence.pid.load();
      if (presence.state.load() == kAborted ||
          (pid && pid != getpid() && start_time(pid) != presence.started.load()))
        gone = other;
    }
    if (aborted.load() || gone >= 0) {
      segment->leave(kAborted);
      ipc::shared_memory_object::remove(name.c_str());
      return Error{gone >= 0 ? formatted("rank {} went away before all {} ranks were there", gone, ranks)
                             : std::string("aborted before all ranks were there")};
    }
    segment->wait(heard);
  }
  ipc::shared_memory_object::remove(name.c_str());  // of all ranks one succeeds
  return segment;
}

Status Segment::exchange(const void* say, size_t size, void* into, const std::atomic<bool>& aborted) {
  RankPart& own = part(rank);
  uint64_t number = own.said.load();
  memcpy(own.words[number & 1], say, size);
  own.said.store(number + 1);
  ring_all();
  for (int other = 0; other < ranks; other++) {
    for (;;) {
      uint32_t heard = own.doorbell.load();
      if (part(other).said.load() > number) break;
      if (part(other).presence.state.load() != kPresent) return Error{formatted("rank {} has left", other)};
      if (aborted.load()) return Error{"aborted"};
      if (wait(heard)) continue;
      int gone = lost();
      if (gone >= 0) return Error{formatted("rank {} is gone", gone)};
    }
    memcpy(static_cast<std::byte*>(into) + other * size, part(other).words[number & 1], size);
  }
  return {};
}

}  // namespace cropdl::nccl

#include "gpu_state/software/nccl/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "base/format.h"

namespace cropdl::nccl {

namespace {

namespace ipc = boost::interprocess;

constexpr const char* kPrefix = "cropdl-software-nccl-";
constexpr int kOld = 600;  // in seconds: ranks of one communicator do not attach further apart

size_t pairs_at(int ranks) { return sizeof(Header) + sizeof(RankPart) * ranks; }
size_t slots_at(int ranks) {
  size_t end = pairs_at(ranks) + sizeof(Pair) * ranks * ranks;
  return (end + 4095) & ~size_t{4095};
}
size_t pair_slots_at(int ranks) { return slots_at(ranks) + kChunk * kSlots * ranks; }
size_t size_for(int ranks) { return pair_slots_at(ranks) + kPairChunk * kSlots * ranks * ranks; }

Header& header_of(const ipc::mapped_region& region) { return *static_cast<Header*>(region.get_address()); }

// Grows the file to this size, and returns whether the memory exists; never shrinks it.
bool reserve(const ipc::shared_memory_object& object, size_t offset, size_t length) {
  return posix_fallocate(object.get_mapping_handle().handle, static_cast<off_t>(offset),
                         static_cast<off_t>(length)) == 0;
}

// Field 22 of /proc/PID/stat (proc(5)); 0: no such process, or a zombie.
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

constexpr int kPidBits = 22;  // Linux: PID_MAX_LIMIT
int pid_of(uint64_t process) { return static_cast<int>(process & ((1u << kPidBits) - 1)); }

bool is_alive(const Presence& presence) {
  uint64_t process = presence.process.load();
  return process && process_of(pid_of(process)) == process;
}

// Whether a segment belongs to a failed communicator without living ranks.
bool is_left_over(const char* name) try {
  ipc::shared_memory_object object(ipc::open_only, name, ipc::read_only);
  struct stat facts;
  if (fstat(object.get_mapping_handle().handle, &facts) != 0 || facts.st_uid != geteuid() ||
      facts.st_mtime + kOld > time(nullptr))
    return false;
  auto size = static_cast<size_t>(facts.st_size);
  if (size < sizeof(Header)) return true;
  ipc::mapped_region region(object, ipc::read_only, 0, size);
  uint32_t ranks = header_of(region).ranks.load();
  if (ranks > kMostRanks || size < slots_at(static_cast<int>(ranks))) return true;
  auto parts = reinterpret_cast<const RankPart*>(&header_of(region) + 1);
  return std::none_of(parts, parts + ranks, [](const RankPart& part) { return is_alive(part.presence); });
} catch (const ipc::interprocess_exception&) {
  return false;  // removed meanwhile, or another user's
}

}  // namespace

uint64_t process_of(int pid) {
  uint64_t started = start_time(pid);
  return started ? started << kPidBits | static_cast<uint64_t>(pid) : 0;
}

void remove_left_over_segments() {
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm", none)) {
    std::string name = file.path().filename();
    if (name.rfind(kPrefix, 0) == 0 && is_left_over(name.c_str()))
      ipc::shared_memory_object::remove(name.c_str());
  }
}

Segment::Segment(int rank, int ranks, ipc::shared_memory_object object, ipc::mapped_region region)
    : rank(rank),
      ranks(ranks),
      object_(std::move(object)),
      region_(std::move(region)),
      reserved_(static_cast<size_t>(ranks)) {}

Segment::~Segment() { leave(kFinished); }

std::byte* Segment::beginning() { return static_cast<std::byte*>(region_.get_address()); }

RankPart& Segment::part(int of) { return reinterpret_cast<RankPart*>(beginning() + sizeof(Header))[of]; }

Pair& Segment::pair(int from, int to) {
  return reinterpret_cast<Pair*>(beginning() + pairs_at(ranks))[from * ranks + to];
}

std::byte* Segment::slot(int of, uint64_t chunk) {
  return beginning() + slots_at(ranks) + kChunk * (static_cast<uint64_t>(of) * kSlots + chunk % kSlots);
}

std::byte* Segment::pair_slot(int from, int to, uint64_t chunk) {
  return beginning() + pair_slots_at(ranks) +
         kPairChunk * (static_cast<uint64_t>(from * ranks + to) * kSlots + chunk % kSlots);
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
    uint64_t process = presence.process.load();
    if (state != kFinished && process && pid_of(process) != getpid() && !is_alive(presence)) return other;
  }
  return -1;
}

void Segment::leave(State how) {
  if (!is_there_) return;
  uint32_t present = kPresent;
  if (!part(rank).presence.state.compare_exchange_strong(present, how)) return;
  ring_all();
}

bool Segment::reserve_pair(int to) {
  auto other = static_cast<size_t>(to);
  if (!reserved_[other])
    reserved_[other] =
        reserve(object_, static_cast<size_t>(pair_slot(rank, to, 0) - beginning()), kPairChunk * kSlots);
  return reserved_[other];
}

// Keeps only the small part that late ranks and remove_left_over_segments() read.
void Segment::release_slots() {
  fallocate(object_.get_mapping_handle().handle, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(slots_at(ranks)), static_cast<off_t>(size_for(ranks) - slots_at(ranks)));
}

// Waits until all ranks are attached. Returns an empty text, or the reason why that will never happen.
std::string Segment::wait_for_all(const std::function<bool()>& given_up) {
  Header& header = header_of(region_);
  for (bool is_time_to_look = true;;) {
    uint32_t heard = part(rank).doorbell.load();
    if (header.attached.load() == static_cast<uint32_t>(ranks)) return {};
    if (header.failed.load()) return "another rank failed to join";
    if (given_up()) return formatted("aborted before all {} ranks were there", ranks);
    if (int gone = is_time_to_look ? lost() : -1; gone >= 0)
      return formatted("rank {} went away before all {} ranks were there", gone, ranks);
    is_time_to_look = !wait(heard);
  }
}

Result<std::unique_ptr<Segment>> Segment::join(const std::string& token, int rank, int ranks, int device,
                                               const std::function<bool()>& given_up) {
  static std::once_flag once;
  std::call_once(once, remove_left_over_segments);
  std::string name = kPrefix + token;
  ipc::shared_memory_object object;
  ipc::mapped_region region;
  auto no_memory = [&](const char* why) {
    return Error{"no memory shared by the ranks of a communicator (/dev/shm/{}): {}", name, why};
  };
  try {
    object =
        ipc::shared_memory_object(ipc::open_or_create, name.c_str(), ipc::read_write, ipc::permissions(0600));
    // New memory is zero. The file only grows: a rank that expects another number of ranks must not remove
    // memory that others have mapped.
    if (!reserve(object, 0, sizeof(Header))) return no_memory("no space left");
    region = ipc::mapped_region(object, ipc::read_write, 0, sizeof(Header));
    uint32_t nobody = 0;
    Header& header = header_of(region);
    if (!header.ranks.compare_exchange_strong(nobody, static_cast<uint32_t>(ranks)) &&
        nobody != static_cast<uint32_t>(ranks)) {
      header.failed.store(1);
      return Error{"rank {} says that the communicator has {} ranks, another says {}", rank, ranks, nobody};
    }
    if (header.failed.load()) return Error{"rank {}: another rank failed to join", rank};
    if (!reserve(object, 0, slots_at(ranks)) ||
        !reserve(object, slots_at(ranks) + kChunk * kSlots * static_cast<size_t>(rank), kChunk * kSlots) ||
        !reserve(object, size_for(ranks) - 1, 1)) {
      header.failed.store(1);
      return no_memory("no space left");
    }
    region = ipc::mapped_region(object, ipc::read_write, 0, size_for(ranks));
  } catch (const ipc::interprocess_exception& error) {
    return no_memory(error.what());
  }
  std::unique_ptr<Segment> segment(new Segment(rank, ranks, std::move(object), std::move(region)));
  Header& header = header_of(segment->region_);
  Presence& own = segment->part(rank).presence;
  uint64_t nobody = 0;
  std::string trouble;
  if (!own.process.compare_exchange_strong(nobody, process_of(getpid()))) {
    trouble = formatted("rank {} is there twice", rank);
  } else {
    segment->is_there_ = true;
    own.device.store(static_cast<uint32_t>(device));
    own.state.store(kPresent);
    header.attached.fetch_add(1);
    segment->ring_all();
    trouble = segment->wait_for_all(given_up);
  }
  if (trouble.empty()) {
    ipc::shared_memory_object::remove(name.c_str());  // succeeds for one of the ranks
    return segment;
  }
  header.failed.store(1);
  segment->ring_all();
  segment->leave(kAborted);
  segment->release_slots();
  return Error{trouble};
}

Status Segment::exchange(const void* say, size_t size, void* into, const std::function<bool()>& given_up) {
  RankPart& own = part(rank);
  uint64_t number = own.said.load();
  memcpy(own.words[number & 1], say, size);
  own.said.store(number + 1);
  ring_all();
  for (int other = 0; other < ranks; other++) {
    for (;;) {
      uint32_t heard = own.doorbell.load();
      if (part(other).said.load() > number) break;
      if (part(other).presence.state.load() != kPresent) return Error{"rank {} has left", other};
      if (given_up()) return Error{"aborted"};
      if (wait(heard)) continue;
      int gone = lost();
      if (gone >= 0) return Error{"rank {} is gone", gone};
    }
    memcpy(static_cast<std::byte*>(into) + other * size, part(other).words[number & 1], size);
  }
  return {};
}

}  // namespace cropdl::nccl

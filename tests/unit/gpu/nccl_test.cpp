// links: gpu_nccl_transfers cropdl_base
// NCCL's transfers over shared memory, with threads and processes as ranks and no device: what each
// collective computes, that nobody ends one that others have not begun, that ranks that mean different things
// find out, and that a killed peer is noticed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/interprocess/mapped_region.hpp>
#include <boost/interprocess/shared_memory_object.hpp>
#include <cmath>
#include <functional>
#include <random>
#include <thread>

#include "base/random.h"
#include "gpu_state/software/arithmetic/small_floats.h"
#include "gpu_state/software/nccl/rounds.h"
#include "gpu_state/software/nccl/tasks.h"

namespace cropdl::nccl {
namespace ipc = boost::interprocess;
using arithmetic::Brain;
using arithmetic::Float8E4M3;
using arithmetic::Float8E5M2;
using arithmetic::Half;

namespace {

// A child that goes with its parent, however that ends.
pid_t forked() {
  pid_t child = fork();
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child;
}

class Ranks {
 public:
  explicit Ranks(int count) : token(random_hex(16)), count(count) {}
  // Runs the function once per rank, each in a thread with its segment.
  void each(const std::function<void(Segment&, int rank)>& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count; rank++)
      threads.emplace_back([&, rank] {
        struct EndsTheOthers {  // they would wait for a rank that has failed
          std::atomic<bool>* aborted;
          ~EndsTheOthers() {
            if (testing::Test::HasFatalFailure()) *aborted = true;
          }
        } ends{&aborted};
        auto segment = Segment::join(token, rank, count, 0, given_up);
        ASSERT_TRUE(static_cast<bool>(segment)) << segment.error().message;
        work(**segment, rank);
      });
    for (std::thread& thread : threads) thread.join();
  }
  std::string token;
  int count;
  std::atomic<bool> aborted{false};
  std::function<bool()> given_up = [this] { return aborted.load(); };
  std::atomic<int> asynchronous_error{0};
};

Call call(Kind kind, const void* send, void* receive, size_t count, ncclRedOp_t operation = ncclSum,
          int root = 0) {
  Call made{kind, send, receive, count, ncclFloat32, operation, {}, nullptr, root};
  made.reduction.kind = operation;
  return made;
}

// Sums of these round.
float value(int rank, size_t i) {
  return static_cast<float>((i * 2654435761u + static_cast<size_t>(rank) * 40503u) & 0xffffff) * 0x1.1p-20f;
}

TEST(NcclTransfers, EveryCollectiveOfSeveralChunks) {
  constexpr size_t kCount = 150'001;  // more than two chunks of 64 Ki floats
  for (int ranks : {1, 2, 3, 4}) {
    Ranks all(ranks);
    all.each([&](Segment& segment, int rank) {
      std::string wrong;
      Watch watch{&all.aborted, &all.asynchronous_error};
      size_t n = static_cast<size_t>(ranks), me = static_cast<size_t>(rank);
      std::vector<float> send(kCount * n), received(kCount * n), one(kCount);
      for (size_t i = 0; i < send.size(); i++) send[i] = value(rank, i);
      int root = ranks - 1;
      std::vector<Call> calls = {call(Kind::kAllReduce, send.data(), one.data(), kCount)};
      ASSERT_TRUE(run(calls, segment, watch, &wrong));
      for (size_t i = 0; i < kCount; i++) {
        float sum = value(0, i);
        for (int other = 1; other < ranks; other++) sum += value(other, i);  // in the order of the ranks
        ASSERT_EQ(one[i], sum) << i;
      }
      ASSERT_TRUE(run({call(Kind::kReduceScatter, send.data(), one.data(), kCount, ncclMax)}, segment, watch,
                      &wrong));
      for (size_t i = 0; i < kCount; i++) {
        float most = value(0, me * kCount + i);
        for (int other = 1; other < ranks; other++) most = std::fmax(most, value(other, me * kCount + i));
        ASSERT_EQ(one[i], most) << i;
      }
      ASSERT_TRUE(
          run({call(Kind::kAllGather, send.data(), received.data(), kCount)}, segment, watch, &wrong));
      for (size_t i = 0; i < received.size(); i++)
        ASSERT_EQ(received[i], value(static_cast<int>(i / kCount), i % kCount));
      ASSERT_TRUE(run({call(Kind::kAllToAll, send.data(), received.data(), kCount)}, segment, watch, &wrong));
      for (size_t i = 0; i < received.size(); i++)
        ASSERT_EQ(received[i], value(static_cast<int>(i / kCount), me * kCount + i % kCount));
      std::vector<float> copy(send.begin(), send.begin() + kCount);
      ASSERT_TRUE(run({call(Kind::kBroadcast, copy.data(), copy.data(), kCount, ncclSum, root)}, segment,
                      watch, &wrong));
      for (size_t i = 0; i < kCount; i++) ASSERT_EQ(copy[i], value(root, i));
      ASSERT_TRUE(run({call(Kind::kScatter, send.data(), one.data(), kCount, ncclSum, root)}, segment, watch,
                      &wrong));
      for (size_t i = 0; i < kCount; i++) ASSERT_EQ(one[i], value(root, me * kCount + i));
      std::fill(received.begin(), received.end(), 0.0f);
      ASSERT_TRUE(run({call(Kind::kGather, send.data(), received.data(), kCount, ncclSum, root)}, segment,
                      watch, &wrong));
      for (size_t i = 0; rank == root && i < received.size(); i++)
        ASSERT_EQ(received[i], value(static_cast<int>(i / kCount), i % kCount));
      // In place, and nothing at all.
      ASSERT_TRUE(run({call(Kind::kReduce, send.data(), send.data(), kCount, ncclProd, root),
                       call(Kind::kAllReduce, nullptr, nullptr, 0)},
                      segment, watch, &wrong));
      for (size_t i = 0; rank == root && i < kCount; i++) {
        float product = value(0, i);
        for (int other = 1; other < ranks; other++) product *= value(other, i);
        ASSERT_EQ(send[i], product);
      }
      ASSERT_EQ(wrong, "");
    });
  }
}

TEST(NcclTransfers, MessagesInGroupsCrossAndKeepTheirOrder) {
  Ranks all(3);
  all.each([&](Segment& segment, int rank) {
    std::string wrong;
    constexpr size_t kCount = 70'000;
    std::vector<std::vector<float>> sent, received;
    std::vector<Call> calls;
    for (int round = 0; round < 2; round++)
      for (int peer = 0; peer < 3; peer++) {
        sent.emplace_back(kCount + static_cast<size_t>(round));
        received.emplace_back(kCount + static_cast<size_t>(round));
        for (size_t i = 0; i < sent.back().size(); i++)
          sent.back()[i] = value(rank * 10 + peer + 100 * round, i);
        calls.push_back(call(Kind::kSend, sent.back().data(), nullptr, sent.back().size(), ncclSum, peer));
        calls.push_back(
            call(Kind::kReceive, nullptr, received.back().data(), received.back().size(), ncclSum, peer));
      }
    ASSERT_TRUE(run(calls, segment, {&all.aborted, &all.asynchronous_error}, &wrong));
    ASSERT_EQ(wrong, "");
    for (int round = 0; round < 2; round++)
      for (int peer = 0; peer < 3; peer++) {
        const auto& got = received[static_cast<size_t>(round * 3 + peer)];
        for (size_t i = 0; i < got.size(); i++) ASSERT_EQ(got[i], value(peer * 10 + rank + 100 * round, i));
      }
  });
}

// As a stream of a real device and its communicator's thread do them. Returns the number of rounds.
size_t run_in_rounds(const std::vector<Call>& calls, Segment& segment, const Watch& watch,
                     std::string* wrong) {
  const auto rounds = rounds_of(calls, segment.rank, segment.ranks);
  for (const Round& round : rounds) {
    std::vector<std::byte> memory(round.bytes);
    for (const StagedCopy& copy : round.in) memcpy(&memory.at(copy.at), copy.address, copy.bytes);
    std::vector<Call> staged;
    for (const StagedCall& one : round.calls) {
      staged.push_back(one.call);
      staged.back().send = memory.data() + one.send;
      staged.back().receive = memory.data() + one.receive;
      if (one.call.device_scalar)
        memcpy(staged.back().reduction.scalar, &memory.at(one.scalar), size_of(one.call.datatype));
    }
    EXPECT_TRUE(run(staged, segment, watch, wrong));
    for (const StagedCopy& copy : round.out)
      memcpy(const_cast<void*>(copy.address), &memory.at(copy.at), copy.bytes);
  }
  return rounds.size();
}

TEST(NcclTransfers, CallsInRoundsComputeTheSame) {
  constexpr size_t kCount = kStaging / sizeof(float) + 4321;
  for (int ranks : {1, 3}) {
    Ranks all(ranks);
    all.each([&](Segment& segment, int rank) {
      std::string wrong;
      Watch watch{&all.aborted, &all.asynchronous_error};
      const size_t n = static_cast<size_t>(ranks);
      std::vector<float> send(kCount * n), whole(kCount * n), cut(kCount * n);
      for (size_t i = 0; i < send.size(); i++) send[i] = value(rank, i);
      float scalar = static_cast<float>(rank + 2);
      for (Kind kind : {Kind::kAllReduce, Kind::kReduce, Kind::kBroadcast, Kind::kAllGather,
                        Kind::kReduceScatter, Kind::kAllToAll, Kind::kGather, Kind::kScatter}) {
        Call one = call(kind, send.data(), whole.data(), kCount, ncclSum, ranks - 1);
        one.reduction.scaled = kind == Kind::kReduceScatter;
        memcpy(one.reduction.scalar, &scalar, sizeof scalar);
        ASSERT_TRUE(run({one}, segment, watch, &wrong));
        one.receive = cut.data();
        one.reduction = {one.reduction.kind, one.reduction.scaled, {}, 0};
        if (one.reduction.scaled) one.device_scalar = &scalar;
        EXPECT_GT(run_in_rounds({one}, segment, watch, &wrong), 1u);
        EXPECT_EQ(wrong, "");
        ASSERT_EQ(memcmp(whole.data(), cut.data(), cut.size() * sizeof(float)), 0) << name_of(kind);
      }
      std::vector<float> sum(kCount), small(10, 1.0f);  // in place, and beside an empty and a small call
      ASSERT_TRUE(run({call(Kind::kAllReduce, send.data(), sum.data(), kCount)}, segment, watch, &wrong));
      run_in_rounds({call(Kind::kAllReduce, nullptr, nullptr, 0),
                     call(Kind::kAllReduce, send.data(), send.data(), kCount),
                     call(Kind::kAllReduce, small.data(), small.data(), small.size())},
                    segment, watch, &wrong);
      EXPECT_EQ(wrong, "");
      EXPECT_EQ(memcmp(send.data(), sum.data(), sum.size() * sizeof(float)), 0);
      EXPECT_EQ(small, std::vector<float>(10, static_cast<float>(ranks)));
    });
  }
}

// One rank's messages are a group, the others' are calls by themselves: the group must not be cut.
TEST(NcclTransfers, MessagesInRoundsFitThoseOfAGroup) {
  Ranks all(3);
  constexpr size_t kCount = kStaging / sizeof(float) + 17;
  all.each([&](Segment& segment, int rank) {
    std::string wrong;
    Watch watch{&all.aborted, &all.asynchronous_error};
    std::vector<float> mine(kCount), got(kCount);
    for (size_t i = 0; i < kCount; i++) mine[i] = value(rank, i);
    const Call send = call(Kind::kSend, mine.data(), nullptr, kCount, ncclSum, (rank + 1) % 3),
               receive = call(Kind::kReceive, nullptr, got.data(), kCount, ncclSum, (rank + 2) % 3);
    if (rank == 0) {  // rank 1 sends only when it has received all, and so does rank 2
      EXPECT_EQ(run_in_rounds({send, receive}, segment, watch, &wrong), 1u);
    } else {
      EXPECT_GT(run_in_rounds({receive}, segment, watch, &wrong), 1u);
      EXPECT_GT(run_in_rounds({send}, segment, watch, &wrong), 1u);
    }
    EXPECT_EQ(wrong, "");
    for (size_t i = 0; i < kCount; i++) ASSERT_EQ(got[i], value((rank + 2) % 3, i)) << i;
  });
}

TEST(NcclTransfers, NoRankCompletesACollectiveThatOthersHaveNotCalled) {
  Ranks all(2);
  std::atomic<bool> begun{false};
  all.each([&](Segment& segment, int rank) {
    std::string wrong;
    float buffer = 1;
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      begun = true;
    }
    // The root of a broadcast has nothing to wait for but this.
    ASSERT_TRUE(run({call(Kind::kBroadcast, &buffer, &buffer, 1)}, segment,
                    {&all.aborted, &all.asynchronous_error}, &wrong));
    EXPECT_TRUE(begun);
  });
}

// Each rank multiplies what it gives with its own scalar, and has its own number for the operation.
TEST(NcclTransfers, UserDefinedOperationsScaleLocally) {
  Ranks all(2);
  all.each([&](Segment& segment, int rank) {
    std::string wrong;
    float send[2] = {1, 2}, sums[2], own[1], scalar = rank == 0 ? 1.0f : 3.0f;
    Call reduce = call(Kind::kAllReduce, send, sums, 2), scatter = call(Kind::kReduceScatter, send, own, 1);
    for (Call* each : {&reduce, &scatter}) {
      each->operation = static_cast<ncclRedOp_t>(ncclNumOps + rank);
      each->reduction.scaled = true;
      memcpy(each->reduction.scalar, &scalar, sizeof scalar);
    }
    ASSERT_TRUE(run({reduce, scatter}, segment, {&all.aborted, &all.asynchronous_error}, &wrong));
    ASSERT_EQ(wrong, "");
    EXPECT_EQ(sums[0], 4);
    EXPECT_EQ(sums[1], 8);
    EXPECT_EQ(own[0], rank == 0 ? 4 : 8);
  });
}

TEST(NcclTransfers, RanksThatMeanDifferentThingsFindOut) {
  Ranks all(2);
  all.each([&](Segment& segment, int rank) {
    std::string wrong;
    float buffer[2] = {};
    std::vector<Call> calls = {call(Kind::kAllReduce, buffer, buffer, rank == 0 ? 1 : 2)};
    ASSERT_TRUE(run(calls, segment, {&all.aborted, &all.asynchronous_error}, &wrong));
    EXPECT_NE(wrong.find("1 elements"), wrong.npos) << wrong;
    EXPECT_NE(wrong.find("2 elements"), wrong.npos) << wrong;
  });
}

TEST(NcclTransfers, AKilledPeerIsNoticedAndAbortEndsTheWait) {
  std::string token = random_hex(16);
  std::atomic<bool> aborted{false};
  auto given_up = [&] { return aborted.load(); };
  pid_t child = forked();
  if (child == 0) {
    auto segment = Segment::join(token, 1, 2, 0, given_up);
    pause();
    _exit(0);
  }
  auto segment = Segment::join(token, 0, 2, 0, given_up);
  ASSERT_TRUE(static_cast<bool>(segment)) << segment.error().message;
  std::atomic<int> error{0};
  std::thread waiting([&] {
    std::string wrong;
    float buffer = 1;
    EXPECT_FALSE(run({call(Kind::kAllReduce, &buffer, &buffer, 1)}, **segment, {&aborted, &error}, &wrong));
  });
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  while (error.load() != ncclRemoteError) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  aborted = true;
  waiting.join();
}

// The beginning of a segment whose ranks are not all there yet, as a third party sees it.
const Header& beginning_of(const std::string& token, ipc::mapped_region* kept) {
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) try {
      ipc::shared_memory_object object(ipc::open_only, ("cropdl-software-nccl-" + token).c_str(),
                                       ipc::read_only);
      ipc::offset_t size = 0;
      if (!object.get_size(size) || size < static_cast<ipc::offset_t>(sizeof(Header))) continue;
      *kept = ipc::mapped_region(object, ipc::read_only, 0, sizeof(Header));
      return *static_cast<const Header*>(kept->get_address());
    } catch (const ipc::interprocess_exception&) {  // not there yet
    }
}

TEST(NcclTransfers, APeerThatDiesBeforeAllAreThereEndsTheStart) {
  std::string token = random_hex(16);
  std::atomic<bool> aborted{false};
  auto given_up = [&] { return aborted.load(); };
  pid_t child = forked();
  if (child == 0) {
    auto segment = Segment::join(token, 1, 3, 0, given_up);
    _exit(0);
  }
  std::thread killer([&] {
    ipc::mapped_region region;
    const Header& header = beginning_of(token, &region);
    while (header.attached.load() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  });
  auto segment = Segment::join(token, 0, 3, 0, given_up);
  EXPECT_FALSE(static_cast<bool>(segment));
  killer.join();
  // Whoever comes late learns of it, instead of waiting for the others for ever.
  EXPECT_FALSE(static_cast<bool>(Segment::join(token, 2, 3, 0, given_up)));
  ipc::shared_memory_object::remove(("cropdl-software-nccl-" + token).c_str());
}

// Killed after it has claimed its rank, before it says that it is there.
TEST(NcclTransfers, APeerThatDiesWhileAttachingEndsTheStart) {
  std::string token = random_hex(16), name = "cropdl-software-nccl-" + token;
  pid_t child = forked();
  if (child == 0) {
    pause();
    _exit(0);
  }
  uint64_t process = process_of(child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  std::thread claims([&] {
    ipc::mapped_region kept;
    while (beginning_of(token, &kept).attached.load() < 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ipc::shared_memory_object object(ipc::open_only, name.c_str(), ipc::read_write);
    ipc::mapped_region region(object, ipc::read_write, 0, sizeof(Header) + 2 * sizeof(RankPart));
    reinterpret_cast<RankPart*>(static_cast<Header*>(region.get_address()) + 1)[1].presence.process = process;
  });
  EXPECT_FALSE(static_cast<bool>(Segment::join(token, 0, 2, 0, [] { return false; })));
  claims.join();
  ipc::shared_memory_object::remove(name.c_str());
}

TEST(NcclTransfers, RanksThatMeanDifferentNumbersOfThemAllEnd) {
  std::string token = random_hex(16);
  std::thread first(
      [&] { EXPECT_FALSE(static_cast<bool>(Segment::join(token, 0, 4, 0, [] { return false; }))); });
  ipc::mapped_region region;
  while (beginning_of(token, &region).attached.load() < 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  auto second = Segment::join(token, 1, 2, 0, [] { return false; });
  ASSERT_FALSE(static_cast<bool>(second));
  EXPECT_NE(second.error().message.find("another says 4"), std::string::npos) << second.error().message;
  first.join();
  ipc::shared_memory_object::remove(("cropdl-software-nccl-" + token).c_str());
}

TEST(NcclTransfers, OnlyOldSegmentsWithoutLivingRanksAreRemoved) {
  auto start = [](const std::string& token) {  // a rank that waits for another
    pid_t child = forked();
    if (child == 0) {
      auto segment = Segment::join(token, 0, 2, 0, [] { return false; });
      _exit(0);
    }
    ipc::mapped_region region;
    while (beginning_of(token, &region).attached.load() < 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return child;
  };
  auto end = [](pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  };
  auto file = [](const std::string& token) { return "/dev/shm/cropdl-software-nccl-" + token; };
  auto is_there = [&](const std::string& token) { return access(file(token).c_str(), F_OK) == 0; };
  auto make_old = [&](const std::string& token) {
    timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, file(token).c_str(), times, 0), 0);
  };
  std::string old_and_dead = random_hex(16), dead = random_hex(16), old = random_hex(16);
  end(start(old_and_dead));
  end(start(dead));
  pid_t living = start(old);
  make_old(old_and_dead);
  make_old(old);
  remove_left_over_segments();
  EXPECT_FALSE(is_there(old_and_dead));
  EXPECT_TRUE(is_there(dead));
  EXPECT_TRUE(is_there(old));
  end(living);
  for (const std::string& token : {dead, old})
    ipc::shared_memory_object::remove(("cropdl-software-nccl-" + token).c_str());
}

template <class Format>
void round_trip(uint32_t all) {
  for (uint32_t bits = 0; bits < all; bits++) {
    auto stored = static_cast<typename Format::Bits>(bits);
    double value = Format::decode(stored);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(Format::decode(Format::encode(value))));
    else
      ASSERT_EQ(Format::encode(value), stored) << bits;
  }
}

TEST(NcclReductions, SmallFloatsRoundTripAndRoundToEven) {
  round_trip<Half>(1 << 16);
  round_trip<Brain>(1 << 16);
  round_trip<Float8E4M3>(1 << 8);
  round_trip<Float8E5M2>(1 << 8);
  EXPECT_EQ(Half::encode(1 + 0x1p-11), 0x3c00);
  EXPECT_EQ(Half::encode(1 + 0x3p-11), 0x3c02);
  EXPECT_EQ(Half::encode(65520.0), 0x7c00);
  EXPECT_EQ(Half::encode(65519.0), 0x7bff);
  EXPECT_EQ(Half::encode(0x1p-25), 0);
  EXPECT_EQ(Half::encode(0x1.8p-25), 1);
  EXPECT_EQ(Float8E4M3::decode(0x7e), 448.0);
}

// As NVIDIA's expressions give them on a device: to half, then to the format, with its largest for what is
// beyond.
TEST(NcclReductions, EightBitsSaturate) {
  auto of = [](auto format, ncclRedOp_t kind, ncclDataType_t type, double x, double y) {
    using Format = decltype(format);
    const uint8_t a = Format::encode(x), b = Format::encode(y);
    const void* both[] = {&a, &b};
    uint8_t to;
    Reduction how;
    how.kind = kind;
    reduce(how, type, both, 2, &to, 1);
    return Format::decode(to);
  };
  EXPECT_EQ(of(Float8E4M3(), ncclSum, ncclFloat8e4m3, 288, 288), 448);
  EXPECT_EQ(of(Float8E4M3(), ncclSum, ncclFloat8e4m3, -288, -288), -448);
  EXPECT_EQ(of(Float8E4M3(), ncclProd, ncclFloat8e4m3, 448, 448), 448);  // beyond half's range, too
  EXPECT_EQ(of(Float8E4M3(), ncclSum, ncclFloat8e4m3, 1, 0.0625), 1);
  EXPECT_EQ(of(Float8E5M2(), ncclProd, ncclFloat8e5m2, 32768, -32768), -57344);
  EXPECT_EQ(of(Float8E5M2(), ncclSum, ncclFloat8e5m2, HUGE_VAL, 1), 57344);
  EXPECT_TRUE(std::isnan(of(Float8E5M2(), ncclSum, ncclFloat8e5m2, NAN, 1)));
}

TEST(NcclReductions, AveragesAndUserDefinedOperations) {
  int32_t a[] = {7, -7}, b[] = {2, -2}, to[2];
  const void* both[] = {a, b};
  Reduction average;
  average.kind = ncclAvg;
  average.average_of = 2;
  reduce(average, ncclInt32, both, 2, to, 2);
  EXPECT_EQ(to[0], 4);
  EXPECT_EQ(to[1], -4);
  float x[] = {3, 5}, scaled[2], factor = 0.5f;
  Reduction scaling;
  scaling.scaled = true;
  memcpy(scaling.scalar, &factor, sizeof factor);
  give(scaling, ncclFloat32, x, scaled, 2);
  EXPECT_EQ(scaled[0], 1.5f);
  EXPECT_EQ(scaled[1], 2.5f);
  give(average, ncclFloat32, x, scaled, 2);  // floating point values are divided first
  EXPECT_EQ(scaled[1], 2.5f);
}

}  // namespace
}  // namespace cropdl::nccl

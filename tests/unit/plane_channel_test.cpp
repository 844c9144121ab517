// links: cropdl_coord
// The control plane's data: frames, messages, the job file. Data from a stranger or a torn write are refused.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/fields.h"
#include "base/random.h"
#include "base/time.h"
#include "coord/channel.h"
#include "coord/job_file.h"
#include "coord/wire.h"
#include "tests/unit/coord_fakes.h"

namespace cropdl::coord {
namespace {

std::vector<Message> one_of_each() {
  RankStatus s{{{1, 2}, {~0ull, 4}}, {1, 5}, {{2, 1}}, {{5, 2}}, 3, "why", false, {7, 50'000, {{1, 4, 2}}}};
  Outcome o;
  o.published = true;
  o.version = 9;
  o.line = "line";
  ImageSummary image;
  image.file = "rank-0.img";
  image.bytes = 77;
  StatusIs status;
  status.phase = "writing";
  return {Hello{kWireVersion, "token", "run", 3},
          Welcome{},
          Rejected{"no"},
          Bye{true},
          ExchangeMine{1, "text"},
          ExchangeAll{1, {"a", "", "c"}, ""},
          AskCheckpoint{true},
          AskStatus{},
          Accepted{},
          Waiting{"waiting for 2 s: rank 1"},
          Done{o},
          status,
          Terminated{},
          Die{},
          Order{Hold{1}},
          Order{Targets{1, 2, {{3, 4}}}},
          Order{Stop{1}},
          Order{Drain{1, 2, {{3, 4}}}},
          Order{Write{1, "/dir"}},
          Order{Resume{1}},
          Order{End{1, 75}},
          Report{StatusReport{1, 2, 3, s}},
          Report{Sent{1, true, false, 4, {{2, 3}}}},
          Report{Drained{1, 2}},
          Report{Written{1, image}},
          Report{Refused{1, "r"}},
          Report{Failed{1, "f"}},
          Occupied{}};
}

// One member of every type, in a message that does not exist, and the maximum sizes.
TEST(PlaneWire, MembersAreCountedFromTheStructsThemselves) {
  EXPECT_EQ(fields::count<Welcome>(), 0u);
  EXPECT_EQ(fields::count<Hold>(), 1u);
  EXPECT_EQ(fields::count<Rejected>(), 1u);
  EXPECT_EQ(fields::count<Done>(), 1u);
  EXPECT_EQ(fields::count<Targets>(), 3u);
  EXPECT_EQ(fields::count<Sent>(), 5u);
  EXPECT_EQ(fields::count<StatusReport>(), 4u);
  EXPECT_EQ(fields::count<Hello>(), 4u);
  EXPECT_EQ(fields::count<ImageSummary>(), 8u);
  EXPECT_EQ(fields::count<RankStatus>(), 8u);
  EXPECT_EQ(fields::count<Outcome>(), 8u);
}

TEST(PlaneWire, EachMembersValueArrives) {
  Outcome o{true, 9, 10, 0.5, 0.75, 3, true, "line"};
  const auto back = message_from_bytes(message_bytes(Done{o}));
  ASSERT_TRUE(back);
  const Outcome& got = std::get<Done>(*back).outcome;
  EXPECT_TRUE(got.published && got.too_early);
  EXPECT_EQ(got.version, 9u);
  EXPECT_EQ(got.bytes, 10u);
  EXPECT_EQ(got.stall_seconds, 0.5);
  EXPECT_EQ(got.held_seconds, 0.75);
  EXPECT_EQ(got.attempts, 3u);
  EXPECT_EQ(got.line, "line");
  const ImageSummary image{"rank-0.img", 1, 2, 3, 4, "a device", 5, 0.25};
  const auto written = message_from_bytes(message_bytes(Report{Written{7, image}}));
  ASSERT_TRUE(written);
  const Written& w = std::get<Written>(std::get<Report>(*written));
  EXPECT_EQ(w.attempt, 7u);
  EXPECT_EQ(w.image.file, "rank-0.img");
  EXPECT_EQ(w.image.bytes, 1u);
  EXPECT_EQ(w.image.memory, 2u);
  EXPECT_EQ(w.image.checksum, 3u);
  EXPECT_EQ(w.image.device_memory, 4u);
  EXPECT_EQ(w.image.devices, "a device");
  EXPECT_EQ(w.image.iteration, 5u);
  EXPECT_EQ(w.image.sync_seconds, 0.25);
  const StatusIs status{"idle", 4, 3, 2, "why", 5, 6};
  const auto told = message_from_bytes(message_bytes(status));
  ASSERT_TRUE(told);
  EXPECT_EQ(std::get<StatusIs>(*told).joined, 3u);
  EXPECT_EQ(std::get<StatusIs>(*told).last_version, 2u);
  EXPECT_EQ(std::get<StatusIs>(*told).last_line, "why");
  EXPECT_EQ(std::get<StatusIs>(*told).iteration, 5u);
  EXPECT_EQ(std::get<StatusIs>(*told).iteration_us, 6u);
}

TEST(PlaneWire, EveryMessageComesBackAsItWas) {
  for (const Message& m : one_of_each()) {
    const std::string bytes = message_bytes(m);
    const std::optional<Message> back = message_from_bytes(bytes);
    ASSERT_TRUE(back.has_value()) << m.index();
    EXPECT_EQ(back->index(), m.index());
    EXPECT_EQ(message_bytes(*back), bytes);
  }
  const auto back = message_from_bytes(message_bytes(Order{Targets{1, 2, {{3, ~0ull}}}}));
  EXPECT_EQ(std::get<Targets>(std::get<Order>(*back)).targets, (std::vector<CollectiveCount>{{3, ~0ull}}));
}

TEST(PlaneWire, DamagedMessagesAreNoMessages) {
  EXPECT_FALSE(message_from_bytes("").has_value());
  EXPECT_FALSE(message_from_bytes("\xff").has_value());
  for (const Message& m : one_of_each()) {
    const std::string bytes = message_bytes(m);
    for (size_t n = 0; n < bytes.size(); ++n)
      EXPECT_FALSE(message_from_bytes(bytes.substr(0, n)).has_value());
    EXPECT_FALSE(message_from_bytes(bytes + "x").has_value());
    for (size_t i = 0; i < bytes.size(); ++i) {  // whatever the result, no crash and no huge allocation
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(~damaged[i]);
      (void)message_from_bytes(damaged);
    }
  }
}

// Both ends of a stream.
std::pair<std::unique_ptr<Stream>, std::unique_ptr<Stream>> both_ends() {
  auto listener = Listener::open();
  EXPECT_TRUE(listener) << listener.error().message;
  bool no_room = true;
  EXPECT_EQ(listener->accept(&no_room), nullptr);
  EXPECT_FALSE(no_room);
  bool refused = true;
  auto left = connect_to(listener->address(), &refused);
  EXPECT_TRUE(left) << left.error().message;
  EXPECT_FALSE(refused);
  auto right = listener->accept(&no_room);
  EXPECT_NE(right, nullptr);
  return {std::move(*left), std::move(right)};
}

TEST(PlaneChannel, FramesArriveWholeInOrderThroughASmallBuffer) {
  auto [a, b] = both_ends();
  Channel left(std::move(a)), right(std::move(b));
  const std::string large(3 << 20, 'x');  // larger than any socket buffer
  EXPECT_TRUE(left.send("one"));
  EXPECT_TRUE(left.send(large));
  EXPECT_TRUE(left.send(""));
  EXPECT_TRUE(left.wants_write());
  std::vector<std::string> got;
  while (got.size() < 3) {
    ASSERT_TRUE(right.receive(&got));
    ASSERT_TRUE(left.flush());
  }
  EXPECT_EQ(got, (std::vector<std::string>{"one", large, ""}));
}

// Transfers one byte at a time, with interruptions in between.
class Trickle final : public Stream {
 public:
  explicit Trickle(std::string* pipe) : pipe_(pipe) {}
  int fd() const override { return -1; }
  ssize_t write(const char* from, size_t) override {
    if (interrupt()) return -1;
    pipe_->push_back(*from);
    return 1;
  }
  ssize_t read(char* to, size_t) override {
    if (interrupt()) return -1;
    if (pipe_->empty()) {
      errno = EAGAIN;
      return -1;
    }
    *to = pipe_->front();
    pipe_->erase(0, 1);
    return 1;
  }
  ucred peer() const override { return {}; }
  Descriptor watch() const override { return {}; }
  bool peer_is_stopped() const override { return false; }

 private:
  bool interrupt() {
    errno = EINTR;
    return ++calls_ % 3 == 0;
  }
  std::string* pipe_;
  int calls_ = 0;
};

TEST(PlaneChannel, AnyOtherTransportDoes) {
  std::string pipe;
  Channel left(std::make_unique<Trickle>(&pipe)), right(std::make_unique<Trickle>(&pipe));
  EXPECT_TRUE(left.send("one"));
  EXPECT_TRUE(left.send(""));
  EXPECT_TRUE(left.send("three"));
  std::vector<std::string> got;
  EXPECT_TRUE(right.receive(&got));
  EXPECT_EQ(got, (std::vector<std::string>{"one", "", "three"}));
}

TEST(PlaneChannel, AClosedEndIsNoticedAfterItsLastMessageAndRaisesNoSignal) {
  auto [a, b] = both_ends();
  Channel right(std::move(b));
  {
    Channel left(std::move(a));
    EXPECT_TRUE(left.send("last"));
  }
  std::vector<std::string> got;
  EXPECT_FALSE(right.receive(&got));
  EXPECT_EQ(got, std::vector<std::string>{"last"});
  EXPECT_FALSE(right.send("into the void"));
}

TEST(PlaneChannel, AnAbsurdLengthIsRefused) {
  auto [a, b] = both_ends();
  Channel right(std::move(b));
  ASSERT_EQ(a->write("\xff\xff\xff\xff", 4), 4);
  std::vector<std::string> got;
  EXPECT_FALSE(right.receive(&got));
}

TEST(PlaneChannel, WhatTheReceiverWouldRefuseIsNotSent) {
  std::string pipe;
  Channel left(std::make_unique<Trickle>(&pipe)), right(std::make_unique<Trickle>(&pipe));
  EXPECT_FALSE(left.send(std::string(kLongestFrame + 1, 'x')));
  EXPECT_FALSE(left.wants_write());
  EXPECT_TRUE(pipe.empty());
  EXPECT_TRUE(left.send("short"));
  std::vector<std::string> got;
  EXPECT_TRUE(right.receive(&got));
  EXPECT_EQ(got, std::vector<std::string>{"short"});
}

TEST(PlaneChannel, OneFrameServesManyChannels) {
  const Frame frame = frame_of("to all");
  for (int i = 0; i < 3; ++i) {
    std::string pipe;
    Channel left(std::make_unique<Trickle>(&pipe)), right(std::make_unique<Trickle>(&pipe));
    EXPECT_TRUE(left.send(frame));
    std::vector<std::string> got;
    EXPECT_TRUE(right.receive(&got));
    EXPECT_EQ(got, std::vector<std::string>{"to all"});
  }
}

TEST(PlaneWire, TheLongestExchangeIsAFrame) {
  constexpr uint64_t kTexts = 4;
  ExchangeAll all{1, std::vector<std::string>(kTexts), ""};
  all.texts[0].assign(kLongestExchange - kTexts * kBytesOfText, 'x');
  const std::string bytes = message_bytes(all);
  EXPECT_LE(bytes.size(), kLongestFrame);
  EXPECT_GT(bytes.size() + 64, kLongestFrame);
}

TEST(PlaneTransport, ItsDescriptorsAreHighAndCloseOnExec) {
  const auto listener = Listener::open();
  ASSERT_TRUE(listener) << listener.error().message;
  const std::string address = listener->address();
  bool refused;
  auto stream = connect_to(address, &refused);
  ASSERT_TRUE(stream);
  for (const int fd : {listener->fd(), (*stream)->fd(), (*stream)->watch().fd()}) {
    EXPECT_GE(fd, 900);
  }
  for (const int fd : {listener->fd(), (*stream)->fd()})
    EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ((*stream)->peer().pid, getpid());
  EXPECT_EQ((*stream)->peer().uid, geteuid());
  EXPECT_FALSE(connect_to("local:cropdl-test-" + random_hex(8), &refused));
  EXPECT_TRUE(refused);
}

TEST(PlaneTransport, AnAddressOfAnUnknownKindIsRefusedByName) {
  for (const char* address : {"tcp:host:1234", "cropdl-1234", "", "local", "localhost:1"}) {
    bool refused = true;
    const auto stream = connect_to(address, &refused);
    ASSERT_FALSE(stream);
    EXPECT_FALSE(refused);
    EXPECT_EQ(stream.error().message, "control plane: " + std::string(address) +
                                          " is no address that this version of CropDL can connect to");
  }
}

TEST(PlaneJobFile, IsPrivateAndComesBack) {
  TemporaryDirectory dir;
  JobFile job{"address", "token", "run", 42, "host", 8, utc_now()};
  ASSERT_TRUE(write_job_file(dir.path, job));
  struct stat st;
  ASSERT_EQ(stat((dir.path + "/job").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  bool missing;
  const Result<JobFile> back = read_job_file(dir.path, &missing);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->token, "token");
  EXPECT_EQ(back->pid, 42);
  EXPECT_EQ(back->ranks, 8u);
  EXPECT_EQ(back->started, job.started);
}

TEST(PlaneJobFile, DamageIsRefusedWithItsPath) {
  TemporaryDirectory dir;
  bool missing;
  EXPECT_FALSE(read_job_file(dir.path, &missing));
  EXPECT_TRUE(missing);
  for (const char* text : {"", "{", "[]", "{\"format\":1}", "{\"format\":1,\"address\":5}", "\xff\xfe"}) {
    std::ofstream(dir.path + "/job") << text;
    const Result<JobFile> back = read_job_file(dir.path, &missing);
    ASSERT_FALSE(back) << text;
    EXPECT_FALSE(missing);
    EXPECT_EQ(back.error().message.rfind(dir.path + "/job: ", 0), 0u) << back.error().message;
  }
}

TEST(PlaneChannel, TheFirstFrameMayHaveALowerLimit) {
  std::string pipe;
  Channel left(std::make_unique<Trickle>(&pipe)), right(std::make_unique<Trickle>(&pipe));
  const std::string large(1000, 'x');
  EXPECT_TRUE(left.send("hello"));
  EXPECT_TRUE(left.send(large));
  std::vector<std::string> got;
  EXPECT_TRUE(right.receive(&got, 64));
  EXPECT_EQ(got, std::vector<std::string>{"hello"});
  EXPECT_TRUE(right.receive(&got));
  EXPECT_EQ(got, (std::vector<std::string>{"hello", large}));
  EXPECT_TRUE(left.send(large));
  EXPECT_FALSE(right.receive(&got, 64));
}

// Sends without end, faster than the reader.
class Flood final : public Stream {
 public:
  explicit Flood(uint64_t* sent) : sent_(sent) {}
  int fd() const override { return -1; }
  ssize_t write(const char*, size_t bytes) override { return static_cast<ssize_t>(bytes); }
  ssize_t read(char* to, size_t bytes) override {
    if (*sent_ > kEnough) {
      errno = EAGAIN;
      return -1;
    }
    std::memset(to, 1, bytes);  // a frame of 16 MiB, and another one
    *sent_ += bytes;
    return static_cast<ssize_t>(bytes);
  }
  ucred peer() const override { return {}; }
  Descriptor watch() const override { return {}; }
  bool peer_is_stopped() const override { return false; }
  static constexpr uint64_t kEnough = 200 << 20;

 private:
  uint64_t* sent_;
};

TEST(PlaneChannel, AnEndlessSenderIsReadInTurns) {
  uint64_t sent = 0;
  Channel channel(std::make_unique<Flood>(&sent));
  std::vector<std::string> messages;
  while (sent <= Flood::kEnough) {
    const uint64_t before = sent;
    ASSERT_TRUE(channel.receive(&messages));
    ASSERT_LE(sent - before, 65u << 20);
    ASSERT_GT(sent, before);
    for (const std::string& message : messages) ASSERT_EQ(message.size(), 0x01010101u);
    messages.clear();
  }
}

}  // namespace
}  // namespace cropdl::coord

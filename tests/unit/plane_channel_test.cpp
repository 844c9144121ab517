// links: cropdl_coord
// The control plane's bytes: frames, messages, the job file. What a stranger or a torn write may put there is
// refused.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <fstream>

#include "base/random.h"
#include "base/time.h"
#include "coord/channel.h"
#include "coord/job_file.h"
#include "coord/wire.h"
#include "tests/unit/coord_fakes.h"

namespace cropdl::coord {
namespace {

std::vector<Message> one_of_each() {
  Standing s{{{1, 2}, {~0ull, 4}}, {1, 5}, {2}, 3, "why"};
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
          Bye{},
          ExchangeMine{1, "text"},
          ExchangeAll{1, {"a", "", "c"}, ""},
          AskCheckpoint{},
          AskStatus{},
          Accepted{},
          Done{o},
          status,
          Order{Hold{1}},
          Order{Targets{1, 2, {{3, 4}}}},
          Order{Stop{1}},
          Order{Drain{1, 2, {{3, 4}}}},
          Order{Write{1, "/dir"}},
          Order{Resume{1}},
          Report{Stands{1, 2, s}},
          Report{Sent{1, true, {{2, 3}}}},
          Report{Drained{1, 2}},
          Report{Written{1, image}},
          Report{Refused{1, "r"}},
          Report{Failed{1, "f"}}};
}

TEST(PlaneWire, EveryMessageComesBackAsItWas) {
  for (const Message& m : one_of_each()) {
    const std::string bytes = to_bytes(m);
    const std::optional<Message> back = from_bytes(bytes);
    ASSERT_TRUE(back.has_value()) << m.index();
    EXPECT_EQ(back->index(), m.index());
    EXPECT_EQ(to_bytes(*back), bytes);
  }
  const auto back = from_bytes(to_bytes(Order{Targets{1, 2, {{3, ~0ull}}}}));
  EXPECT_EQ(std::get<Targets>(std::get<Order>(*back)).targets, (std::vector<CollectiveCount>{{3, ~0ull}}));
}

TEST(PlaneWire, DamagedMessagesAreNoMessages) {
  EXPECT_FALSE(from_bytes("").has_value());
  EXPECT_FALSE(from_bytes("\xff").has_value());
  for (const Message& m : one_of_each()) {
    const std::string bytes = to_bytes(m);
    for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(from_bytes(bytes.substr(0, n)).has_value());
    EXPECT_FALSE(from_bytes(bytes + "x").has_value());
    for (size_t i = 0; i < bytes.size(); ++i) {  // whatever comes of it, no crash and no huge allocation
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(~damaged[i]);
      (void)from_bytes(damaged);
    }
  }
}

std::pair<Descriptor, Descriptor> pair_of_sockets() {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  return {Descriptor(fds[0]), Descriptor(fds[1])};
}

TEST(PlaneChannel, FramesArriveWholeInOrderThroughASmallBuffer) {
  auto [a, b] = pair_of_sockets();
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

TEST(PlaneChannel, AClosedEndIsNoticedAfterItsLastMessageAndRaisesNoSignal) {
  auto [a, b] = pair_of_sockets();
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
  auto [a, b] = pair_of_sockets();
  Channel right(std::move(b));
  ASSERT_EQ(write(a.fd(), "\xff\xff\xff\xff", 4), 4);
  std::vector<std::string> got;
  EXPECT_FALSE(right.receive(&got));
}

TEST(PlaneChannel, ItsDescriptorsAreHighAndCloseOnExec) {
  const std::string name = "cropdl-test-" + random_hex(8);
  Result<Descriptor> l = listen_on(name);
  ASSERT_TRUE(l) << l.error().message;
  bool refused;
  Result<Descriptor> c = connect_to(name, &refused);
  ASSERT_TRUE(c);
  for (const Descriptor* d : {&*l, &*c}) {
    EXPECT_GE(d->fd(), 900);
    EXPECT_EQ(fcntl(d->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
  EXPECT_EQ(peer_of(*c).pid, getpid());
  EXPECT_EQ(peer_of(*c).uid, geteuid());
  EXPECT_FALSE(connect_to("cropdl-test-" + random_hex(8), &refused));
  EXPECT_TRUE(refused);
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

}  // namespace
}  // namespace cropdl::coord

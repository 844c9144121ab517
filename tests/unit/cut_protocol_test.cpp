// links: cropdl_coord
// How a request ends when something goes wrong: refusals, losses, failures, time limits. Each test has one
// order of events and controls time; the explorer covers all orders.
#include <gtest/gtest.h>

#include "base/format.h"
#include "coord/cut.h"
#include "tests/unit/coord_fakes.h"

namespace cropdl::coord {
namespace {

constexpr uint64_t kX = 7;

class CutProtocol : public ::testing::Test {
 protected:
  void SetUp() override {
    limits_.attempts = 2;
    coordinator_ = Coordinator(kRanks, limits_);
    for (uint32_t r = 0; r < kRanks; ++r) act([&](Actions* o) { coordinator_.joined(r, now_, o); });
  }

  template <class F>
  void act(F input) {
    Actions out;
    input(&out);
    for (size_t i = 0; i < out.size(); ++i) {
      const Action a = out[i];
      if (const auto* s = std::get_if<SendOrder>(&a)) {
        orders_.push_back(*s);
        resumes_ordered_ += std::holds_alternative<Resume>(s->order);
      }
      if (std::holds_alternative<BeginVersion>(a)) {
        ++begun_;
        if (sink_failure_.empty())
          coordinator_.version_begun("/v", now_, &out);
        else
          coordinator_.sink_failed(sink_failure_, now_, &out);
      }
      if (const auto* p = std::get_if<Publish>(&a)) {
        publishing_ = true;
        published_ = p->version;
      }
      if (std::holds_alternative<Discard>(a)) {
        ++discarded_;
        resumes_before_discard_ = resumes_ordered_;
        if (!slow_discard_) coordinator_.discarded(now_, &out);
      }
      if (const auto* f = std::get_if<Finished>(&a)) outcomes_.push_back(f->outcome);
    }
  }

  // Delivers and polls until nothing changes any more, without advancing time.
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const SendOrder& s : std::exchange(orders_, {})) {
        if (dead_ == static_cast<int>(s.rank)) continue;
        std::vector<Report> out;
        participants_[s.rank].receive(ranks_[s.rank], s.order, &out);
        moved = deliver(s.rank, out) || moved;
      }
      for (uint32_t r = 0; r < kRanks; ++r) {
        if (dead_ == static_cast<int>(r)) continue;
        std::vector<Report> out;
        participants_[r].poll(ranks_[r], &out);
        moved = deliver(r, out) || moved;
      }
      moved = moved || !orders_.empty();
    }
  }
  bool deliver(uint32_t r, const std::vector<Report>& reports) {
    for (const Report& m : reports) act([&](Actions* o) { coordinator_.receive(r, m, now_, o); });
    return !reports.empty();
  }
  void request() {
    act([&](Actions* o) { EXPECT_TRUE(coordinator_.request(now_, o)); });
    settle();
  }
  // Advances time to the next deadline.
  void wait() {
    ASSERT_TRUE(coordinator_.deadline().has_value());
    now_ = *coordinator_.deadline();
    act([&](Actions* o) { coordinator_.tick(now_, o); });
    settle();
  }
  void publish() {
    ASSERT_TRUE(publishing_);
    publishing_ = false;
    act([&](Actions* o) { coordinator_.published(1, now_, o); });
    settle();
  }
  std::string line() { return outcomes_.empty() ? "(no outcome)" : outcomes_.back().line; }
  void expect_all_resumed() {
    for (uint32_t r = 0; r < kRanks; ++r) {
      if (dead_ == static_cast<int>(r)) continue;
      EXPECT_EQ(ranks_[r].holds, ranks_[r].resumes) << "rank " << r << " was left standing";
      EXPECT_EQ(participants_[r].poll_period(), 0);
    }
  }
  // `end` removes rank 1 while it is inside a collective, while it does not stop, and while it writes.
  template <class F>
  void expect_end_in_every_stage(const std::string& expected, F end) {
    for (int stage = 0; stage < 3; ++stage) {
      SetUp();
      outcomes_.clear();
      dead_ = -1;
      discarded_ = 0;
      for (FakeRank& r : ranks_) r.holds = r.resumes = 0;
      ranks_[1].stands.inside.assign(stage == 0, kX);
      ranks_[1].unstoppable = stage == 1;
      ranks_[1].slow_write = stage == 2;
      request();
      ASSERT_TRUE(outcomes_.empty()) << stage;
      dead_ = 1;
      act(end);
      settle();
      EXPECT_EQ(line(), expected) << stage;
      EXPECT_EQ(discarded_, stage == 2 ? 1 : 0);
      EXPECT_FALSE(publishing_);
      expect_all_resumed();
      participants_[1] = {};
    }
  }

  static constexpr uint32_t kRanks = 3;
  CutLimits limits_;
  Coordinator coordinator_{kRanks};
  FakeRank ranks_[kRanks];
  Participant participants_[kRanks];
  std::vector<SendOrder> orders_;
  std::vector<Outcome> outcomes_;
  std::string sink_failure_;
  int64_t now_ = 1'000'000;
  int dead_ = -1;
  int begun_ = 0, discarded_ = 0;
  int resumes_ordered_ = 0, resumes_before_discard_ = 0;
  bool publishing_ = false, slow_discard_ = false;
  NewVersion published_;
};

TEST_F(CutProtocol, ARequestIsPublishedAndAllContinue) {
  request();
  EXPECT_EQ(ranks_[2].directory, "/v");
  EXPECT_EQ(coordinator_.phase(), Phase::kPublishing);
  EXPECT_EQ(ranks_[0].resumes, 0) << "resumed before the version was durable";
  now_ += 250'000;
  publish();
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_TRUE(outcomes_[0].published);
  EXPECT_EQ(outcomes_[0].version, 1u);
  EXPECT_EQ(outcomes_[0].bytes, 3000u);
  EXPECT_DOUBLE_EQ(outcomes_[0].stall_seconds, 0.25);
  EXPECT_DOUBLE_EQ(outcomes_[0].held_seconds, 0.25);
  EXPECT_EQ(discarded_, 0);
  expect_all_resumed();
}

TEST_F(CutProtocol, AVersionSaysHowLongEachStageOfItsStallTook) {
  ranks_[1].unstoppable = ranks_[2].slow_drain = ranks_[0].slow_write = true;
  request();
  now_ += 7'000;
  ranks_[1].unstoppable = false;
  settle();
  now_ += 20'000;
  ranks_[2].slow_drain = false;
  settle();
  now_ += 300'000;
  ranks_[0].slow_write = false;
  settle();
  EXPECT_DOUBLE_EQ(published_.stopping_seconds, 0.007);
  EXPECT_DOUBLE_EQ(published_.draining_seconds, 0.02);
  EXPECT_DOUBLE_EQ(published_.stall_seconds, 0.327);
}

TEST_F(CutProtocol, AfterTheLastVersionAllRanksExit) {
  request();
  coordinator_.end_with(75);
  publish();
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_TRUE(outcomes_[0].published);
  for (uint32_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(participants_[r].end_status(), 75);
    EXPECT_EQ(participants_[r].poll_period(), 0);
    participants_[r].abandon(ranks_[r]);  // losing the hub as well changes nothing
    EXPECT_EQ(ranks_[r].resumes, 0);
  }
}

TEST_F(CutProtocol, AfterAFailedLastVersionAllContinueAndTheNextIsOrdinary) {
  ranks_[1].slow_write = true;
  request();
  coordinator_.end_with(75);
  ranks_[1].write_failure = "No space left on device";
  ranks_[1].slow_write = false;
  settle();
  EXPECT_FALSE(outcomes_.back().published);
  expect_all_resumed();
  ranks_[1].write_failure.clear();
  request();
  publish();
  EXPECT_TRUE(outcomes_.back().published);
  expect_all_resumed();
  for (const Participant& p : participants_) EXPECT_EQ(p.end_status(), 0);
}

TEST_F(CutProtocol, ARequestThatIsWithdrawnEndsUnlessItsImagesAreBeingWritten) {
  ranks_[1].unstoppable = true;
  request();
  act([&](Actions* o) { coordinator_.withdraw("time is up", now_, o); });
  settle();
  EXPECT_EQ(line(), "checkpoint given up: time is up");
  expect_all_resumed();
  ranks_[1].unstoppable = false;
  request();
  act([&](Actions* o) { coordinator_.withdraw("time is up", now_, o); });
  EXPECT_EQ(outcomes_.size(), 1u);
  publish();
  EXPECT_TRUE(outcomes_.back().published);
  EXPECT_EQ(discarded_, 0);
  expect_all_resumed();
}

TEST_F(CutProtocol, ASecondRequestMeanwhileChangesNothing) {
  request();
  Actions out;
  EXPECT_FALSE(coordinator_.request(now_, &out));
  EXPECT_TRUE(out.empty());
  publish();
  request();
  publish();
  EXPECT_EQ(outcomes_.size(), 2u);
}

TEST_F(CutProtocol, ARefusalNamesRankAndReasonAndEndsTheAttempt) {
  ranks_[1].stands.refusal = "MPI_Win_create: a window is alive";
  request();
  EXPECT_EQ(line(), "checkpoint refused: rank 1: MPI_Win_create: a window is alive");
  EXPECT_EQ(begun_, 0);
  expect_all_resumed();
}

TEST_F(CutProtocol, ARefusalOfTheStoppedStateDoesToo) {
  ranks_[2].stopped_refusal = "a second thread is running";
  request();
  EXPECT_EQ(line(), "checkpoint refused: rank 2: a second thread is running");
  expect_all_resumed();
}

TEST_F(CutProtocol, ARankThatCannotStopReportsTheReasonAtOnce) {
  ranks_[1].unstoppable = true;
  request();
  EXPECT_TRUE(coordinator_.busy());
  ranks_[1].stop_failure = "messages under way do not fit";
  settle();
  EXPECT_EQ(line(), "checkpoint failed: rank 1: messages under way do not fit");
  expect_all_resumed();
}

TEST_F(CutProtocol, ARankWithoutMemoryFailsTheCheckpointAndAllContinue) {
  for (const char* in : {"hold", "stop", "drained", "written"}) {
    ranks_[1].no_memory_in = in;
    request();
    EXPECT_NE(line().find("checkpoint failed: rank 1: this rank has no memory left"), std::string::npos)
        << in << ": " << line();
    expect_all_resumed();
    ranks_[1].no_memory_in.clear();
  }
  request();
  publish();
  EXPECT_TRUE(outcomes_.back().published);
}

TEST_F(CutProtocol, SeveralRefusalsAreOneOutcome) {
  for (FakeRank& r : ranks_) r.stopped_refusal = "a second thread is running";
  request();
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(line(), "checkpoint refused: rank 0: a second thread is running");
  expect_all_resumed();
}

TEST_F(CutProtocol, AFailedWriteDiscardsTheVersionOnceAllWritersAreDone) {
  ranks_[1].write_failure = "No space left on device";
  ranks_[2].slow_write = true;
  request();
  EXPECT_TRUE(outcomes_.empty());
  EXPECT_EQ(ranks_[2].resumes, 0) << "resumed while its memory was being written";
  ranks_[2].slow_write = false;
  settle();
  EXPECT_EQ(line(), "checkpoint failed: rank 1: No space left on device");
  EXPECT_EQ(discarded_, 1);
  expect_all_resumed();
  ranks_[1].write_failure = "";
  request();
  publish();
  EXPECT_TRUE(outcomes_.back().published) << "a failed attempt must not spoil the next";
}

TEST_F(CutProtocol, AllContinueBeforeAFailedVersionIsRemoved) {
  ranks_[1].write_failure = "No space left on device";
  request();
  EXPECT_EQ(discarded_, 1);
  EXPECT_EQ(resumes_before_discard_, 3);
}

TEST_F(CutProtocol, TheNextRequestHoldsNoRankDuringTheRemovalOfAFailedVersion) {
  ranks_[1].write_failure = "No space left on device";
  slow_discard_ = true;
  request();
  EXPECT_EQ(line(), "checkpoint failed: rank 1: No space left on device");
  ranks_[1].write_failure = "";
  request();
  EXPECT_TRUE(coordinator_.busy());
  EXPECT_EQ(coordinator_.phase(), Phase::kIdle);
  EXPECT_FALSE(coordinator_.deadline()) << "it takes as long as it takes";
  now_ += 10 * limits_.join_bound;
  act([&](Actions* o) { coordinator_.tick(now_, o); });
  EXPECT_EQ(ranks_[0].holds, 1);
  act([&](Actions* o) { coordinator_.discarded(now_, o); });
  settle();
  publish();
  EXPECT_TRUE(outcomes_.back().published);
  EXPECT_EQ(begun_, 2);
}

TEST_F(CutProtocol, ARankThatIsLostMeanwhileEndsTheRequestThatWaitsForTheStore) {
  ranks_[1].write_failure = "No space left on device";
  slow_discard_ = true;
  request();
  request();
  act([&](Actions* o) { coordinator_.lost(2, "has ended its program", now_, o); });
  EXPECT_EQ(line(), "checkpoint refused: rank 2 has ended its program");
  act([&](Actions* o) { coordinator_.discarded(now_, o); });
  EXPECT_FALSE(coordinator_.busy());
  EXPECT_EQ(ranks_[0].holds, 1);
}

TEST_F(CutProtocol, AStoreThatCannotBeWrittenIsReported) {
  sink_failure_ = "/ckpt: Read-only file system";
  request();
  EXPECT_EQ(line(), "checkpoint failed: /ckpt: Read-only file system");
  expect_all_resumed();
}

TEST_F(CutProtocol, AFailedPublishIsReportedAndDiscarded) {
  request();
  act([&](Actions* o) { coordinator_.sink_failed("/ckpt: Input/output error", now_, o); });
  settle();
  EXPECT_EQ(line(), "checkpoint failed: /ckpt: Input/output error");
  EXPECT_EQ(discarded_, 1);
  expect_all_resumed();
}

TEST_F(CutProtocol, AFailedDrainIsReported) {
  ranks_[0].drain_failure = "MPI_Mrecv failed";
  request();
  EXPECT_EQ(line(), "checkpoint failed: rank 0: MPI_Mrecv failed");
  expect_all_resumed();
}

TEST_F(CutProtocol, ALostRankEndsTheAttemptInEveryStage) {
  expect_end_in_every_stage("checkpoint refused: rank 1 is gone: its process (pid 5) died", [&](Actions* o) {
    coordinator_.lost(1, "is gone: its process (pid 5) died", now_, o);
  });
}

TEST_F(CutProtocol, ARankThatStandsStillEndsTheAttemptInEveryStage) {
  expect_end_in_every_stage("checkpoint refused: rank 1 has been stopped",
                            [&](Actions* o) { coordinator_.stands_still(1, "has been stopped", now_, o); });
}

TEST_F(CutProtocol, ARankThatHasEndedIsNamedAtOnce) {
  act([&](Actions* o) { coordinator_.lost(2, "has ended its program", now_, o); });
  request();
  EXPECT_EQ(line(), "checkpoint refused: rank 2 has ended its program");
}

TEST_F(CutProtocol, RanksThatAreStillStartingAreWaitedForUpToABound) {
  coordinator_ = Coordinator(kRanks, limits_);
  act([&](Actions* o) { coordinator_.joined(0, now_, o); });
  act([&](Actions* o) { coordinator_.joined(1, now_, o); });
  request();
  EXPECT_TRUE(coordinator_.busy());
  act([&](Actions* o) { coordinator_.joined(2, now_, o); });
  settle();
  publish();
  EXPECT_TRUE(outcomes_.back().published);

  coordinator_ = Coordinator(kRanks, limits_);
  act([&](Actions* o) { coordinator_.joined(0, now_, o); });
  act([&](Actions* o) { coordinator_.joined(1, now_, o); });
  request();
  wait();
  EXPECT_EQ(line(),
            "checkpoint refused: rank 2 has not joined yet: its MPI is only just starting, or it was started "
            "without cropdl-run");

  const int64_t begin = now_;
  act([&](Actions* o) { EXPECT_TRUE(coordinator_.request(now_, o, true)); });
  EXPECT_EQ(coordinator_.deadline(), begin + limits_.user_join_bound);
  coordinator_.hurry();
  EXPECT_EQ(coordinator_.deadline(), begin + limits_.join_bound);
}

TEST_F(CutProtocol, AnAttemptThatReachesNoCutIsRetriedAndThenGivenUpByName) {
  for (FakeRank& r : ranks_) r.stands.counts = {{kX, 4}};
  ranks_[0].stands.counts = {{kX, 5}};
  ranks_[0].stands.inside = {kX};  // ranks 1 and 2 compute for minutes
  request();
  EXPECT_EQ(coordinator_.deadline(), now_ + limits_.attempt_bound) << "no raise: nobody is held";
  wait();
  EXPECT_TRUE(coordinator_.busy());
  expect_all_resumed();
  wait();  // the pause between attempts
  EXPECT_EQ(ranks_[0].holds, 2);
  wait();
  EXPECT_EQ(line(),
            "checkpoint given up after 2 attempts of 10 s: rank 0 is inside a collective that rank 1 has not "
            "reached (it computes, or waits for a message); try again later");
  EXPECT_DOUBLE_EQ(outcomes_.back().held_seconds, 20) << "without the pause between the attempts";
  expect_all_resumed();
}

// Reading /proc/self/smaps of hundreds of gigabytes takes longer than an attempt may.
TEST_F(CutProtocol, TheTimeInWhichAStoppedRankIsExaminedDoesNotCount) {
  const auto later = [&](int64_t us) {
    now_ += us;
    act([&](Actions* o) { coordinator_.tick(now_, o); });
    settle();
  };
  ranks_[1].unstoppable = ranks_[1].examines = true;
  request();
  EXPECT_EQ(coordinator_.waits_for(), "rank 1 has stopped, and its memory is being examined");
  later(100 * limits_.attempt_bound);
  EXPECT_EQ(ranks_[1].resumes, 0);
  ranks_[1].examines = false;
  settle();
  later(limits_.attempt_bound - 1);
  EXPECT_EQ(ranks_[1].resumes, 0) << "the bound begins anew";
  ranks_[1].unstoppable = false;
  settle();
  publish();
  EXPECT_TRUE(outcomes_.back().published);
  EXPECT_EQ(outcomes_.back().attempts, 1u);

  ranks_[1].unstoppable = ranks_[1].examines = true;
  request();
  later(limits_.examination_bound);
  EXPECT_EQ(ranks_[1].resumes, 2) << "not for ever";
}

TEST_F(CutProtocol, ARetryThatSucceedsIsASuccess) {
  ranks_[1].stands.inside = {kX};
  request();
  wait();
  ranks_[1].stands.inside.clear();
  wait();
  publish();
  EXPECT_TRUE(outcomes_.back().published);
  EXPECT_EQ(outcomes_.back().attempts, 2u);
}

TEST_F(CutProtocol, ARankAwaitedInASubgroupCallIsLetInSoonAndAlone) {
  constexpr uint64_t kMet = kSubgroupCall | 5;
  ranks_[0].stands.counts = {{kMet, 0}};
  ranks_[0].stands.inside = {kMet};
  request();
  const int64_t told = now_;
  ranks_[1].stands.counts = {{kMet, 0}};  // arrives later, and is held
  ranks_[1].stands.held = {{kMet, 1}};
  ranks_[2].stands.counts = {{kX, 0}};
  ranks_[2].stands.held = {{kX, 1}};
  settle();
  EXPECT_EQ(*coordinator_.deadline(), now_ + limits_.raise_awaited_after);
  wait();
  EXPECT_EQ(coordinator_.raises(), 0u);
  EXPECT_EQ(ranks_[1].targets, (std::vector<CollectiveCount>{{kMet, 1}}));
  // Repeatedly: the other rank's time limit does not start again.
  for (uint64_t met = 1; coordinator_.raises() == 0; ++met) {
    ranks_[0].stands.counts = ranks_[1].stands.counts = {{kMet, met}};
    ranks_[1].stands.held = {{kMet, met + 1}};
    ranks_[1].stands.progress = met;
    settle();
    wait();
    ASSERT_LE(now_, told + limits_.raise_anyway_after);
  }
  EXPECT_GE(ranks_[1].targets.size(), 2u);
}

TEST_F(CutProtocol, ARankDoesNotWaitForItself) {
  constexpr uint64_t kMet = kSubgroupCall | 5;
  ranks_[1].stands.counts = {{kMet, 0}};
  ranks_[1].stands.inside = {kMet};
  ranks_[1].stands.held = {{kMet, 1}};
  request();
  EXPECT_EQ(*coordinator_.deadline(), now_ + limits_.raise_after);
}

TEST_F(CutProtocol, ARankAwaitedOnlyBrieflyIsNotLetIn) {
  constexpr uint64_t kMet = kSubgroupCall | 5;
  for (FakeRank& r : ranks_) r.stands.counts = {{kMet, 0}};
  ranks_[0].stands.inside = {kMet};
  ranks_[1].stands.held = {{kMet, 1}};
  ranks_[2].stands.inside = {kX};  // otherwise all would stop
  request();
  EXPECT_EQ(*coordinator_.deadline(), now_ + limits_.raise_awaited_after);
  now_ += limits_.raise_awaited_after - 1;
  ranks_[0].stands.inside.clear();
  settle();
  EXPECT_EQ(*coordinator_.deadline(), now_ + limits_.raise_after);
}

TEST_F(CutProtocol, AHeldRankIsLetThroughWhenShortOnesStandStillAndNotBefore) {
  ranks_[0].stands.counts = ranks_[1].stands.counts = {{kX, 4}, {8, 0}};
  ranks_[0].stands.inside = {kX};
  ranks_[1].stands.held = {{8, 1}};
  request();
  EXPECT_EQ(coordinator_.deadline(), now_ + limits_.raise_after);
  now_ += limits_.raise_after - 1;
  ranks_[0].stands.progress++;  // it makes progress
  settle();
  EXPECT_EQ(coordinator_.deadline(), now_ + limits_.raise_after);
  wait();
  EXPECT_EQ(coordinator_.raises(), 1u);
  EXPECT_EQ(ranks_[1].targets, (std::vector<CollectiveCount>{{kX, 4}, {8, 1}}));
  // A rank that polls forever looks like progress; the held rank is let through nevertheless.
  ranks_[1].stands.counts[1].begun = 1;
  ranks_[1].stands.held = {{8, 2}};
  settle();
  const int64_t told = now_;
  while (coordinator_.raises() == 1) {
    ranks_[0].stands.progress++;
    now_ += 1000;
    settle();
    act([&](Actions* o) { coordinator_.tick(now_, o); });
  }
  EXPECT_EQ(now_, told + limits_.raise_anyway_again_after);
}

TEST_F(CutProtocol, AHeldGroupIsLetThroughWithAllItsCalls) {
  // Rank 1 is held before a group of two calls on 8 and three on 9; rank 2 has begun one of those on 9.
  ranks_[0].stands.counts = {{kX, 4}};
  ranks_[0].stands.inside = {kX};
  ranks_[1].stands.counts = {{8, 3}, {9, 0}};
  ranks_[1].stands.held = {{8, 5}, {9, 3}};
  ranks_[2].stands.counts = {{8, 3}, {9, 1}};
  request();
  EXPECT_EQ(coordinator_.deadline(), now_ + limits_.raise_after);
  wait();
  EXPECT_EQ(ranks_[1].targets, (std::vector<CollectiveCount>{{kX, 4}, {8, 5}, {9, 3}}));
  EXPECT_EQ(coordinator_.deadline(), now_ - limits_.raise_after + limits_.attempt_bound)
      << "the thread that may begin its group counts as held";
  ranks_[1].stands.counts = ranks_[2].stands.counts = {{8, 5}, {9, 3}};
  ranks_[1].stands.held.clear();
  ranks_[0].stands.inside.clear();
  settle();
  publish();
  EXPECT_TRUE(outcomes_.back().published);
  EXPECT_EQ(outcomes_.back().attempts, 1u);
}

// No thread is held before a call that another rank has not begun as well: only the group's size keeps it
// out.
TEST_F(CutProtocol, AGroupOfWhichTheTargetAdmitsAPartIsLetThrough) {
  ranks_[0].stands.counts = {{8, 1}};  // computes, and then makes its second call
  ranks_[1].stands.counts = {{8, 0}};
  ranks_[1].stands.held = {{8, 2}};
  request();
  EXPECT_EQ(ranks_[1].targets, (std::vector<CollectiveCount>{{8, 1}}));
  EXPECT_EQ(coordinator_.deadline(), now_ + limits_.raise_after);
  wait();
  EXPECT_EQ(ranks_[1].targets, (std::vector<CollectiveCount>{{8, 2}}));
}

TEST_F(CutProtocol, RanksRunToTheEndOfTheLatestsIteration) {
  // Rank 1 is one iteration ahead, and started counting later; each iteration has three calls on this
  // communicator.
  ranks_[0].stands.counts = {{kX, 10}, {8, 1}};
  ranks_[0].stands.boundary = {4, 50'000, {{kX, 12, 3}}};
  ranks_[1].stands.counts = {{kX, 13}, {8, 1}};
  ranks_[1].stands.boundary = {7, 50'000, {{kX, 15, 3}}};
  for (uint32_t r = 2; r < kRanks; ++r) ranks_[r].stands = ranks_[0].stands;
  request();
  EXPECT_EQ(ranks_[0].targets, (std::vector<CollectiveCount>{{kX, 15}, {8, 1}}));
  // A held rank does not continue before the computing ones have had time to reach the end of the iteration.
  ranks_[1].stands.counts[0].begun = 15;
  ranks_[1].stands.held = {{kX, 16}};
  settle();
  EXPECT_EQ(coordinator_.deadline(), now_ + 100'000 + limits_.raise_after);
  // A communicator that is not used in every iteration is on the way to the iteration's end.
  ranks_[0].stands.held = {{8, 2}, {9, 1}};
  settle();
  act([&](Actions* o) { coordinator_.tick(now_, o); });
  settle();
  EXPECT_EQ(ranks_[0].targets, (std::vector<CollectiveCount>{{kX, 15}, {8, 2}, {9, 1}}));
  EXPECT_EQ(coordinator_.raises(), 0u);
  for (FakeRank& r : ranks_) {
    r.stands.counts = {{kX, 15}, {8, 2}, {9, 1}};
    r.stands.held = {{8, 3}};
  }
  settle();
  publish();
  EXPECT_TRUE(outcomes_.back().published);
}

TEST_F(CutProtocol, TheLongestWaitAtAPredictedEndIsRecordedAndIsACost) {
  for (FakeRank& r : ranks_) {
    r.stands.counts = {{kX, 10}};
    r.stands.boundary = {4, 50'000, {{kX, 12, 3}}};
  }
  request();
  now_ += 40'000;  // the way to the end costs nothing
  ranks_[1].stands.counts = ranks_[2].stands.counts = {{kX, 12}};
  ranks_[1].stands.held = {{kX, 13}};
  ranks_[1].unstoppable = true;
  settle();
  now_ += 3'000;
  ranks_[0].stands.counts = {{kX, 12}};
  ranks_[1].waits = 3'100;  // as the rank itself has measured it by the time it stops
  ranks_[2].waits = 200;
  settle();
  ranks_[1].unstoppable = false;
  ranks_[1].waits = 3'200;
  settle();
  EXPECT_DOUBLE_EQ(published_.wait_seconds, 0.0032);
  now_ += 250'000;
  publish();
  EXPECT_DOUBLE_EQ(outcomes_.back().stall_seconds, 0.25);
  EXPECT_DOUBLE_EQ(outcomes_.back().held_seconds, 0.2532);
}

TEST_F(CutProtocol, APredictedEndThatDoesNotComeCostsTheTimeOfHeldRanks) {
  for (FakeRank& r : ranks_) {
    r.stands.counts = {{kX, 10}};
    r.stands.boundary = {4, 50'000, {{kX, 12, 3}}};
  }
  request();
  wait();  // the loop is over, nobody is held: the attempt ends
  EXPECT_EQ(now_, 1'000'000 + 100'000 + limits_.prediction_bound);
  wait();  // the next attempt cuts the ranks where they are
  publish();
  EXPECT_DOUBLE_EQ(outcomes_.back().held_seconds, 0) << "the program ran all the time";

  request();
  ranks_[1].stands.counts = {{kX, 12}};
  ranks_[1].stands.held = {{kX, 13}};
  ranks_[1].waits = 500;  // when it reports that; it says no more while it is held
  settle();
  now_ += 60'000;
  act([&](Actions* o) { coordinator_.lost(2, "has ended its program", now_, o); });
  EXPECT_DOUBLE_EQ(outcomes_.back().held_seconds, 0.0605);
}

TEST_F(CutProtocol, AfterARaiseAPredictedEndCostsAllTimeSinceTheHold) {
  for (FakeRank& r : ranks_) {
    r.stands.counts = {{kX, 10}};
    r.stands.boundary = {4, 50'000, {{kX, 12, 3}}};
  }
  ranks_[1].stands.counts = {{kX, 10}, {8, 1}};
  request();
  ranks_[1].stands.counts = {{kX, 12}, {8, 1}};
  ranks_[1].stands.held = {{kX, 13}};
  settle();
  const int64_t held = now_;
  wait();
  EXPECT_EQ(now_, held + 100'000 + limits_.raise_after);
  EXPECT_EQ(coordinator_.raises(), 1u);
  act([&](Actions* o) { coordinator_.withdraw("time is up", now_, o); });
  EXPECT_DOUBLE_EQ(outcomes_.back().held_seconds, 0.115);
}

TEST_F(CutProtocol, AbortingOneRankMakesAllAbortTheAttempt) {
  for (FakeRank& r : ranks_) r.stands.counts = {{kX, 4}};
  ranks_[0].stands.inside = {8};
  request();
  ranks_[0].stands.inside.clear();
  ranks_[0].stands.counts = {{kX, kAborted}};
  settle();
  EXPECT_EQ(coordinator_.phase(), Phase::kHolding);
  EXPECT_EQ(ranks_[1].targets, (std::vector<CollectiveCount>{{kX, kAborted}}));
  for (FakeRank& r : ranks_) r.stands.counts = {{kX, kAborted}};
  settle();
  publish();
  EXPECT_TRUE(outcomes_.back().published);
}

TEST_F(CutProtocol, CommunicatorThatSomeMembersDoNotHaveIsRefused) {
  for (FakeRank& r : ranks_) r.stands.members = {{kX, kRanks + 1}};
  ranks_[0].stands.members.insert(ranks_[0].stands.members.end(), {{8, 2}, {8, 2}});
  ranks_[1].stands.members.push_back({kX, kRanks + 1});  // a rank may have two members
  request();
  publish();
  EXPECT_TRUE(outcomes_.back().published);
  ranks_[1].stands.members.clear();
  request();
  EXPECT_EQ(
      line(),
      formatted(
          "checkpoint refused: rank 0: a communicator of NCCL's with {} ranks exists on {} of them only, "
          "so it could not be made again; destroy it there, too (ncclCommDestroy)",
          kRanks + 1, kRanks - 1));
  expect_all_resumed();
}

TEST_F(CutProtocol, ContradictoryPredictionsAreNotTargets) {
  const auto targets_with = [&](NextBoundary second) {
    for (FakeRank& r : ranks_) {
      r.stands.counts = {{kX, 10}};
      r.stands.boundary = {4, 50'000, {{kX, 12, 3}}};
    }
    ranks_[1].stands.boundary = std::move(second);
    request();
    const uint64_t target = ranks_[0].targets[0].begun;
    for (FakeRank& r : ranks_) r.stands.counts = {{kX, 12}};
    settle();
    publish();
    return target;
  };
  EXPECT_EQ(targets_with({4, 50'000, {{kX, 12, 3}}}), 12u);
  EXPECT_EQ(targets_with({}), 10u);
  // not at an iteration boundary of the others
  EXPECT_EQ(targets_with({4, 50'000, {{kX, 13, 3}}}), 10u);
  EXPECT_EQ(targets_with({4, 50'000, {{kX, 12, 4}}}), 10u);             // another iteration length
  EXPECT_EQ(targets_with({4, 50'000, {{kX, 12, 0}}}), 10u);             // invalid
  EXPECT_EQ(targets_with({4, 50'000'000, {{kX, 12, 3}}}), 10u);         // too long to wait for
  EXPECT_EQ(targets_with({4, 50'000, {{kX, 9, 3}}}), 12u);              // one iteration behind
  EXPECT_EQ(targets_with({4, 50'000, {{kX, 12, 3}, {9, 1, 1}}}), 10u);  // a communicator that no rank has
  EXPECT_EQ(targets_with({4, 50'000, {{9, 12, 3}}}), 10u);              // nothing that compares the ranks
}

TEST_F(CutProtocol, AReportUnderOlderTargetsDoesNotStopAnyone) {
  Actions out;
  coordinator_ = Coordinator(2, limits_);
  coordinator_.joined(0, now_, &out);
  coordinator_.joined(1, now_, &out);
  coordinator_.request(now_, &out);
  const StatusReport zero{1, 0, 0, {{{kX, 1}}, {}, {}, {}, 0, "", false, {}}};
  coordinator_.receive(0, zero, now_, &out);
  coordinator_.receive(1, zero, now_, &out);
  coordinator_.receive(0, StatusReport{1, 1, 0, zero.status}, now_, &out);
  coordinator_.receive(1, zero, now_, &out);
  EXPECT_EQ(coordinator_.phase(), Phase::kHolding);
  coordinator_.receive(1, StatusReport{1, 1, 0, zero.status}, now_, &out);
  EXPECT_EQ(coordinator_.phase(), Phase::kStopping);
}

TEST_F(CutProtocol, ARankThatHasNotReachedACollectiveIsNamed) {
  EXPECT_EQ(coordinator_.waits_for(), "");
  for (FakeRank& r : ranks_) r.stands.counts = {{kX, 4}};
  ranks_[1].stands.counts = {{kX, 5}};  // a nonblocking collective: rank 1 continues
  ranks_[0].stands.counts = {{kX, 5}};
  request();
  const std::string expected =
      "rank 2 has not reached a collective that rank 0 has begun (it computes, or waits)";
  EXPECT_EQ(coordinator_.waits_for(), expected);
  wait();
  EXPECT_EQ(coordinator_.phase(), Phase::kIdle) << "a pause between attempts";
  EXPECT_EQ(coordinator_.waits_for(), expected);
  wait();
  EXPECT_EQ(coordinator_.waits_for(), expected);
  wait();
  EXPECT_EQ(line(), "checkpoint given up after 2 attempts of 10 s: " + expected + "; try again later");
}

TEST_F(CutProtocol, EveryStageReportsWhatItWaitsFor) {
  coordinator_ = Coordinator(kRanks, limits_);
  act([&](Actions* o) { coordinator_.joined(0, now_, o); });
  request();
  EXPECT_EQ(coordinator_.waits_for(), "rank 1 has not joined");
  ranks_[1].unstoppable = true;
  act([&](Actions* o) { coordinator_.joined(1, now_, o); });
  act([&](Actions* o) { coordinator_.joined(2, now_, o); });
  EXPECT_EQ(coordinator_.waits_for(), "rank 0 does not answer");
  settle();
  EXPECT_EQ(coordinator_.waits_for(),
            "rank 1 did not stop: it is inside an MPI or system call that does not end");
  ranks_[0].slow_write = ranks_[2].slow_write = true;
  ranks_[1].unstoppable = false;
  settle();
  EXPECT_EQ(coordinator_.waits_for(), "rank 0 and 1 more are writing their images");
  ranks_[0].slow_write = false;
  settle();
  EXPECT_EQ(coordinator_.waits_for(), "rank 2 is writing its image");
  ranks_[2].slow_write = false;
  settle();
  EXPECT_EQ(coordinator_.waits_for(), "all images are written, and are being made a version");
  publish();
  EXPECT_EQ(coordinator_.waits_for(), "");

  ranks_[1].write_failure = "No space left on device";
  slow_discard_ = true;
  request();
  request();
  EXPECT_EQ(coordinator_.waits_for(), "the images of a checkpoint that failed are being removed");
}

TEST_F(CutProtocol, ReceiversDrainWhileASenderCannotStopYet) {
  ranks_[0].unstoppable = true;
  ranks_[0].sends = {{1, 3}};
  request();
  EXPECT_EQ(coordinator_.phase(), Phase::kStopping);
  wait();
  EXPECT_EQ(ranks_[1].expected, (std::vector<PeerCount>{{0, 3}}));
  EXPECT_EQ(begun_, 0);
  ranks_[0].sends = {{1, 4}, {2, 1}};
  ranks_[0].unstoppable = false;
  settle();
  EXPECT_EQ(ranks_[1].expected, (std::vector<PeerCount>{{0, 4}}));
  EXPECT_EQ(ranks_[2].expected, (std::vector<PeerCount>{{0, 1}}));
  publish();
  EXPECT_TRUE(outcomes_.back().published);
}

}  // namespace
}  // namespace cropdl::coord

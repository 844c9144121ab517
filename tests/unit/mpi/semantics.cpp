// Corner cases of MPI's rules in the lower half's runtime, before and after a cut: null and inactive
// requests, MPI_PROC_NULL, empty and truncated messages, freed requests, types and communicators. Run as
// `mpirun -n 2 lower_semantics_<mpi>`.
#include "interpose/seam/mpi_abi.h"
#include "tests/unit/mpi/rig.h"

using namespace rig;

namespace {

constexpr Vid kNoRequest = make_vid(Kind::kRequest, 0);
constexpr Vid kNoInfo = make_vid(Kind::kInfo, 0);

int send(int value, int to, int tag, Vid comm = kWorld) {
  return lower_MPI_Send(&value, 1, kInt, to, tag, comm);
}

class Semantics : public ::testing::Test {
 protected:
  void SetUp() override { everyone(); }
  void TearDown() override { everyone(); }
  const int peer = 1 - rank;
};

TEST_F(Semantics, ProcNullCompletesEveryCallAtOnceWithItsStatus) {
  int value = 7, index = -1;
  Status s{};
  const auto is_null = [&](const char* call) {
    EXPECT_EQ(s.source, kProcNull) << call;
    EXPECT_EQ(s.tag, kAnyTag) << call;
    EXPECT_EQ(s.bytes, 0) << call;
    s = {};
  };
  EXPECT_EQ(lower_MPI_Sendrecv(&value, 1, kInt, kProcNull, 1, &value, 1, kInt, kProcNull, 1, kWorld, &s),
            kSuccess);
  is_null("Sendrecv");
  EXPECT_EQ(lower_MPI_Sendrecv_replace(&value, 1, kInt, kProcNull, 1, kProcNull, 1, kWorld, &s), kSuccess);
  is_null("Sendrecv_replace");
  EXPECT_EQ(lower_MPI_Probe(kProcNull, 1, kWorld, &s), kSuccess);
  is_null("Probe");
  Vid message = 0, requests[3] = {};
  EXPECT_EQ(lower_MPI_Mprobe(kProcNull, 1, kWorld, &message, &s), kSuccess);
  is_null("Mprobe");
  EXPECT_EQ(lower_MPI_Mrecv(&value, 1, kInt, &message, &s), kSuccess);
  is_null("Mrecv");
  EXPECT_EQ(lower_MPI_Irecv(&value, 1, kInt, kProcNull, 1, kWorld, &requests[0]), kSuccess);
  EXPECT_EQ(lower_MPI_Isend(&value, 1, kInt, kProcNull, 1, kWorld, &requests[1]), kSuccess);
  EXPECT_EQ(lower_MPI_Recv_init(&value, 1, kInt, kProcNull, 1, kWorld, &requests[2]), kSuccess);
  EXPECT_EQ(lower_MPI_Start(&requests[2]), kSuccess);
  EXPECT_EQ(lower_MPI_Wait(&requests[2], &s), kSuccess);
  is_null("Recv_init");
  EXPECT_EQ(lower_MPI_Request_free(&requests[2]), kSuccess);
  EXPECT_EQ(lower_MPI_Waitany(2, requests, &index, &s), kSuccess);
  EXPECT_EQ(index, 0);
  is_null("Irecv");
  EXPECT_EQ(lower_MPI_Wait(&requests[1], nullptr), kSuccess);
  EXPECT_EQ(value, 7);
  cut();
}

TEST_F(Semantics, NullAndInactiveRequestsAreCompleteAndNeverChosen) {
  int value = 0, index = 0, flag = 0, count = 0, indices[3];
  Vid requests[3] = {kNoRequest, 0, kNoRequest};
  EXPECT_EQ(lower_MPI_Recv_init(&value, 1, kInt, peer, 1, kWorld, &requests[1]), kSuccess);
  Status s{1, 1, 1, 1, 1}, statuses[3];
  const auto is_empty = [](const Status& status) {
    EXPECT_EQ(status.source, kAnySource);
    EXPECT_EQ(status.tag, kAnyTag);
    EXPECT_EQ(status.bytes, 0);
    EXPECT_EQ(status.cancelled, 0);
  };
  EXPECT_EQ(lower_MPI_Waitany(3, requests, &index, &s), kSuccess);
  EXPECT_EQ(index, kUndefined);
  is_empty(s);
  EXPECT_EQ(lower_MPI_Testany(3, requests, &index, &flag, nullptr), kSuccess);
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(index, kUndefined);
  EXPECT_EQ(lower_MPI_Waitsome(3, requests, &count, indices, nullptr), kSuccess);
  EXPECT_EQ(count, kUndefined);
  EXPECT_EQ(lower_MPI_Testsome(3, requests, &count, indices, nullptr), kSuccess);
  EXPECT_EQ(count, kUndefined);
  EXPECT_EQ(lower_MPI_Waitall(3, requests, statuses), kSuccess);
  for (const Status& each : statuses) is_empty(each);
  EXPECT_EQ(lower_MPI_Test(&requests[1], &flag, &s), kSuccess);
  EXPECT_EQ(flag, 1);
  is_empty(s);
  EXPECT_NE(requests[1], kNoRequest);
  EXPECT_EQ(lower_MPI_Request_get_status(requests[0], &flag, &s), kSuccess);
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(lower_MPI_Request_free(&requests[0]), kErrRequest);
  EXPECT_EQ(lower_MPI_Request_free(&requests[1]), kSuccess);
  EXPECT_EQ(lower_MPI_Waitall(0, nullptr, nullptr), kSuccess);
}

TEST_F(Semantics, EmptyMessagesAreMessages) {
  Status s{};
  if (rank == 0) {
    EXPECT_EQ(lower_MPI_Send(nullptr, 0, kInt, 1, 1, kWorld), kSuccess);
    EXPECT_EQ(lower_MPI_Send(nullptr, 0, kInt, 1, 2, kWorld), kSuccess);
  }
  cut();
  if (rank == 1) {
    int value = 3;
    EXPECT_EQ(lower_MPI_Recv(&value, 1, kInt, 0, kAnyTag, kWorld, &s), kSuccess);
    EXPECT_EQ(s.tag, 1);
    EXPECT_EQ(s.bytes, 0);
    EXPECT_EQ(lower_MPI_Recv(nullptr, 0, kInt, kAnySource, 2, kWorld, &s), kSuccess);
    EXPECT_EQ(s.source, 0);
    EXPECT_EQ(value, 3);
  }
}

TEST_F(Semantics, ATruncatedMessageCountsAsReceived) {
  const int four[4] = {1, 2, 3, 4};
  int two[2] = {};
  Status s{}, statuses[2];
  if (rank == 0) {
    for (int tag = 0; tag < 4; ++tag) EXPECT_EQ(lower_MPI_Send(four, 4, kInt, 1, tag, kWorld), kSuccess);
    send(5, 1, 4);
  } else {
    EXPECT_EQ(lower_MPI_Recv(two, 2, kInt, 0, 0, kWorld, &s), kErrTruncate);
    EXPECT_EQ(s.source, 0);
    Vid requests[2] = {};
    EXPECT_EQ(lower_MPI_Irecv(two, 2, kInt, kAnySource, 1, kWorld, &requests[0]), kSuccess);
    EXPECT_EQ(lower_MPI_Irecv(two, 2, kInt, 0, 4, kWorld, &requests[1]), kSuccess);
    EXPECT_EQ(lower_MPI_Waitall(2, requests, statuses), kErrInStatus);
    EXPECT_EQ(statuses[0].error, kErrTruncate);
    EXPECT_EQ(statuses[1].error, kSuccess);
    EXPECT_EQ(lower_MPI_Sendrecv(four, 1, kInt, kProcNull, 0, two, 2, kInt, 0, 2, kWorld, &s), kErrTruncate);
    Vid message = 0;
    EXPECT_EQ(lower_MPI_Mprobe(0, 3, kWorld, &message, nullptr), kSuccess);
    EXPECT_EQ(lower_MPI_Mrecv(two, 2, kInt, &message, &s), kErrTruncate);
  }
  cut();
}

TEST_F(Semantics, AnInvalidReceiveLeavesADrainedMessageWhereItIs) {
  if (rank == 0) send(31, 1, 1);
  cut();
  if (rank == 1) {
    int value = -1;
    EXPECT_EQ(lower_MPI_Recv(&value, -1, kInt, 0, 1, kWorld, nullptr), kErrCount);
    const Vid no_type = cropdl::seam::make_vid(cropdl::seam::Kind::kDatatype, 0);
    EXPECT_EQ(lower_MPI_Recv(&value, 1, no_type, 0, 1, kWorld, nullptr), cropdl::seam::kErrType);
    EXPECT_EQ(lower_MPI_Recv(&value, 1, kInt, 0, 1, kWorld, nullptr), kSuccess);
    EXPECT_EQ(value, 31);
  }
}

TEST_F(Semantics, AReceivePendingOnAFreedCommunicatorIsNamedEvenIfItsHandleIsInUseAgain) {
  Vid comm = 0, again = 0, request = kNoRequest;
  int value = -1;
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &comm), kSuccess);
  const Vid handle = comm;
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Irecv(&value, 1, kInt, 0, 1, comm, &request), kSuccess);
  }
  EXPECT_EQ(lower_MPI_Comm_free(&comm), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &again), kSuccess);
  EXPECT_EQ(again, handle);
  EXPECT_EQ(runtime->drain_trouble(),
            rank == 1 ? "MPI_Irecv: a receive is pending on a communicator that was freed" : "");
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Cancel(&request), kSuccess);
    EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
    EXPECT_EQ(runtime->drain_trouble(), "");
  }
  EXPECT_EQ(lower_MPI_Comm_free(&again), kSuccess);
}

TEST_F(Semantics, AReceivePendingBetweenGroupsOnAFreedCommunicatorIsNamed) {
  Vid comm = 0, request = kNoRequest;
  int value = -1;
  EXPECT_EQ(lower_MPI_Intercomm_create(kVid_MPI_COMM_SELF, 0, kWorld, 1 - rank, 5, &comm), kSuccess);
  EXPECT_EQ(lower_MPI_Irecv(&value, 1, kInt, 0, 1, comm, &request), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_free(&comm), kSuccess);
  EXPECT_EQ(runtime->drain_trouble(), "MPI_Irecv: a receive is pending on a communicator that was freed");
  EXPECT_EQ(lower_MPI_Cancel(&request), kSuccess);
  EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
  EXPECT_EQ(runtime->drain_trouble(), "");
}

TEST_F(Semantics, AStartedReceiveThatIsFreedStillTakesItsMessageAndHindersNoCut) {
  static int value = -1;
  if (rank == 1) {
    Vid request = 0;
    EXPECT_EQ(lower_MPI_Recv_init(&value, 1, kInt, 0, 1, kWorld, &request), kSuccess);
    EXPECT_EQ(lower_MPI_Start(&request), kSuccess);
    EXPECT_EQ(lower_MPI_Request_free(&request), kSuccess);
    EXPECT_EQ(request, kNoRequest);
  }
  EXPECT_EQ(runtime->refusal(), "");
  cut();  // posts the receive again
  if (rank == 0) send(17, 1, 1);
  cut();
  if (rank == 1) {
    EXPECT_EQ(value, 17);
  }
}

TEST_F(Semantics, APersistentReceiveKeepsATypeThatIsFreed) {
  int values[3] = {-1, -1, -1};
  if (rank == 0) {
    const int two[2] = {8, 9};
    EXPECT_EQ(lower_MPI_Send(two, 2, kInt, 1, 4, kWorld), kSuccess);
  }
  cut();
  if (rank == 1) {
    Vid pair = 0, request = 0;
    EXPECT_EQ(lower_MPI_Type_vector(2, 1, 2, kInt, &pair), kSuccess);
    EXPECT_EQ(lower_MPI_Type_commit(&pair), kSuccess);
    EXPECT_EQ(lower_MPI_Recv_init(values, 1, pair, 0, 4, kWorld, &request), kSuccess);
    EXPECT_EQ(lower_MPI_Type_free(&pair), kSuccess);
    EXPECT_EQ(lower_MPI_Start(&request), kSuccess);
    EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
    EXPECT_EQ(values[0], 8);
    EXPECT_EQ(values[1], -1);
    EXPECT_EQ(values[2], 9);
    EXPECT_EQ(lower_MPI_Request_free(&request), kSuccess);
  }
}

TEST_F(Semantics, APersistentCollectiveCanBeStartedAgainAndAgain) {
  Vid request = kNoRequest;
  const int made = lower_MPI_Barrier_init(kWorld, kNoInfo, &request);
  if (made == kErrUnsupportedOperation) GTEST_SKIP() << "this MPI has no MPI_Barrier_init";
  ASSERT_EQ(made, kSuccess);
  int index = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(lower_MPI_Waitany(1, &request, &index, nullptr), kSuccess);
    EXPECT_EQ(index, kUndefined);  // not started
    ASSERT_EQ(lower_MPI_Start(&request), kSuccess);
    EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
    ASSERT_NE(request, kNoRequest);
  }
  EXPECT_EQ(runtime->refusal(), "MPI_Barrier_init: a persistent request exists");
  EXPECT_EQ(lower_MPI_Request_free(&request), kSuccess);
  EXPECT_EQ(runtime->refusal(), "");
}

int generalized_freed;
int generalized(GeneralizedCallbacks*, int what, Status*, int) {
  generalized_freed += what == kFreeGeneralized;
  return MPI_SUCCESS;
}

TEST_F(Semantics, AGeneralizedRequestThatIsFreedEarlyIsEndedByItsCompletion) {
  GeneralizedCallbacks callbacks{generalized};
  Vid request = kNoRequest, next = kNoRequest;
  int flag = 1;
  generalized_freed = 0;
  ASSERT_EQ(lower_MPI_Grequest_start(&callbacks, &request), kSuccess);
  const Vid kept = request;
  EXPECT_EQ(lower_MPI_Request_free(&request), kSuccess);
  EXPECT_EQ(request, kNoRequest);
  EXPECT_EQ(generalized_freed, 0);
  EXPECT_EQ(runtime->refusal(), "MPI_Grequest_start: a request is not complete");
  ASSERT_EQ(lower_MPI_Grequest_start(&callbacks, &next), kSuccess);
  EXPECT_EQ(lower_MPI_Grequest_complete(kept), kSuccess);
  EXPECT_EQ(generalized_freed, 1);
  EXPECT_EQ(lower_MPI_Test(&next, &flag, nullptr), kSuccess);
  EXPECT_EQ(flag, 0);  // a different message
  EXPECT_EQ(lower_MPI_Grequest_complete(next), kSuccess);
  EXPECT_EQ(lower_MPI_Request_free(&next), kSuccess);
  EXPECT_EQ(generalized_freed, 2);
  EXPECT_EQ(runtime->refusal(), "");
  cut();
}

// A rank may continue and send before another has reposted the receives that the cut took back.
TEST_F(Semantics, AReadySendFindsItsReceiveAfterACutToo) {
  int value = -1;
  Vid request = 0;
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Irecv(&value, 1, kInt, 0, 1, kWorld, &request), kSuccess);
  }
  drain();
  ASSERT_TRUE(runtime->quiesce());
  everyone();
  if (rank == 0) {
    runtime->resume();
    const int sent = 23;
    EXPECT_EQ(lower_MPI_Rsend(&sent, 1, kInt, 1, 1, kWorld), kSuccess);
  }
  everyone();
  if (rank == 1) {
    runtime->resume();
    EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
    EXPECT_EQ(value, 23);
  }
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, 2); }

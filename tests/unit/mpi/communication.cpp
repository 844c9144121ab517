// Point-to-point communication, requests, message drain and hold of the lower half's MPI runtime, one process
// per rank. Run as `mpirun -n 2 lower_communication_<mpi>`.
#include "tests/unit/mpi/rig.h"
#include "tests/unit/soon.h"

#include "interpose/mpi/lower/counting.h"
#include "interpose/mpi/lower/state.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

using namespace rig;

// --- An MPI that fails on demand: in the n-th call from now on, or in the call with this buffer.
namespace {
int failing_cancel, failing_wait, failing_start;
const void* failing_receive;
MPI_Comm hidden = MPI_COMM_NULL;  // its messages seem to be still on their way
bool due(int* calls) { return *calls > 0 && --*calls == 0; }
}  // namespace

extern "C" {
int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (buffer == failing_receive) return MPI_ERR_INTERN;
  return PMPI_Irecv(buffer, count, type, source, tag, comm, request);
}
int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  if (hidden == MPI_COMM_NULL || comm != hidden) return PMPI_Iprobe(source, tag, comm, flag, status);
  *flag = 0;
  return MPI_SUCCESS;
}
int MPI_Cancel(MPI_Request* request) { return due(&failing_cancel) ? MPI_ERR_INTERN : PMPI_Cancel(request); }
int MPI_Publish_name(const char*, MPI_Info, const char*) { return MPI_SUCCESS; }
int MPI_Start(MPI_Request* request) { return due(&failing_start) ? MPI_ERR_INTERN : PMPI_Start(request); }
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  const int code = PMPI_Wait(request, status);
  return due(&failing_wait) ? MPI_ERR_INTERN : code;
}
}

namespace {

int send(int value, int to, int tag, Vid comm = kWorld) {
  return lower_MPI_Send(&value, 1, kInt, to, tag, comm);
}

int receive(int from, int tag, Status* status = nullptr, Vid comm = kWorld) {
  int value = -1;
  EXPECT_EQ(lower_MPI_Recv(&value, 1, kInt, from, tag, comm, status), kSuccess);
  return value;
}

cropdl::coord::RankStatus standing_once_held() {
  cropdl::coord::RankStatus s;
  cropdl::soon([&] {
    s = {};
    libraries.fill_status(s);
    return !s.held.empty();
  });
  return s;
}

// After the barriers of the freed communicators have completed.
void expect_counts_of(size_t communicators) {
  cropdl::coord::RankStatus s;
  cropdl::soon([&] {
    runtime->drain_step();
    s = {};
    libraries.fill_status(s);
    return s.counts.size() == communicators;
  });
  EXPECT_EQ(s.counts.size(), communicators);
}

// Takes all that the persistent heap has left. Later, only blocks of sizes that were in use are free again.
class HeapTaken {
 public:
  HeapTaken() {
    for (size_t size = kSmallest; size <= kPage; size *= 2)
      for (int i = 0; i < 64; ++i) taken_.push_back(cropdl::handles::heap_allocate(size - kHeader));
    for (size_t size = size_t{1} << 35; size >= kSmallest; size /= 2)
      while (void* block = cropdl::handles::heap_allocate(size - kHeader)) taken_.push_back(block);
  }
  ~HeapTaken() {
    for (void* block : taken_) cropdl::handles::heap_free(block);
  }
  HeapTaken(const HeapTaken&) = delete;
  HeapTaken& operator=(const HeapTaken&) = delete;

 private:
  static constexpr size_t kHeader = 16, kSmallest = 32, kPage = 4096;
  std::vector<void*> taken_;
};

class Communication : public ::testing::Test {
 protected:
  void SetUp() override { everyone(); }
  void TearDown() override { everyone(); }
  const int peer = 1 - rank;
};

TEST_F(Communication, AMessageArrivesWithItsStatus) {
  if (rank == 0) {
    const int three[3] = {1, 2, 3};
    EXPECT_EQ(lower_MPI_Send(three, 3, kInt, 1, 7, kWorld), kSuccess);
  } else {
    int into[5] = {};
    Status s{};
    EXPECT_EQ(lower_MPI_Recv(into, 5, kInt, kAnySource, kAnyTag, kWorld, &s), kSuccess);
    EXPECT_EQ(into[2], 3);
    EXPECT_EQ(s.source, 0);
    EXPECT_EQ(s.tag, 7);
    EXPECT_EQ(s.bytes, 12);
  }
}

TEST_F(Communication, ProcNullNeitherBlocksNorCounts) {
  const auto before = runtime->sent();
  EXPECT_EQ(send(1, kProcNull, 0), kSuccess);
  Status s{};
  EXPECT_EQ(lower_MPI_Recv(nullptr, 0, kInt, kProcNull, 0, kWorld, &s), kSuccess);
  EXPECT_EQ(s.source, kProcNull);
  EXPECT_EQ(runtime->sent(), before);
}

TEST_F(Communication, AnErrorOfTheMpiBecomesItsClass) {
  EXPECT_EQ(send(1, 77, 0), kErrRank);
  cut();  // and no message is expected from it
}

TEST_F(Communication, ABlockedReceiveIsInterruptedAndContinued) {
  int value = -1;
  Status s{};
  if (rank == 1) {
    want(true);
    EXPECT_EQ(lower_MPI_Recv(&value, 1, kInt, 0, 3, kWorld, &s), kAgain);
    EXPECT_NE(thread_record.pending[0], 0u);
    EXPECT_EQ(lower_MPI_Recv(&value, 1, kInt, 0, 3, kWorld, &s), kAgain);
    want(false);
  }
  cut();
  if (rank == 0) {
    EXPECT_EQ(send(42, 1, 3), kSuccess);
  } else {
    EXPECT_EQ(lower_MPI_Recv(&value, 1, kInt, 0, 3, kWorld, &s), kSuccess);
    EXPECT_EQ(value, 42);
    EXPECT_EQ(s.tag, 3);
    EXPECT_EQ(thread_record.pending[0], 0u);
  }
}

TEST_F(Communication, DrainedMessagesKeepOrderTagsAndWildcards) {
  if (rank == 0) {
    for (int i = 0; i < 10; ++i) send(100 + i, 1, i % 2);
  }
  cut();
  if (rank == 1) {
    Status s{};
    EXPECT_EQ(receive(0, 1, &s), 101);
    EXPECT_EQ(s.tag, 1);
    EXPECT_EQ(receive(kAnySource, kAnyTag, &s), 100);
    EXPECT_EQ(receive(kAnySource, 1), 103);
    for (int want_value : {102, 104, 106, 108}) EXPECT_EQ(receive(0, 0), want_value);
    int flag = 0;
    EXPECT_EQ(lower_MPI_Iprobe(0, kAnyTag, kWorld, &flag, &s), kSuccess);
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(s.bytes, 4);
    for (int want_value : {105, 107, 109}) EXPECT_EQ(receive(0, kAnyTag), want_value);
    EXPECT_EQ(lower_MPI_Iprobe(0, kAnyTag, kWorld, &flag, &s), kSuccess);
    EXPECT_EQ(flag, 0);
  }
}

TEST_F(Communication, LaterMessagesComeAfterDrainedOnes) {
  if (rank == 0) send(1, 1, 5);
  cut();
  if (rank == 0) send(2, 1, 5);
  cut();
  if (rank == 0) send(3, 1, 5);
  if (rank == 1) {
    for (int want_value : {1, 2, 3}) EXPECT_EQ(receive(kAnySource, 5), want_value);
  }
}

TEST_F(Communication, MessagesToOneselfAreDrained) {
  Vid request = 0;
  const int value = 5;
  EXPECT_EQ(lower_MPI_Isend(&value, 1, kInt, rank, 9, kWorld, &request), kSuccess);
  cut();
  EXPECT_EQ(receive(rank, 9), 5);
  EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
}

TEST_F(Communication, LargeSendsCompleteBecauseTheReceiverDrains) {
  constexpr int kCount = 3 << 20;
  auto* data = program<int>(0);
  Vid request = 0;
  for (int i = 0; i < kCount; ++i) data[i] = rank == 0 ? i : 0;
  if (rank == 0) {
    EXPECT_EQ(lower_MPI_Isend(data, kCount, kInt, 1, 1, kWorld, &request), kSuccess);
  }
  cut();
  if (rank == 0) {
    memset(data, 0, kCount * sizeof(int));  // complete: the buffer belongs to the program again
    Status s{};
    EXPECT_EQ(lower_MPI_Wait(&request, &s), kSuccess);
    EXPECT_EQ(request, make_vid(Kind::kRequest, 0));
  } else {
    Status s{};
    EXPECT_EQ(lower_MPI_Recv(data, kCount, kInt, 0, 1, kWorld, &s), kSuccess);
    EXPECT_EQ(s.bytes, int64_t{kCount} * 4);
    long wrong = 0;
    for (int i = 0; i < kCount; ++i) wrong += data[i] != i;
    EXPECT_EQ(wrong, 0);
  }
}

TEST_F(Communication, ARankBlockedInANativeSendIsFreedByTheDrain) {
  constexpr int kCount = 2 << 20;
  auto* data = program<char>(0);
  MPI_Request done = MPI_REQUEST_NULL;
  if (rank == 0) {
    memset(data, 3, kCount);
    EXPECT_EQ(lower_MPI_Ssend(data, kCount, kByte, 1, 1, kWorld), kSuccess);
    MPI_Ibarrier(aside, &done);
    MPI_Wait(&done, MPI_STATUS_IGNORE);
  } else {
    // Rank 0 cannot report its count as in `cut`; its agent would report more than has arrived.
    const std::vector<cropdl::coord::PeerCount> expected{{0, UINT64_MAX}};
    int flag = 0;
    while (!flag) EXPECT_EQ(lower_MPI_Iprobe(0, 1, kWorld, &flag, nullptr), kSuccess);
    runtime->begin_drain(expected);
    MPI_Ibarrier(aside, &done);
    for (int reached = 0; !reached;) {
      EXPECT_FALSE(runtime->drain_step());
      MPI_Test(&done, &reached, MPI_STATUS_IGNORE);
    }
    memset(data, 0, kCount);
    EXPECT_EQ(lower_MPI_Recv(data, kCount, kByte, kAnySource, kAnyTag, kWorld, nullptr), kSuccess);
    EXPECT_EQ(data[kCount - 1], 3);
  }
  everyone();
  cut();
}

TEST_F(Communication, PendingReceivesSurviveInPostingOrder) {
  int values[3] = {};
  Vid requests[3] = {};
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Irecv(&values[0], 1, kInt, kAnySource, kAnyTag, kWorld, &requests[0]), kSuccess);
    EXPECT_EQ(lower_MPI_Irecv(&values[1], 1, kInt, 0, 2, kWorld, &requests[1]), kSuccess);
    EXPECT_EQ(lower_MPI_Irecv(&values[2], 1, kInt, 0, kAnyTag, kWorld, &requests[2]), kSuccess);
  }
  cut();
  cut();
  if (rank == 0) {
    for (int i = 0; i < 3; ++i) send(10 + i, 1, 2);
  } else {
    Status statuses[3];
    EXPECT_EQ(lower_MPI_Waitall(3, requests, statuses), kSuccess);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(values[i], 10 + i);
      EXPECT_EQ(statuses[i].source, 0);
    }
  }
}

TEST_F(Communication, AReceiveThatCannotBePostedAgainCompletesWithTheError) {
  int values[4] = {-1, -1, -1, -1};
  Vid requests[4] = {};
  if (rank == 1) {
    for (size_t i = 0; i < 3; ++i)
      ASSERT_EQ(lower_MPI_Irecv(&values[i], 1, kInt, 0, 2, kWorld, &requests[i]), kSuccess);
    ASSERT_EQ(lower_MPI_Recv_init(&values[3], 1, kInt, 0, 3, kWorld, &requests[3]), kSuccess);
    ASSERT_EQ(lower_MPI_Start(&requests[3]), kSuccess);
    failing_receive = &values[1];
    failing_start = 1;
  }
  cut();
  failing_receive = nullptr;
  if (rank == 0) {
    send(10, 1, 2);
    send(11, 1, 2);
    send(12, 1, 3);
  } else {
    for (size_t failed : {1, 3}) {
      int flag = 0;
      Status s{};
      thread_record.failed[0] = 0;
      EXPECT_EQ(lower_MPI_Test(&requests[failed], &flag, &s), kErrIntern);
      ASSERT_EQ(flag, 1);
      EXPECT_EQ(s.error, kErrIntern);
      EXPECT_EQ(thread_record.failed[0], kWorld);  // whose error handler is called
    }
    EXPECT_EQ(requests[1], make_vid(Kind::kRequest, 0));
    EXPECT_EQ(lower_MPI_Wait(&requests[0], nullptr), kSuccess);
    EXPECT_EQ(lower_MPI_Wait(&requests[2], nullptr), kSuccess);
    EXPECT_EQ(values[0], 10);
    EXPECT_EQ(values[1], -1);
    EXPECT_EQ(values[2], 11);
    ASSERT_EQ(lower_MPI_Start(&requests[3]), kSuccess);  // inactive and usable again
    EXPECT_EQ(lower_MPI_Wait(&requests[3], nullptr), kSuccess);
    EXPECT_EQ(values[3], 12);
    EXPECT_EQ(lower_MPI_Request_free(&requests[3]), kSuccess);
  }
  cut();
}

TEST_F(Communication, AFreedReceiveThatCannotBePostedAgainIsDropped) {
  int value = -1;
  Vid request = 0;
  if (rank == 1) {
    ASSERT_EQ(lower_MPI_Irecv(&value, 1, kInt, 0, 2, kWorld, &request), kSuccess);
    const Vid was = request;
    ASSERT_EQ(lower_MPI_Request_free(&request), kSuccess);
    failing_receive = &value;
    cut();
    failing_receive = nullptr;
    ASSERT_EQ(lower_MPI_Irecv(&value, 1, kInt, 0, 2, kWorld, &request), kSuccess);
    EXPECT_EQ(request, was);  // its number is free again
  } else {
    cut();
    send(13, 1, 2);
  }
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
    EXPECT_EQ(value, 13);
  }
}

TEST_F(Communication, AReceiveThatCannotBeCancelledFailsTheCheckpointAndStays) {
  int values[3] = {-1, -1, -1};
  Vid requests[3] = {};
  if (rank == 1) {
    for (size_t i = 0; i < 3; ++i)
      ASSERT_EQ(lower_MPI_Irecv(&values[i], 1, kInt, 0, 2, kWorld, &requests[i]), kSuccess);
    failing_cancel = 2;
  }
  drain();
  const auto quiet = runtime->quiesce();
  if (rank == 1) {
    ASSERT_FALSE(quiet);
    EXPECT_EQ(quiet.error().message.find("MPI_Irecv: a pending receive cannot be taken back: "), 0u)
        << quiet.error().message;
  } else {
    EXPECT_TRUE(quiet);
  }
  everyone();
  runtime->resume();
  if (rank == 0) {
    for (int i = 0; i < 3; ++i) send(20 + i, 1, 2);
  } else {
    EXPECT_EQ(lower_MPI_Waitall(3, requests, nullptr), kSuccess);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(values[i], 20 + i);
  }
  cut();
}

TEST_F(Communication, AReceiveThatFailsWhileItIsTakenBackCompletesWithTheError) {
  int values[2] = {-1, -1};
  Vid requests[2] = {};
  if (rank == 1) {
    for (size_t i = 0; i < 2; ++i)
      ASSERT_EQ(lower_MPI_Irecv(&values[i], 1, kInt, 0, static_cast<int>(i), kWorld, &requests[i]), kSuccess);
  }
  drain();
  if (rank == 1) failing_wait = 1;
  EXPECT_EQ(static_cast<bool>(runtime->quiesce()), rank == 0);
  failing_wait = 0;
  everyone();
  runtime->resume();
  if (rank == 0) {
    for (int i = 0; i < 2; ++i) send(30 + i, 1, i);
  } else {
    int done = 0;
    for (size_t i = 0; i < 2; ++i) {
      const int result = lower_MPI_Wait(&requests[i], nullptr);
      EXPECT_TRUE(result == kSuccess || result == kErrIntern);
      done += result == kSuccess;
      if (result == kErrIntern) values[i] = receive(0, static_cast<int>(i));
      EXPECT_EQ(values[i], 30 + static_cast<int>(i));
    }
    EXPECT_EQ(done, 1);
  }
  cut();
}

TEST_F(Communication, AReceivePostedBeforeTheCutTakesTheMessageItWasPostedFor) {
  int value = -1;
  Vid request = 0;
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Irecv(&value, 1, kInt, 0, 1, kWorld, &request), kSuccess);
  }
  everyone();
  if (rank == 0) {
    send(1, 1, 1);
    send(2, 1, 1);
  }
  cut();
  if (rank == 1) {
    EXPECT_EQ(receive(0, 1), 2);  // the first message is the request's
    Status s{};
    EXPECT_EQ(lower_MPI_Wait(&request, &s), kSuccess);
    EXPECT_EQ(value, 1);
    EXPECT_EQ(s.bytes, 4);
  }
}

TEST_F(Communication, ADrainedMessageKeepsMpisRulesForTypes) {
  Vid column = 0;
  EXPECT_EQ(lower_MPI_Type_vector(4, 1, 4, kInt, &column), kSuccess);
  EXPECT_EQ(lower_MPI_Type_commit(&column), kSuccess);
  int matrix[16];
  for (int i = 0; i < 16; ++i) matrix[i] = rank == 0 ? i : -1;
  if (rank == 0) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(lower_MPI_Send(matrix + 1, 1, column, 1, i, kWorld), kSuccess);
  }
  cut();
  if (rank == 1) {
    Status s{};
    EXPECT_EQ(lower_MPI_Recv(matrix, 1, column, 0, 0, kWorld, &s), kSuccess);
    EXPECT_EQ(matrix[0], 1);
    EXPECT_EQ(matrix[4], 5);
    EXPECT_EQ(matrix[12], 13);
    EXPECT_EQ(matrix[1], -1);
    int more[6] = {-1, -1, -1, -1, -1, -1};
    // the message is shorter than the buffer
    EXPECT_EQ(lower_MPI_Recv(more, 6, kInt, 0, 1, kWorld, &s), kSuccess);
    EXPECT_EQ(s.bytes, 16);
    EXPECT_EQ(more[3], 13);
    EXPECT_EQ(more[4], -1);
    EXPECT_EQ(lower_MPI_Recv(more, 2, kInt, 0, 2, kWorld, &s), kErrTruncate);  // the message is longer
#if defined(OPEN_MPI)
    EXPECT_EQ(s.bytes, 16);  // of the message
#endif
  }
  EXPECT_EQ(lower_MPI_Type_free(&column), kSuccess);
}

TEST_F(Communication, ATypeFreedWhileAReceiveIsPendingIsStillThereToPostItAgain) {
  Vid pair = 0, request = 0;
  int values[4] = {-1, -1, -1, -1};
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Type_vector(2, 1, 2, kInt, &pair), kSuccess);
    EXPECT_EQ(lower_MPI_Type_commit(&pair), kSuccess);
    EXPECT_EQ(lower_MPI_Irecv(values, 1, pair, 0, 4, kWorld, &request), kSuccess);
    EXPECT_EQ(lower_MPI_Type_free(&pair), kSuccess);
  }
  cut();
  if (rank == 0) {
    const int two[2] = {8, 9};
    EXPECT_EQ(lower_MPI_Send(two, 2, kInt, 1, 4, kWorld), kSuccess);
  } else {
    EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
    EXPECT_EQ(values[0], 8);
    EXPECT_EQ(values[1], -1);
    EXPECT_EQ(values[2], 9);
  }
}

TEST_F(Communication, MatchedMessagesSurviveACut) {
  Vid first = 0, second = 0;
  Status s{};
  if (rank == 0) {
    send(21, 1, 1);
    send(22, 1, 1);
    send(23, 1, 1);
  } else {
    EXPECT_EQ(lower_MPI_Mprobe(0, 1, kWorld, &first, &s), kSuccess);
    EXPECT_EQ(s.bytes, 4);
  }
  cut();
  if (rank == 1) {
    int flag = 0;
    EXPECT_EQ(lower_MPI_Improbe(0, kAnyTag, kWorld, &flag, &second, &s), kSuccess);
    EXPECT_EQ(flag, 1);
  }
  cut();
  if (rank == 1) {
    EXPECT_EQ(receive(0, 1), 23);
    int value = 0;
    EXPECT_EQ(lower_MPI_Mrecv(&value, 1, kInt, &second, &s), kSuccess);
    EXPECT_EQ(value, 22);
    Vid request = 0;
    EXPECT_EQ(lower_MPI_Imrecv(&value, 1, kInt, &first, &request), kSuccess);
    EXPECT_EQ(lower_MPI_Wait(&request, &s), kSuccess);
    EXPECT_EQ(value, 21);
    EXPECT_EQ(s.tag, 1);
    EXPECT_EQ(first, make_vid(Kind::kMessage, 0));
  }
}

TEST_F(Communication, AMatchedMessageOutlivesItsCommunicatorAndIsCounted) {
  const auto from_0 = [] { return *reinterpret_cast<const uint64_t*>(cropdl::mpi::state->received); };
  for (const bool in_a_cut : {false, true}) {
    Vid other = 0, next = 0, message = 0;
    int value = -1;
    EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &other), kSuccess);
    if (rank == 0) {
      send(41, 1, 1, other);
    } else {
      EXPECT_EQ(lower_MPI_Mprobe(0, 1, other, &message, nullptr), kSuccess);
    }
    EXPECT_EQ(lower_MPI_Comm_free(&other), kSuccess);
    // The number is reused; its rank 0 is another process.
    EXPECT_EQ(lower_MPI_Comm_split(kWorld, 0, -rank, &next), kSuccess);
    const uint64_t before = from_0();
    if (in_a_cut) cut();
    if (rank == 1) {
      EXPECT_EQ(lower_MPI_Mrecv(&value, 1, kInt, &message, nullptr), kSuccess);
      EXPECT_EQ(value, 41);
      EXPECT_EQ(from_0(), before + 1);
    }
    EXPECT_EQ(lower_MPI_Comm_free(&next), kSuccess);
    cut();  // would wait for an uncounted message
  }
}

TEST_F(Communication, ExchangesLeaveAndGoOn) {
  int out = 10 + rank, in = -1;
  Status s{};
  want(true);
  int r = lower_MPI_Sendrecv(&out, 1, kInt, peer, 1, &in, 1, kInt, peer, rank == 0 ? 2 : 1, kWorld, &s);
  want(false);
  if (rank == 0) {  // waits for tag 2, which nobody sent: the wait must have been interrupted
    EXPECT_EQ(r, kAgain);
  }
  cut();
  while (rank == 1 && r == kAgain) {
    r = lower_MPI_Sendrecv(&out, 1, kInt, peer, 1, &in, 1, kInt, peer, 1, kWorld, &s);
  }
  if (rank == 1) {
    EXPECT_EQ(r, kSuccess);
    EXPECT_EQ(in, 10);
    send(99, 0, 2);
    EXPECT_EQ(receive(0, 5), 5);
  } else {
    EXPECT_EQ(lower_MPI_Sendrecv(&out, 1, kInt, peer, 1, &in, 1, kInt, peer, 2, kWorld, &s), kSuccess);
    EXPECT_EQ(in, 99);
    EXPECT_EQ(s.tag, 2);
    send(5, 1, 5);
    EXPECT_EQ(receive(1, 1), 11);  // sent by rank 1's exchange
  }
}

TEST_F(Communication, ReplacingExchangesSendTheOldContents) {
  auto* data = program<int>(0);
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) data[i] = rank * kCount + i;
  int r = kAgain;
  want(true);
  r = lower_MPI_Sendrecv_replace(data, kCount, kInt, peer, 1, peer, 1, kWorld, nullptr);
  want(false);
  cut();
  while (r == kAgain) r = lower_MPI_Sendrecv_replace(data, kCount, kInt, peer, 1, peer, 1, kWorld, nullptr);
  EXPECT_EQ(r, kSuccess);
  long wrong = 0;
  for (int i = 0; i < kCount; ++i) wrong += data[i] != peer * kCount + i;
  EXPECT_EQ(wrong, 0);
}

TEST_F(Communication, BufferedSendsKeepToTheAttachedBuffer) {
  char buffer[1000];
  char message[400] = {7};
  EXPECT_EQ(lower_MPI_Bsend(message, 400, kByte, peer, 1, kWorld), kErrBuffer);
  EXPECT_EQ(lower_MPI_Buffer_attach(buffer, sizeof buffer), kSuccess);
  EXPECT_EQ(lower_MPI_Bsend(message, 400, kByte, peer, 1, kWorld), kSuccess);
  Vid request = 0;
  EXPECT_EQ(lower_MPI_Ibsend(message, 400, kByte, peer, 1, kWorld, &request), kSuccess);
  message[0] = 0;
  EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
  EXPECT_EQ(lower_MPI_Bsend(message, 900 * 2, kByte, peer, 1, kWorld), kErrBuffer);
  cut();
  for (int i = 0; i < 2; ++i) {
    char in[400] = {};
    EXPECT_EQ(lower_MPI_Recv(in, 400, kByte, peer, 1, kWorld, nullptr), kSuccess);
    EXPECT_EQ(in[0], 7);
  }
  void* detached = nullptr;
  int detached_size = 0;
  EXPECT_EQ(lower_MPI_Buffer_detach(&detached, &detached_size), kSuccess);
  EXPECT_EQ(detached, buffer);
  EXPECT_EQ(detached_size, 1000);
}

TEST_F(Communication, EveryFormOfWaitAndTestSeesWhatTheCutCompleted) {
  int values[4] = {};
  Vid requests[4] = {};
  if (rank == 1) {
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(lower_MPI_Irecv(&values[i], 1, kInt, 0, i, kWorld, &requests[i]), kSuccess);
    }
  }
  everyone();
  if (rank == 0) {
    send(1, 1, 1);
    send(2, 1, 2);
  }
  cut();
  if (rank == 1) {
    Status s{}, statuses[4];
    int flag = 0, index = 0, count = 0, indices[4];
    EXPECT_EQ(lower_MPI_Testall(4, requests, &flag, statuses), kSuccess);
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(lower_MPI_Request_get_status(requests[1], &flag, &s), kSuccess);
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(s.tag, 1);
    EXPECT_EQ(lower_MPI_Waitany(4, requests, &index, &s), kSuccess);
    EXPECT_EQ(index, 1);
    EXPECT_EQ(lower_MPI_Waitsome(4, requests, &count, indices, statuses), kSuccess);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(indices[0], 2);
    EXPECT_EQ(statuses[0].tag, 2);
    EXPECT_EQ(lower_MPI_Testany(4, requests, &index, &flag, &s), kSuccess);
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(lower_MPI_Testsome(4, requests, &count, indices, statuses), kSuccess);
    EXPECT_EQ(count, 0);
    want(true);
    EXPECT_EQ(lower_MPI_Waitall(4, requests, statuses), kAgain);
    EXPECT_EQ(lower_MPI_Waitsome(4, requests, &count, indices, statuses), kAgain);
    EXPECT_EQ(lower_MPI_Waitany(4, requests, &index, &s), kAgain);
    want(false);
  }
  everyone();
  if (rank == 0) {
    send(0, 1, 0);
    send(3, 1, 3);
  } else {
    Status statuses[4];
    EXPECT_EQ(lower_MPI_Waitall(4, requests, statuses), kSuccess);
    EXPECT_EQ(values[3], 3);
    int flag = 0, index = 0, count = 0, indices[4];
    EXPECT_EQ(lower_MPI_Testany(4, requests, &index, &flag, nullptr), kSuccess);
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(index, kUndefined);
    EXPECT_EQ(lower_MPI_Testsome(4, requests, &count, indices, statuses), kSuccess);
    EXPECT_EQ(count, kUndefined);
  }
}

TEST_F(Communication, ACancelledReceiveTakesNothing) {
  int value = -1, cancelled = 0;
  Vid request = 0;
  Status s{};
  EXPECT_EQ(lower_MPI_Irecv(&value, 1, kInt, peer, 66, kWorld, &request), kSuccess);
  EXPECT_EQ(lower_MPI_Cancel(&request), kSuccess);
  EXPECT_EQ(lower_MPI_Wait(&request, &s), kSuccess);
  EXPECT_EQ(lower_MPI_Test_cancelled(&s, &cancelled), kSuccess);
  EXPECT_EQ(cancelled, 1);
  cut();
}

TEST_F(Communication, AReceiveFreedByTheProgramStillTakesItsMessage) {
  static int value = -1;
  if (rank == 1) {
    Vid request = 0;
    EXPECT_EQ(lower_MPI_Irecv(&value, 1, kInt, 0, 1, kWorld, &request), kSuccess);
    EXPECT_EQ(lower_MPI_Request_free(&request), kSuccess);
  }
  cut();
  if (rank == 0) send(17, 1, 1);
  cut();
  if (rank == 1) {
    EXPECT_EQ(value, 17);
  }
}

TEST_F(Communication, ReceivesThatTheProgramFreedKeepNoRecordsOnceTheyAreOver) {
  static int value;
  const uint32_t top = cropdl::mpi::state->request_top;
  for (int i = 0; i < 20'000; ++i) {
    Vid request = 0;
    ASSERT_EQ(lower_MPI_Irecv(&value, 1, kInt, peer, 1, kWorld, &request), kSuccess);
    ASSERT_EQ(lower_MPI_Request_free(&request), kSuccess);
    ASSERT_EQ(send(i, peer, 1), kSuccess);
    if (i % 100 == 0) everyone();
  }
  EXPECT_LT(cropdl::mpi::state->request_top, top + 10'000);
  cut();
  EXPECT_EQ(value, 19'999);
}

TEST_F(Communication, AnAbortedDrainLosesNothing) {
  auto* data = program<char>(0);
  constexpr int kCount = 4 << 20;
  Vid request = 0;
  if (rank == 0) {
    memset(data, 9, kCount);
    EXPECT_EQ(lower_MPI_Isend(data, kCount, kByte, 1, 1, kWorld, &request), kSuccess);
    everyone();
    EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
  } else {
    int flag = 0;
    while (!flag) EXPECT_EQ(lower_MPI_Iprobe(0, 1, kWorld, &flag, nullptr), kSuccess);
    runtime->begin_drain({});
    runtime->drain_step();  // has only started to receive it
    cropdl::counting::release();
    everyone();
    EXPECT_EQ(lower_MPI_Recv(data, kCount, kByte, 0, 1, kWorld, nullptr), kSuccess);
    EXPECT_EQ(data[kCount - 1], 9);
  }
  cut();
}

TEST_F(Communication, PersistentRequestsGoOnAfterACutInactiveOrStarted) {
  int value = rank == 0 ? 5 : -1;
  Vid request = 0;
  if (rank == 0) {
    EXPECT_EQ(lower_MPI_Send_init(&value, 1, kInt, 1, 1, kWorld, &request), kSuccess);
  } else {
    EXPECT_EQ(lower_MPI_Recv_init(&value, 1, kInt, 0, 1, kWorld, &request), kSuccess);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(lower_MPI_Start(&request), kSuccess);
    EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
    EXPECT_NE(request, make_vid(Kind::kRequest, 0));
  }
  EXPECT_EQ(value, 5);
  cut();  // inactive
  if (rank == 0) value = 6;
  EXPECT_EQ(lower_MPI_Start(&request), kSuccess);
  EXPECT_EQ(lower_MPI_Start(&request), kErrRequest);  // it is started
  if (rank == 0) {
    EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
  }
  cut();  // complete but not yet asked for
  EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
  EXPECT_EQ(value, 6);
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Start(&request), kSuccess);
  }
  cut();  // a pending receive
  if (rank == 0) {
    value = 7;
    EXPECT_EQ(lower_MPI_Start(&request), kSuccess);
  }
  EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
  EXPECT_EQ(value, 7);
  if (rank == 0) {
    value = 8;
    EXPECT_EQ(lower_MPI_Start(&request), kSuccess);
  }
  cut();  // drained before the receive starts
  EXPECT_EQ(rank == 0 ? kSuccess : lower_MPI_Start(&request), kSuccess);
  EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
  EXPECT_EQ(value, 8);
  EXPECT_EQ(lower_MPI_Request_free(&request), kSuccess);
  cut();  // the counts of both sides agree
}

TEST_F(Communication, APersistentSynchronousSendThatIsPendingIsNamedInTheRefusal) {
  int value = rank;
  Vid request = 0;
  EXPECT_EQ(lower_MPI_Ssend_init(&value, 1, kInt, peer, 4, kWorld, &request), kSuccess);
  EXPECT_EQ(runtime->refusal(), "");
  EXPECT_EQ(lower_MPI_Startall(1, &request), kSuccess);
  EXPECT_EQ(runtime->refusal(), "MPI_Ssend_init: a request is not complete");
  everyone();
  EXPECT_EQ(receive(peer, 4), peer);
  EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
  EXPECT_EQ(runtime->refusal(), "");
  cut();
  EXPECT_EQ(lower_MPI_Request_free(&request), kSuccess);
}

TEST_F(Communication, AnAgreementWaitsForASynchronousSendAndSeesItsReceive) {
  int value = 80 + rank;
  Vid requests[2] = {};
  ASSERT_EQ(lower_MPI_Ssend_init(&value, 1, kInt, peer, 6, kWorld, &requests[1]), kSuccess);
  ASSERT_EQ(lower_MPI_Issend(&value, 1, kInt, peer, 5, kWorld, &requests[0]), kSuccess);
  ASSERT_EQ(lower_MPI_Start(&requests[1]), kSuccess);
  cropdl::coord::RankStatus s;
  libraries.fill_status(s);
  EXPECT_NE(s.refusal.find(": a request is not complete"), std::string::npos) << s.refusal;
  const int64_t patience = std::exchange(cropdl::mpi::patience_with_synchronous_sends, 60'000'000);
  libraries.hold();
  runtime->drive(true);
  s = {};
  libraries.fill_status(s);
  EXPECT_EQ(s.refusal, "");
  EXPECT_EQ(s.inside.size(), 1u);  // so no cut is made
  everyone();
  EXPECT_EQ(receive(peer, 6), 80 + peer);
  EXPECT_EQ(receive(peer, 5), 80 + peer);
  EXPECT_TRUE(cropdl::soon([&] {
    runtime->drive(true);
    s = {};
    libraries.fill_status(s);
    return s.inside.empty();
  }));
  EXPECT_EQ(s.refusal, "");
  cropdl::mpi::patience_with_synchronous_sends = patience;
  everyone();
  cropdl::counting::release();
  cut();
  EXPECT_EQ(lower_MPI_Waitall(2, requests, nullptr), kSuccess);
  EXPECT_EQ(lower_MPI_Request_free(&requests[1]), kSuccess);
}

TEST_F(Communication, APersistentRequestOnACommunicatorThatWasFreedIsRefused) {
  Vid other = 0, request = 0;
  int value = 0;
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &other), kSuccess);
  EXPECT_EQ(lower_MPI_Recv_init(&value, 1, kInt, peer, 4, other, &request), kSuccess);
  EXPECT_EQ(runtime->drain_trouble(), "");
  EXPECT_EQ(lower_MPI_Comm_free(&other), kSuccess);
  EXPECT_EQ(runtime->drain_trouble(),
            "MPI_Recv_init: a persistent request exists on a communicator that was freed");
  EXPECT_EQ(lower_MPI_Request_free(&request), kSuccess);
  EXPECT_EQ(runtime->drain_trouble(), "");
  cut();
}

TEST_F(Communication, PersistentRequestsOfAFreedCommunicatorTakeNoMessageOfTheNextOne) {
  Vid other = 0, next = 0, request = 0;
  int value = rank == 0 ? 5 : -1, flag = 1;
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &other), kSuccess);
  if (rank == 0) {
    EXPECT_EQ(lower_MPI_Send_init(&value, 1, kInt, 1, 4, other, &request), kSuccess);
  } else {
    EXPECT_EQ(lower_MPI_Recv_init(&value, 1, kInt, 0, 4, other, &request), kSuccess);
  }
  const Vid number = other;
  EXPECT_EQ(lower_MPI_Comm_free(&other), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &next), kSuccess);
  EXPECT_NE(next, number);
  if (rank == 0) send(31, 1, 4, next);
  // A cut aborted because of the requests: the message for `next` is in the heap.
  runtime->begin_drain(exchange_counts());
  while (!runtime->drain_step()) {
  }
  everyone();
  EXPECT_NE(runtime->drain_trouble(), "");
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Start(&request), kSuccess);
    EXPECT_EQ(lower_MPI_Test(&request, &flag, nullptr), kSuccess);
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(receive(0, 4, nullptr, next), 31);
  }
  everyone();
  if (rank == 0) {
    EXPECT_EQ(lower_MPI_Start(&request), kSuccess);
  }
  EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
  EXPECT_EQ(value, 5);
  EXPECT_EQ(lower_MPI_Request_free(&request), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_free(&next), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &other), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &next), kSuccess);
  EXPECT_TRUE(other == number || next == number);  // no object uses it any more
  EXPECT_EQ(lower_MPI_Comm_free(&other), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_free(&next), kSuccess);
  cut();
}

TEST_F(Communication, APersistentReceiveTakesTheMessageThatACutTookBeforeItsCommunicatorWasFreed) {
  Vid other = 0, request = 0;
  int value = -1;
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &other), kSuccess);
  if (rank == 0) send(32, 1, 4, other);
  cut();
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Recv_init(&value, 1, kInt, 0, 4, other, &request), kSuccess);
  }
  EXPECT_EQ(lower_MPI_Comm_free(&other), kSuccess);
  if (rank == 1) {
    int flag = 0;
    EXPECT_EQ(lower_MPI_Start(&request), kSuccess);
    EXPECT_EQ(lower_MPI_Test(&request, &flag, nullptr), kSuccess);
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(value, 32);
    if (!flag) {
      EXPECT_EQ(lower_MPI_Cancel(&request), kSuccess);
    }
    EXPECT_EQ(lower_MPI_Request_free(&request), kSuccess);
  }
  cut();
}

TEST_F(Communication, AMessageForAFreedPersistentReceiveIsDropped) {
  Vid other = 0, request = 0;
  int value = -1;
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &other), kSuccess);
  if (rank == 0) send(33, 1, 4, other);
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Recv_init(&value, 1, kInt, 0, 4, other, &request), kSuccess);
  }
  EXPECT_EQ(lower_MPI_Comm_free(&other), kSuccess);
  everyone();
  // A cut aborted because of the request, which leaves its message in place.
  runtime->begin_drain(exchange_counts());
  for (int i = 0; i < 100; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(!runtime->drain_step() || rank == 0);
  }
  everyone();
  if (rank == 1) {
    EXPECT_NE(runtime->drain_trouble(), "");
    EXPECT_EQ(lower_MPI_Request_free(&request), kSuccess);
  }
  cut();
}

TEST_F(Communication, AMessageOnItsWayToAFreedCommunicatorIsNotLostByADrainAgainstEarlyCounts) {
  Vid other = 0;
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &other), kSuccess);
  if (rank == 0) send(34, 1, 4, other);
  hidden = cropdl::mpi::comm(other);
  EXPECT_EQ(lower_MPI_Comm_free(&other), kSuccess);
  everyone();
  // The first order to drain, before rank 0 has told what it has sent.
  runtime->begin_drain({});
  for (int i = 0; i < 100; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    runtime->drain_step();
  }
  everyone();
  hidden = MPI_COMM_NULL;
  runtime->begin_drain(exchange_counts());
  EXPECT_TRUE(cropdl::soon([] { return runtime->drain_step(); }))
      << "the message is lost, and no later cut is possible";
  everyone();
  cut();
}

TEST_F(Communication, ANonblockingCollectiveCompletesInTheDrain) {
  constexpr int kCount = 100'000;  // too large to be sent at once
  Vid requests[2] = {};
  auto* out = program<int>(0);
  auto* in = program<int>(kCount * sizeof(int));
  for (int i = 0; i < kCount; ++i) out[i] = i + rank;
  EXPECT_EQ(lower_MPI_Ibarrier(kWorld, &requests[0]), kSuccess);
  EXPECT_EQ(lower_MPI_Iallreduce(out, in, kCount, kInt, kVid_MPI_SUM, kWorld, &requests[1]), kSuccess);
  EXPECT_EQ(runtime->refusal(), "");
  cut();
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(in[i], 2 * i + 1);
  EXPECT_EQ(lower_MPI_Waitall(2, requests, nullptr), kSuccess);
  EXPECT_EQ(requests[1], make_vid(Kind::kRequest, 0));
  cut();
}

TEST_F(Communication, OverlappingCommunicatorsKeepTheirMessagesApart) {
  Vid other = 0;
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &other), kSuccess);
  if (rank == 0) {
    send(1, 1, 1, other);
    send(2, 1, 1, kWorld);
  }
  cut();
  if (rank == 1) {
    EXPECT_EQ(receive(kAnySource, kAnyTag, nullptr, kWorld), 2);
    EXPECT_EQ(receive(kAnySource, kAnyTag, nullptr, other), 1);
  }
  EXPECT_EQ(lower_MPI_Comm_free(&other), kSuccess);
  cut();
}

TEST_F(Communication, CommunicatorsMadeAndFreedWithoutEndLeaveNoCounts) {
  cropdl::coord::RankStatus before, after;
  cut();
  libraries.fill_status(before);
  for (int i = 0; i < 50; ++i) {
    Vid c = 0;
    EXPECT_EQ(lower_MPI_Comm_split(kWorld, 0, -rank, &c), kSuccess);
    EXPECT_EQ(lower_MPI_Barrier(c), kSuccess);
    EXPECT_EQ(lower_MPI_Comm_free(&c), kSuccess);
  }
  libraries.fill_status(after);
  EXPECT_LE(after.counts.size(),
            before.counts.size() + 8);  // the last ones: the other rank may be behind
  cut();
  expect_counts_of(before.counts.size());
}

TEST_F(Communication, AFreedCommunicatorIsCountedUntilAllMembersHaveFreedIt) {
  Vid late = 0, other = 0;
  cut();
  cropdl::coord::RankStatus before, between;
  libraries.fill_status(before);
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &late), kSuccess);
  if (rank == 0) {
    EXPECT_EQ(lower_MPI_Comm_free(&late), kSuccess);  // does not wait for the other rank
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &other), kSuccess);
    EXPECT_EQ(lower_MPI_Comm_free(&other), kSuccess);
  }
  everyone();
  for (int cuts = 0; cuts < 2; ++cuts) {  // cuts that do not wait for it
    between = {};
    libraries.fill_status(between);
    EXPECT_GT(between.counts.size(),
              before.counts.size());  // without `late`, no rank would know that rank 1 is behind
    cut();
  }
  everyone();
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Comm_free(&late), kSuccess);
  }
  cut();
  expect_counts_of(before.counts.size());
}

TEST_F(Communication, APendingReceiveOutlivesItsFreedCommunicatorsRecord) {
  Vid c = 0, other = 0, request = 0;
  int value = -1;
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &c), kSuccess);
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Irecv(&value, 1, kInt, 0, 5, c, &request), kSuccess);
  }
  Vid keeps = c;
  EXPECT_EQ(lower_MPI_Comm_free(&keeps), kSuccess);
  for (int i = 0; i < 300; ++i) {  // more than are examined at a time
    const Vid self = kVid_MPI_COMM_SELF;
    EXPECT_EQ(lower_MPI_Comm_dup(self, &other), kSuccess);
    EXPECT_EQ(lower_MPI_Comm_free(&other), kSuccess);
  }
  everyone();
  if (rank == 1) {
    EXPECT_EQ(lower_MPI_Cancel(&request), kSuccess);
    EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
  }
  cut();
}

int ends_told;
void sum_up(void*, void* in, void* inout, int length, Vid) {
  if (length == kOperationIsGone) {
    ++ends_told;
    return;
  }
  for (int i = 0; i < length; ++i) static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
}
void never(void*, void*, void*, int length, Vid) {
  if (length == kOperationIsGone) {
    ++ends_told;
  } else {
    ADD_FAILURE() << "another operation's function was called";
  }
}

TEST_F(Communication, AnOperationThatIsFreedStaysUntilItsReductionIsComplete) {
  const int commute = 1 | kOperationIsToldOfItsEnd;
  ends_told = 0;
  for (int i = 0; i < 3000; ++i) {  // more than there are thunks
    Vid op = 0, next = 0, request = 0;
    int mine = rank + i, all = -1;
    ASSERT_EQ(lower_MPI_Op_create(nullptr, commute, &op, reinterpret_cast<void*>(sum_up)), kSuccess);
    if (i % 100 == 0) {
      ASSERT_EQ(lower_MPI_Iallreduce(&mine, &all, 1, kInt, op, kWorld, &request), kSuccess);
      EXPECT_EQ(runtime->refusal(),
                "MPI_Iallreduce: a reduction by an operation of the program's own is not complete");
    }
    const int told = ends_told;
    ASSERT_EQ(lower_MPI_Op_free(&op), kSuccess);
    EXPECT_EQ(op, make_vid(Kind::kOp, 0));
    EXPECT_EQ(ends_told, told + (i % 100 != 0));
    ASSERT_EQ(lower_MPI_Op_create(nullptr, commute, &next, reinterpret_cast<void*>(never)), kSuccess);
    if (i % 100 == 0) {
      ASSERT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
      ASSERT_EQ(all, 2 * i + 1);
      EXPECT_EQ(ends_told, told + 1);
    }
    ASSERT_EQ(lower_MPI_Op_free(&next), kSuccess);
  }
  EXPECT_EQ(ends_told, 6000);
  cut();
}

Vid type_given;
void sum_of_a_type(void*, void* in, void* inout, int length, Vid type) {
  if (length == kOperationIsGone) return;
  type_given = type;
  for (int i = 0; i < length; ++i) static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
}

TEST_F(Communication, AnOperationIsGivenItsTypeThoughTheProgramHasFreedIt) {
  Vid op = 0, type = 0, next = 0, request = 0;
  int mine = rank + 1, all = -1;
  type_given = 1;
  EXPECT_EQ(lower_MPI_Op_create(nullptr, 1, &op, reinterpret_cast<void*>(sum_of_a_type)), kSuccess);
  EXPECT_EQ(lower_MPI_Type_contiguous(1, kInt, &type), kSuccess);
  EXPECT_EQ(lower_MPI_Type_commit(&type), kSuccess);
  const Vid number = type;
  if (rank == 1) everyone();  // so that rank 0 has freed it before it can be counted
  EXPECT_EQ(lower_MPI_Iallreduce(&mine, &all, 1, type, op, kWorld, &request), kSuccess);
  EXPECT_EQ(lower_MPI_Type_free(&type), kSuccess);
  EXPECT_EQ(lower_MPI_Type_contiguous(2, kInt, &next), kSuccess);
  EXPECT_NE(next, number);
  if (rank == 0) everyone();
  EXPECT_EQ(lower_MPI_Wait(&request, nullptr), kSuccess);
  EXPECT_EQ(all, 3);
  if (rank == 0) {
    EXPECT_EQ(type_given, number);
  }
  EXPECT_EQ(lower_MPI_Type_free(&next), kSuccess);
  EXPECT_EQ(lower_MPI_Type_contiguous(2, kInt, &next), kSuccess);
  EXPECT_EQ(lower_MPI_Type_contiguous(2, kInt, &type), kSuccess);
  EXPECT_TRUE(next == number || type == number);  // its number is free again
  EXPECT_EQ(lower_MPI_Type_free(&next), kSuccess);
  EXPECT_EQ(lower_MPI_Type_free(&type), kSuccess);
  EXPECT_EQ(lower_MPI_Op_free(&op), kSuccess);
  cut();
}

TEST_F(Communication, ACallAmongSomeMembersIsHeldLikeACollective) {
  Vid world_group = 0, pair = 0, made = 0;
  EXPECT_EQ(lower_MPI_Comm_group(kWorld, &world_group), kSuccess);
  const int both[] = {0, 1};
  EXPECT_EQ(lower_MPI_Group_incl(world_group, 2, both, &pair), kSuccess);
  everyone();
  if (rank == 1) {
    libraries.hold();
    std::vector<cropdl::coord::CollectiveCount> none;
    cropdl::counting::set_targets(none);
    want(true);
    EXPECT_EQ(lower_MPI_Comm_create_group(kWorld, pair, 4, &made), kAgain);
    Vid inter = 0;
    const Vid self = kVid_MPI_COMM_SELF;
    EXPECT_EQ(lower_MPI_Intercomm_create(self, 0, kWorld, 0, 5, &inter), kAgain);
    want(false);
    cropdl::coord::RankStatus s;
    libraries.fill_status(s);
    EXPECT_TRUE(s.held.empty());  // outside the lower half
    EXPECT_TRUE(s.inside.empty());
    std::vector<cropdl::coord::CollectiveCount> target;
    std::thread agent([&] {  // another rank is inside: the coordinator lets the held one through
      const cropdl::coord::RankStatus now = standing_once_held();
      ASSERT_EQ(now.held.size(), 1u);
      EXPECT_TRUE(now.inside.empty());
      target.push_back({now.held[0].comm, 1});
      cropdl::counting::set_targets(target);
    });
    EXPECT_EQ(lower_MPI_Comm_create_group(kWorld, pair, 4, &made), kSuccess);
    agent.join();
    // Only once: a thread that comes again is held at the target, which another thread's raise does not
    // change.
    std::thread later([&] {
      const cropdl::coord::RankStatus now = standing_once_held();
      ASSERT_EQ(now.held.size(), 1u);
      EXPECT_EQ(now.held[0].comm, target[0].comm);
      EXPECT_TRUE(std::find(now.counts.begin(), now.counts.end(), target[0]) != now.counts.end());
      cropdl::counting::set_targets(target);
      usleep(20'000);
      want(true);
    });
    Vid again = 0;
    EXPECT_EQ(lower_MPI_Comm_create_group(kWorld, pair, 4, &again), kAgain);
    later.join();
    want(false);
    cropdl::counting::release();
  } else {
    EXPECT_EQ(lower_MPI_Comm_create_group(kWorld, pair, 4, &made), kSuccess);
  }
  EXPECT_EQ(lower_MPI_Comm_free(&made), kSuccess);
  EXPECT_EQ(lower_MPI_Group_free(&pair), kSuccess);
  EXPECT_EQ(lower_MPI_Group_free(&world_group), kSuccess);
  cut();
}

TEST_F(Communication, AHeldCollectiveBeginsWhenTheTargetAllowsIt) {
  cropdl::coord::RankStatus status;
  libraries.hold();
  libraries.fill_status(status);
  const auto counts = status.counts;
  std::atomic<bool> passed{false};
  uint64_t world = 0;
  for (const auto& c : counts) world = c.comm == 1 ? c.begun : world;
  ASSERT_GT(world, 0u);
  std::thread agent([&] {
    const cropdl::coord::RankStatus s = standing_once_held();
    EXPECT_EQ(s.held, (std::vector<cropdl::coord::HeldCalls>{{1, world + 1}}));
    EXPECT_TRUE(s.inside.empty());
    EXPECT_EQ(s.counts, counts);
    EXPECT_FALSE(passed);
    std::vector<cropdl::coord::CollectiveCount> same{{1, world}}, more{{1, world + 1}};
    cropdl::counting::set_targets(same);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_FALSE(passed);
    cropdl::counting::set_targets(more);
  });
  EXPECT_EQ(lower_MPI_Barrier(kWorld), kSuccess);
  passed = true;
  agent.join();
  // The next call is beyond the target, and the thread must stop: it leaves without entering the call.
  want(true);
  EXPECT_EQ(lower_MPI_Barrier(kWorld), kAgain);
  want(false);
  status = {};
  libraries.fill_status(status);
  for (const auto& c : status.counts) {
    if (c.comm == 1) {
      EXPECT_EQ(c.begun, world + 1);
    }
  }
  everyone();
  cropdl::counting::release();
  EXPECT_EQ(lower_MPI_Barrier(kWorld), kSuccess);
}

TEST_F(Communication, EachThreadHasItsOwnPosition) {
  ThreadRecord& second = state()->threads[1];
  second.self = &second;
  state()->threads_high = 2;
  std::atomic<int> stage{0};
  const auto wait_for = [&](int s) {
    while (stage != s) std::this_thread::yield();
  };
  std::thread other([&] {
    by_kernel::set_gs_base(reinterpret_cast<uint64_t>(&second));
    EXPECT_TRUE(cropdl::mpi::begin_alone(kFn_MPI_Ssend));
    stage = 1;
    wait_for(2);
    cropdl::mpi::end_collective();
    stage = 3;
  });
  wait_for(1);
  EXPECT_TRUE(cropdl::mpi::begin_collective(kWorld, cropdl::seam::kFn_MPI_Barrier));
  cropdl::coord::RankStatus both, one, none;
  libraries.fill_status(both);
  ASSERT_EQ(both.inside.size(), 2u);
  EXPECT_EQ(both.inside[0], 1u);
  cropdl::mpi::end_collective();
  libraries.fill_status(one);
  EXPECT_EQ(one.inside, std::vector<uint64_t>{both.inside[1]});
  stage = 2;
  wait_for(3);
  libraries.fill_status(none);
  EXPECT_TRUE(none.inside.empty());
  other.join();
}

TEST_F(Communication, ProgressChangesWithEveryMessage) {
  cropdl::coord::RankStatus a, b;
  libraries.fill_status(a);
  if (rank == 0) {
    send(1, 1, 1);
  } else {
    receive(0, 1);
  }
  libraries.fill_status(b);
  EXPECT_NE(a.progress, b.progress);
}

// During its lifetime, all but `but` of the possible requests are in use.
class AllRequestsTaken {
 public:
  explicit AllRequestsTaken(uint32_t but = 0) : top_(state()->request_top), free_(state()->request_free) {
    state()->request_top = cropdl::mpi::kCapacity - but;
    state()->request_free = 0;
  }
  ~AllRequestsTaken() {
    state()->request_top = top_;
    state()->request_free = free_;
  }
  AllRequestsTaken(const AllRequestsTaken&) = delete;
  AllRequestsTaken& operator=(const AllRequestsTaken&) = delete;

 private:
  static cropdl::mpi::State* state() { return cropdl::mpi::state; }
  const uint32_t top_, free_;
};

TEST_F(Communication, BufferedSendsThatAreOverKeepNoRecordsThoughThereIsRoom) {
  static char room[1 << 20];
  const uint32_t top = cropdl::mpi::state->request_top;
  ASSERT_EQ(lower_MPI_Buffer_attach(room, sizeof room), kSuccess);
  for (int i = 0, got = -1; i < 4000; i++) {
    ASSERT_EQ(lower_MPI_Bsend(&i, 1, kInt, peer, 1, kWorld), kSuccess);
    ASSERT_EQ(lower_MPI_Recv(&got, 1, kInt, peer, 1, kWorld, nullptr), kSuccess);
    ASSERT_EQ(got, i);
  }
  EXPECT_LT(cropdl::mpi::state->request_top, top + 2000);
  void* attached = nullptr;
  int size = 0;
  EXPECT_EQ(lower_MPI_Buffer_detach(&attached, &size), kSuccess);
  cut();
}

TEST_F(Communication, WithoutARequestSlotNothingBegins) {
  const Vid no_request = make_vid(Kind::kRequest, 0);
  const auto sent = runtime->sent();
  int value = 41, into = -1;
  char room[256];
  cropdl::coord::RankStatus before, after;
  runtime->fill_status(before);
  ASSERT_EQ(lower_MPI_Buffer_attach(room, sizeof room), kSuccess);
  {
    const AllRequestsTaken taken;
    Vid r = 1;
    EXPECT_EQ(lower_MPI_Isend(&value, 1, kInt, peer, 1, kWorld, &r), kErrIntern);
    EXPECT_EQ(r, no_request);
    EXPECT_EQ(lower_MPI_Issend(&value, 1, kInt, peer, 1, kWorld, &r), kErrIntern);
    EXPECT_EQ(lower_MPI_Ibsend(&value, 1, kInt, peer, 1, kWorld, &r), kErrIntern);
    EXPECT_EQ(lower_MPI_Bsend(&value, 1, kInt, peer, 1, kWorld), kErrIntern);
    EXPECT_EQ(lower_MPI_Irecv(&into, 1, kInt, peer, 1, kWorld, &r), kErrIntern);
    EXPECT_EQ(lower_MPI_Send_init(&value, 1, kInt, peer, 1, kWorld, &r), kErrIntern);
    r = 1;
    EXPECT_EQ(lower_MPI_Ibarrier(kWorld, &r), kErrIntern);
    EXPECT_EQ(r, no_request);
    Vid made = 1;
    EXPECT_EQ(lower_MPI_Comm_idup(kWorld, &made, &r), kErrIntern);
  }
  {
    const AllRequestsTaken taken(1);  // MPI_Ibsend needs two
    Vid r = 1;
    EXPECT_EQ(lower_MPI_Ibsend(&value, 1, kInt, peer, 1, kWorld, &r), kErrIntern);
    EXPECT_EQ(lower_MPI_Isend(&value, 1, kInt, 77, 1, kWorld, &r), kErrRank);  // releases its slot
    EXPECT_EQ(lower_MPI_Isend(&value, 1, kInt, kProcNull, 1, kWorld, &r), kSuccess);
    EXPECT_EQ(lower_MPI_Wait(&r, nullptr), kSuccess);
  }
  everyone();
  int flag = 1;
  EXPECT_EQ(lower_MPI_Iprobe(kAnySource, kAnyTag, kWorld, &flag, nullptr), kSuccess);
  EXPECT_EQ(flag, 0);
  EXPECT_EQ(runtime->sent(), sent);
  runtime->fill_status(after);
  EXPECT_EQ(after.counts, before.counts);
  EXPECT_TRUE(after.inside.empty());
  EXPECT_EQ(runtime->refusal(), "");
  void* attached = nullptr;
  int size = 0;
  EXPECT_EQ(lower_MPI_Buffer_detach(&attached, &size), kSuccess);
  cut();
}

TEST_F(Communication, WithoutAPlaceForItsRequestNoMessageIsLost) {
  if (rank == 0) {
    for (int i = 0; i < 3; ++i) send(50 + i, 1, 1);
  }
  cut();
  if (rank == 1) {
    int value = -1;
    Vid message = 0;
    {
      Vid r = 1;
      EXPECT_EQ(lower_MPI_Mprobe(0, 1, kWorld, &message, nullptr), kSuccess);
      const AllRequestsTaken taken;
      EXPECT_EQ(lower_MPI_Irecv(&value, 1, kInt, 0, 1, kWorld, &r), kErrIntern);  // drained already
      EXPECT_EQ(lower_MPI_Imrecv(&value, 1, kInt, &message, &r), kErrIntern);
      Vid none = kVid_MPI_MESSAGE_NO_PROC;
      EXPECT_EQ(lower_MPI_Imrecv(&value, 1, kInt, &none, &r), kErrIntern);
    }
    EXPECT_EQ(lower_MPI_Mrecv(&value, 1, kInt, &message, nullptr), kSuccess);
    EXPECT_EQ(value, 50);
    EXPECT_EQ(receive(0, 1), 51);
    EXPECT_EQ(receive(0, 1), 52);
  }
  cut();
}

TEST_F(Communication, ABlockingCallThatCannotBeKeptForLaterDoesNotLeave) {
  const int mine = 60 + rank;
  int theirs = -1;
  for (uint32_t places : {0, 1}) {
    if (rank == 1) {
      const AllRequestsTaken taken(places);
      want(true);
      Status s{};
      if (places == 0) {
        EXPECT_EQ(lower_MPI_Recv(&theirs, 1, kInt, 0, 1, kWorld, &s), kSuccess);
        EXPECT_EQ(theirs, 60);
      }
      EXPECT_EQ(lower_MPI_Sendrecv(&mine, 1, kInt, 0, 2, &theirs, 1, kInt, 0, 2, kWorld, &s), kSuccess);
      EXPECT_EQ(theirs, 60);
      EXPECT_EQ(s.tag, 2);
      want(false);
      EXPECT_EQ(thread_record.pending[0] | thread_record.pending[1], 0u);
      thread_record.pending[0] = thread_record.pending[1] = 0;
    } else {
      usleep(20'000);
      if (places == 0) send(mine, 1, 1);
      EXPECT_EQ(receive(1, 2), 61);
      usleep(20'000);
      send(mine, 1, 2);
      int flag = 0;
      EXPECT_EQ(lower_MPI_Iprobe(1, kAnyTag, kWorld, &flag, nullptr), kSuccess);
      EXPECT_EQ(flag, 0);  // once
    }
    everyone();
  }
  cut();
}

TEST_F(Communication, APublishedNameRefusesEveryCheckpoint) {
  EXPECT_EQ(runtime->refusal(), "");
  EXPECT_EQ(lower_MPI_Publish_name("name", make_vid(Kind::kInfo, 0), "port"), kSuccess);
  EXPECT_EQ(runtime->refusal(),
            "MPI_Publish_name: processes or sessions outside MPI_COMM_WORLD cannot be saved");
  cropdl::mpi::state->unsaved_function = 0;  // for the other tests
}

TEST_F(Communication, ACommunicatorBeyondAllIdentitiesRefusesEveryCheckpoint) {
  uint64_t& serial = cropdl::mpi::state->comm_serial;
  const uint64_t before = std::exchange(serial, 0xffff'fffe);
  Vid last = 0, beyond = 0;
  EXPECT_EQ(lower_MPI_Comm_dup(kVid_MPI_COMM_SELF, &last), kSuccess);
  EXPECT_EQ(runtime->refusal(), "");
  EXPECT_EQ(lower_MPI_Comm_dup(kVid_MPI_COMM_SELF, &beyond), kSuccess);
  EXPECT_EQ(runtime->refusal(),
            "MPI_Comm_dup: this rank has been the first one in more than four billion communicators");
  EXPECT_EQ(lower_MPI_Comm_free(&last), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_free(&beyond), kSuccess);
  cropdl::mpi::state->unsaved_function = 0;  // for the other tests
  serial = before;
}

TEST_F(Communication, ManyRequestsAtOnce) {
  constexpr int kCount = 3000;
  std::vector<Vid> requests(2 * kCount);
  auto* out = program<int>(0);
  auto* in = program<int>(1 << 20);
  for (int i = 0; i < kCount; ++i) {
    out[i] = rank * kCount + i;
    EXPECT_EQ(lower_MPI_Irecv(&in[i], 1, kInt, peer, i, kWorld, &requests[static_cast<size_t>(i)]), kSuccess);
  }
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(lower_MPI_Isend(&out[i], 1, kInt, peer, i, kWorld, &requests[static_cast<size_t>(kCount + i)]),
              kSuccess);
    if (i == kCount / 2) cut();
  }
  EXPECT_EQ(lower_MPI_Waitall(2 * kCount, requests.data(), nullptr), kSuccess);
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(in[i], peer * kCount + i);
}

// The last tests, because the heap's large blocks stay taken.
TEST_F(Communication, WithoutMemoryForItsHandleNoMessageIsMatched) {
  if (rank == 0) {
    for (int value : {69, 70}) send(value, 1, 1);
  } else {
    const Vid no_message = make_vid(Kind::kMessage, 0);
    int flag = 0, value = -1;
    Vid message = 1;
    ASSERT_EQ(lower_MPI_Mprobe(0, 1, kWorld, &message, nullptr), kSuccess);  // makes the table of handles
    EXPECT_EQ(lower_MPI_Mrecv(&value, 1, kInt, &message, nullptr), kSuccess);
    while (!flag) ASSERT_EQ(lower_MPI_Iprobe(0, 1, kWorld, &flag, nullptr), kSuccess);
    {
      const HeapTaken taken;
      EXPECT_EQ(lower_MPI_Improbe(0, 1, kWorld, &flag, &message, nullptr), kErrIntern);
      EXPECT_EQ(flag, 0);
      EXPECT_EQ(message, no_message);
      EXPECT_EQ(lower_MPI_Mprobe(0, 1, kWorld, &message, nullptr), kErrIntern);
      EXPECT_EQ(message, no_message);
    }
    ASSERT_EQ(lower_MPI_Mprobe(0, 1, kWorld, &message, nullptr), kSuccess);
    Vid copy = message;
    EXPECT_EQ(lower_MPI_Mrecv(&value, 1, kInt, &message, nullptr), kSuccess);
    EXPECT_EQ(value, 70);
    EXPECT_EQ(lower_MPI_Mrecv(&value, 1, kInt, &copy, nullptr), kErrRequest);
  }
  cut();
}

TEST_F(Communication, WithoutMemoryADisconnectFailsBeforeItsBarrierAndCanBeRepeated) {
  Vid line = 0;
  const int ranks = 2, periodic = 0;
  ASSERT_EQ(lower_MPI_Cart_create(kWorld, 1, &ranks, &periodic, 0, &line), kSuccess);
  const Vid was = line;
  if (rank == 1) {
    {
      const HeapTaken taken;
      EXPECT_EQ(lower_MPI_Comm_disconnect(&line), kErrNoMem);
    }
    EXPECT_EQ(line, was);
  }
  EXPECT_EQ(lower_MPI_Comm_disconnect(&line), kSuccess);
  EXPECT_EQ(line, make_vid(Kind::kComm, 0));
  cut();
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, 2); }

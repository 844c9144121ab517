// links: gpu_cuda
// Events: what is recorded, who waits for which record, and time.
#include <chrono>
#include <thread>

#include "stream_fixture.h"

namespace {

using Numbers = std::vector<int>;

class Events : public StreamTest {};

TEST_F(Events, AStreamWaitsForAnother) {
  CUstream a = stream(), b = stream();
  CUevent e = event();
  EXPECT_CU(hold(a));
  EXPECT_CU(note(a, 1));
  EXPECT_CU(cuEventRecord(e, a));
  EXPECT_CU(cuStreamWaitEvent(b, e, 0));
  EXPECT_CU(note(b, 2));
  EXPECT_EQ(cuEventQuery(e), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
  gate_.open();
  EXPECT_CU(cuStreamSynchronize(b));
  EXPECT_CU(cuEventQuery(e));
  EXPECT_EQ(trace_.numbers(), (Numbers{1, 2}));
}

TEST_F(Events, AWaitIsForTheRecordThatWasLastAtTheCall) {
  CUstream a = stream(), b = stream(), c = stream();
  CUevent e = event();
  EXPECT_CU(cuEventRecord(e, a));  // done
  EXPECT_CU(cuStreamWaitEvent(b, e, 0));
  EXPECT_CU(hold(a));
  EXPECT_CU(cuEventRecord(e, a));  // again, and not done
  EXPECT_CU(note(b, 1));
  EXPECT_CU(cuStreamSynchronize(b));
  EXPECT_EQ(trace_.numbers(), Numbers{1});
  EXPECT_CU(cuStreamWaitEvent(c, e, 0));
  EXPECT_CU(note(c, 2));
  EXPECT_EQ(cuStreamQuery(c), CUDA_ERROR_NOT_READY);
  gate_.open();
  EXPECT_CU(cuEventSynchronize(e));
  EXPECT_CU(cuStreamSynchronize(c));
  EXPECT_EQ(trace_.numbers(), (Numbers{1, 2}));
}

TEST_F(Events, AnEventNeverRecordedIsNoWork) {
  CUstream s = stream();
  CUevent e = event();
  EXPECT_CU(cuEventQuery(e));
  EXPECT_CU(cuEventSynchronize(e));
  EXPECT_CU(cuStreamWaitEvent(s, e, 0));
  EXPECT_CU(note(s, 1));
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(trace_.numbers(), Numbers{1});
}

TEST_F(Events, ARecordInTheLegacyStreamIsOfAllBlockingStreams) {
  CUstream blocking = stream(CU_STREAM_DEFAULT);
  CUevent e = event();
  EXPECT_CU(hold(blocking));
  EXPECT_CU(cuEventRecord(e, nullptr));
  EXPECT_EQ(cuEventQuery(e), CUDA_ERROR_NOT_READY);
  gate_.open();
  EXPECT_CU(cuEventSynchronize(e));
  EXPECT_CU(cuStreamQuery(blocking));
}

TEST_F(Events, TimeIsBetweenRecords) {
  CUstream s = stream();
  CUevent start = event(), end = event(), untimed = event(CU_EVENT_DISABLE_TIMING);
  float ms = -1;
  EXPECT_EQ(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);  // not recorded
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_CU(cuEventRecord(start, s));
  EXPECT_CU(run(s, [] { std::this_thread::sleep_for(std::chrono::milliseconds(25)); }));
  EXPECT_CU(hold(s));
  EXPECT_CU(cuEventRecord(end, s));
  EXPECT_EQ(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_NOT_READY);
  gate_.open();
  EXPECT_CU(cuEventSynchronize(end));
  const std::chrono::duration<float, std::milli> wall = std::chrono::steady_clock::now() - begin;
  EXPECT_CU(cuEventElapsedTime(&ms, start, end));
  EXPECT_GE(ms, 24.9f);
  EXPECT_LE(ms, wall.count() + 1);
  EXPECT_CU(cuEventElapsedTime(&ms, end, start));
  EXPECT_LE(ms, -24.9f);
  EXPECT_CU(cuEventRecord(untimed, s));
  EXPECT_CU(cuEventSynchronize(untimed));
  EXPECT_EQ(cuEventElapsedTime(&ms, start, untimed), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Events, AnEventMayBeDestroyedBeforeItIsDone) {
  CUstream a = stream(), b = stream();
  CUevent e = event();
  EXPECT_CU(hold(a));
  EXPECT_CU(note(a, 1));
  EXPECT_CU(cuEventRecord(e, a));
  EXPECT_CU(cuStreamWaitEvent(b, e, 0));
  EXPECT_CU(cuEventDestroy(e));
  EXPECT_CU(note(b, 2));
  EXPECT_EQ(cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventDestroy(e), CUDA_ERROR_INVALID_HANDLE);
  gate_.open();
  EXPECT_CU(cuStreamSynchronize(b));
  EXPECT_EQ(trace_.numbers(), (Numbers{1, 2}));
}

TEST_F(Events, FlagsAreChecked) {
  CUevent e = nullptr;
  EXPECT_EQ(cuEventCreate(&e, 0x80), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuEventCreate(&e, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuEventCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  e = event(CU_EVENT_BLOCKING_SYNC);
  CUstream s = stream();
  // External records and waits are for captures.
  EXPECT_EQ(cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitEvent(s, e, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitEvent(s, e, 2), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Events, AnEventIsOfItsContext) {
  CUcontext other = nullptr;
  CUcontext first = context_;
  ASSERT_CU(cuCtxCreate_v4(&other, nullptr, 0, device_));
  CUstream there = stream();
  ASSERT_CU(cuCtxSetCurrent(first));
  CUevent e = event();
  EXPECT_EQ(cuEventRecord(e, there), CUDA_ERROR_INVALID_HANDLE);
  CUstream here = stream();
  EXPECT_CU(hold(here));
  EXPECT_CU(note(here, 1));
  EXPECT_CU(cuEventRecord(e, here));
  EXPECT_CU(cuStreamWaitEvent(there, e, 0));  // waiting is allowed
  EXPECT_CU(note(there, 2));
  gate_.open();
  EXPECT_CU(cuStreamSynchronize(there));
  EXPECT_EQ(trace_.numbers(), (Numbers{1, 2}));
  EXPECT_CU(cuCtxDestroy(other));
  EXPECT_EQ(cuStreamQuery(there), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_CU(cuCtxSetCurrent(first));
}

}  // namespace

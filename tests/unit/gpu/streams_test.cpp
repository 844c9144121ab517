// links: gpu_cuda
// Streams: what waits for what, what returns at once, what handles mean.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "stream_fixture.h"
#include "tests/unit/soon.h"

extern "C" {
CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long* id);
CUresult cuStreamSynchronize_ptsz(CUstream stream);
}

// A forked child has the memory of its parent's threads and none of the threads that know it: LeakSanitizer
// asks here before it looks.
static bool leaks_are_the_parents = false;
extern "C" int __lsan_is_turned_off() { return leaks_are_the_parents; }

namespace {

using Numbers = std::vector<int>;

// Each in a process of its own, which the error that stays is the end of. They come first: a child of a
// process that called cuInit has no devices.
int in_child(const std::function<int()>& body) {
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::exit(body());  // as a program ends
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int begin(CUcontext* context) {
  CUdevice device;
  return cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(context, device) ||
         cuCtxSetCurrent(*context);
}

TEST(StreamsEnd, ABrokenContextDropsWorkAndAnswersItsError) {
  EXPECT_EQ(
      in_child([] {
        CUcontext context;
        if (begin(&context)) return 1;
        CUstream s, t;
        if (cuStreamCreate(&s, 0) || cuStreamCreate(&t, CU_STREAM_NON_BLOCKING)) return 2;
        static std::atomic<int> ran{0}, told{0};
        auto fail = [](void*) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
        auto count = [](void*) {
          ++ran;
          return CUDA_SUCCESS;
        };
        // All are given before the first can have run: else these calls would answer the error.
        static Gate& gate = *new Gate;  // never destroyed: a forked child has its waiter
        auto wait = [](void*) {
          gate.pass();
          return CUDA_SUCCESS;
        };
        if (cropdl_software_gpu_enqueue(s, "wait", wait, nullptr, nullptr)) return 3;
        if (cropdl_software_gpu_enqueue(s, "fail", fail, nullptr, nullptr)) return 3;
        if (cropdl_software_gpu_enqueue(s, "count", count, nullptr, nullptr)) return 4;
        if (cuStreamAddCallback(
                s, [](CUstream, CUresult status, void*) { told = status; }, nullptr, 0))
          return 5;
        gate.open();
        if (cuStreamSynchronize(s) != CUDA_ERROR_ILLEGAL_ADDRESS) return 6;
        if (cuStreamSynchronize(t) != CUDA_ERROR_ILLEGAL_ADDRESS) return 7;
        if (cuStreamQuery(t) != CUDA_ERROR_ILLEGAL_ADDRESS) return 8;
        if (cropdl_software_gpu_enqueue(t, "count", count, nullptr, nullptr) != CUDA_ERROR_ILLEGAL_ADDRESS)
          return 9;
        cropdl::soon([] { return told != 0; });
        if (told != CUDA_ERROR_ILLEGAL_ADDRESS) return 10;
        return ran == 0 ? 0 : 11;
      }),
      0);
}

TEST(StreamsEnd, AProcessEndsWithWorkPending) {
  EXPECT_EQ(in_child([] {
              CUcontext context;
              if (begin(&context)) return 1;
              CUstream s;
              if (cuStreamCreate(&s, 0)) return 2;
              for (int i = 0; i < 20; ++i)
                if (cropdl_software_gpu_enqueue(
                        s, "slow",
                        [](void*) {
                          std::this_thread::sleep_for(std::chrono::milliseconds(20));
                          return CUDA_SUCCESS;
                        },
                        nullptr, nullptr))
                  return 3;
              if (cuLaunchHostFunc(
                      s, [](void*) { _exit(99); }, nullptr))
                return 4;
              return 0;
            }),
            0);
}

// Its threads are the program's and the device's; the device's end when they have nothing to do.
TEST(StreamsEnd, AProcessEndsWithItsLastThread) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer has a thread of its own, which never ends";
#endif
  // The child's first thread is this one, which leaves another behind.
  pid_t child = 0;
  std::thread([&child] {
    child = fork();
    if (child != 0) return;
    leaks_are_the_parents = true;
    alarm(60);
    CUcontext context;
    CUstream s;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUDA_HOST_NODE_PARAMS nothing{[](void*) {}, nullptr};
    CUmodule module;
    CUfunction blocks;
    if (begin(&context) || cuStreamCreate(&s, 0) || cuGraphCreate(&graph, 0)) _exit(1);
    for (int i = 0; i < 3; ++i)
      if (cuGraphAddHostNode(&node, graph, nullptr, 0, &nothing)) _exit(2);
    if (cuGraphInstantiate(&exec, graph, 0)) _exit(3);
    const char* empty = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }";
    if (cuModuleLoadData(&module, empty) || cuModuleGetFunction(&blocks, module, "empty")) _exit(5);
    std::thread([=] {
      if (cuCtxSetCurrent(context) || cuGraphLaunch(exec, s) ||
          cuLaunchKernel(blocks, 8, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr) || cuStreamSynchronize(s))
        _exit(4);
    }).detach();
  }).join();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// A static object's destructor runs after those of the main thread's thread_local ones.
TEST(StreamsEnd, StaticObjectsMayStillCall) {
  EXPECT_EQ(in_child([] {
              static bool is_armed = false;
              static struct Last {
                ~Last() {
                  CUcontext context = nullptr;
                  unsigned long long id = 0;
                  if (is_armed &&
                      (cuCtxGetCurrent(&context) || !context || cuCtxSynchronize() ||
                       cuStreamGetId(CU_STREAM_PER_THREAD, &id) || cuStreamSynchronize(CU_STREAM_PER_THREAD)))
                    _exit(7);
                  if (is_armed) _exit(42);
                }
              } last;
              CUcontext context;
              if (begin(&context)) return 1;
              is_armed = true;
              unsigned long long id = 0;
              if (cuStreamGetId(CU_STREAM_PER_THREAD, &id)) return 2;
              return 0;
            }),
            42);
}

TEST(StreamsEnd, AForkedChildGetsAnErrorAndCanExecute) {
  EXPECT_EQ(in_child([] {
              CUcontext context;
              if (begin(&context)) return 1;
              static Gate& gate = *new Gate;  // never destroyed: a forked child has its waiter
              if (cropdl_software_gpu_enqueue(
                      CU_STREAM_PER_THREAD, "wait",
                      [](void*) {
                        gate.pass();
                        return CUDA_SUCCESS;
                      },
                      nullptr, nullptr))
                return 2;
              pid_t child = fork();
              if (child == 0) {
                if (cuStreamSynchronize(nullptr) != CUDA_ERROR_NOT_INITIALIZED) _exit(3);
                execl("/bin/true", "true", nullptr);
                _exit(4);
              }
              int status = 0;
              waitpid(child, &status, 0);
              if (status != 0) return 5;
              child = fork();
              if (child == 0) {
                leaks_are_the_parents = true;
                std::exit(0);  // with the per-thread stream of the parent's thread
              }
              waitpid(child, &status, 0);
              gate.open();
              return status == 0 ? 0 : 6;
            }),
            0);
}

TEST(StreamsEnd, InjectedErrorsAnswerTheCallOrBreakTheContext) {
  EXPECT_EQ(
      in_child([] {
        setenv("CROPDL_SOFTWARE_GPU_FAIL", "library:2:2,library:3", 1);
        CUcontext context;
        if (begin(&context)) return 1;
        auto nothing = [](void*) { return CUDA_SUCCESS; };
        if (cropdl_software_gpu_enqueue(nullptr, "a", nothing, nullptr, nullptr)) return 2;
        if (cropdl_software_gpu_enqueue(nullptr, "b", nothing, nullptr, nullptr) != CUDA_ERROR_OUT_OF_MEMORY)
          return 3;
        if (cuStreamSynchronize(nullptr)) return 4;
        if (cropdl_software_gpu_enqueue(nullptr, "c", nothing, nullptr, nullptr)) return 5;
        return cuStreamSynchronize(nullptr) == CUDA_ERROR_LAUNCH_FAILED ? 0 : 6;
      }),
      0);
}

TEST(StreamsEnd, ASlowDownTakesAtLeastSoManyTimesLonger) {
  EXPECT_EQ(in_child([] {
              setenv("CROPDL_SOFTWARE_GPU_SLOW", "library:5", 1);
              CUcontext context;
              if (begin(&context)) return 1;
              auto start = std::chrono::steady_clock::now();
              auto sleep = [](void*) {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                return CUDA_SUCCESS;
              };
              if (cropdl_software_gpu_enqueue(nullptr, "a", sleep, nullptr, nullptr)) return 2;
              if (cuStreamSynchronize(nullptr)) return 3;
              return std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(100) ? 0 : 4;
            }),
            0);
}

// A program that ought to order two streams and does not: with a seed both orders are seen soon.
TEST(StreamsEnd, ASeedShowsAMissingDependency) {
  int shown = 0;
  for (int seed = 1; seed <= 10; ++seed)
    shown += in_child([seed] {
      setenv("CROPDL_SOFTWARE_GPU_SEED", std::to_string(seed).c_str(), 1);
      CUcontext context;
      if (begin(&context)) return 0;
      CUstream a, b;
      if (cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) || cuStreamCreate(&b, CU_STREAM_NON_BLOCKING)) return 0;
      static std::atomic<int> value{0}, seen{0};
      auto write = [](void*) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        ++value;
        return CUDA_SUCCESS;
      };
      auto read = [](void*) {
        seen = value.load();
        return CUDA_SUCCESS;
      };
      bool early = false, late = false;
      for (int i = 1; i <= 200 && !(early && late); ++i) {
        if (cropdl_software_gpu_enqueue(a, "write", write, nullptr, nullptr)) return 0;
        if (cropdl_software_gpu_enqueue(b, "read", read, nullptr, nullptr)) return 0;
        if (cuCtxSynchronize()) return 0;
        (seen == i ? late : early) = true;
      }
      return early && late ? 1 : 0;
    });
  EXPECT_GE(shown, 9);
}

class Streams : public StreamTest {};

TEST_F(Streams, WorkOfOneStreamIsInOrder) {
  CUstream s = stream();
  Numbers expected;
  for (int i = 0; i < 50; ++i) {
    EXPECT_CU(note(s, i));
    expected.push_back(i);
  }
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(trace_.numbers(), expected);
  EXPECT_CU(cuStreamDestroy(s));
}

TEST_F(Streams, ACallReturnsBeforeItsWorkRuns) {
  CUstream s = stream();
  EXPECT_CU(hold(s));
  EXPECT_CU(note(s, 1));
  EXPECT_EQ(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
  EXPECT_TRUE(trace_.numbers().empty());
  gate_.open();
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_CU(cuStreamQuery(s));
  EXPECT_EQ(trace_.numbers(), Numbers{1});
  EXPECT_CU(cuStreamDestroy(s));
}

TEST_F(Streams, StreamsDoNotWaitForEachOther) {
  CUstream a = stream(), b = stream();
  EXPECT_CU(hold(a));
  EXPECT_CU(note(b, 2));
  EXPECT_CU(cuStreamSynchronize(b));
  EXPECT_EQ(trace_.numbers(), Numbers{2});
  EXPECT_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
  gate_.open();
  EXPECT_CU(cuStreamDestroy(a));
  EXPECT_CU(cuStreamDestroy(b));
}

TEST_F(Streams, TheLegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  CUstream blocking = stream(CU_STREAM_DEFAULT), other = stream(CU_STREAM_DEFAULT), free = stream();
  EXPECT_CU(hold(blocking));
  EXPECT_CU(note(blocking, 1));
  EXPECT_CU(note(nullptr, 2));
  EXPECT_CU(note(other, 3));
  EXPECT_CU(note(free, 0));
  EXPECT_CU(cuStreamSynchronize(free));
  EXPECT_EQ(trace_.numbers(), Numbers{0});
  EXPECT_EQ(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
  gate_.open();
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_EQ(trace_.numbers(), (Numbers{0, 1, 2, 3}));
  for (CUstream s : {blocking, other, free}) EXPECT_CU(cuStreamDestroy(s));
}

TEST_F(Streams, SynchronizingTheLegacyStreamWaitsForBlockingStreams) {
  CUstream blocking = stream(CU_STREAM_DEFAULT);
  EXPECT_CU(run(blocking, [this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    trace_.add(1);
  }));
  EXPECT_CU(cuStreamSynchronize(nullptr));
  EXPECT_EQ(trace_.numbers(), Numbers{1});
  EXPECT_CU(cuStreamDestroy(blocking));
}

TEST_F(Streams, EveryThreadHasAStreamOfItsOwn) {
  unsigned long long mine = 0, again = 0, theirs = 0, legacy = 0;
  EXPECT_CU(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
  EXPECT_CU(cuStreamGetId_ptsz(nullptr, &again));
  EXPECT_CU(cuStreamGetId(nullptr, &legacy));
  std::thread([&] {
    EXPECT_CU(cuCtxSetCurrent(context_));
    EXPECT_CU(cuStreamGetId(CU_STREAM_PER_THREAD, &theirs));
    EXPECT_CU(note(CU_STREAM_PER_THREAD, 5));  // is done although the thread ends
  }).join();
  EXPECT_EQ(mine, again);
  EXPECT_NE(mine, theirs);
  EXPECT_NE(mine, legacy);
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_EQ(trace_.numbers(), Numbers{5});
}

TEST_F(Streams, AThreadsOwnStreamIsABlockingOne) {
  EXPECT_CU(hold(CU_STREAM_PER_THREAD));
  EXPECT_CU(note(CU_STREAM_PER_THREAD, 1));
  EXPECT_CU(note(nullptr, 2));
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  gate_.open();
  EXPECT_CU(cuStreamSynchronize(nullptr));
  EXPECT_EQ(trace_.numbers(), (Numbers{1, 2}));
}

TEST_F(Streams, DestroyingAStreamFinishesItsWork) {
  CUstream s = stream();
  EXPECT_CU(hold(s));
  EXPECT_CU(note(s, 1));
  EXPECT_CU(cuStreamDestroy(s));
  EXPECT_EQ(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(note(s, 2), CUDA_ERROR_INVALID_HANDLE);
  gate_.open();
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_EQ(trace_.numbers(), Numbers{1});
}

TEST_F(Streams, HandlesAreChecked) {
  CUstream s = stream();
  EXPECT_CU(cuStreamDestroy(s));
  EXPECT_EQ(cuStreamDestroy(s), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(CU_STREAM_LEGACY), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamCreate(&s, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  for (int i = 0; i < 100; ++i) EXPECT_NE(stream(), s);  // not given out again at once
}

TEST_F(Streams, PrioritiesAreKeptInTheirRange) {
  int least = 0, greatest = 0, priority = 1;
  ASSERT_CU(cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_LT(greatest, least);
  for (auto [wanted, got] : {std::pair(greatest, greatest), {least, least}, {-100, greatest}, {7, least}}) {
    CUstream s = nullptr;
    EXPECT_CU(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, wanted));
    EXPECT_CU(cuStreamGetPriority(s, &priority));
    EXPECT_EQ(priority, got);
    EXPECT_CU(cuStreamDestroy(s));
  }
}

TEST_F(Streams, AStreamReportsItsProperties) {
  CUstream s = stream(CU_STREAM_NON_BLOCKING);
  unsigned flags = 0;
  CUcontext context = nullptr;
  CUdevice device = -1;
  EXPECT_CU(cuStreamGetFlags(s, &flags));
  EXPECT_EQ(flags, CU_STREAM_NON_BLOCKING);
  EXPECT_CU(cuStreamGetCtx(s, &context));
  EXPECT_EQ(context, context_);
  EXPECT_CU(cuStreamGetDevice(s, &device));
  EXPECT_EQ(device, 0);
  CUstreamAttrValue value{};
  value.syncPolicy = CU_SYNC_POLICY_YIELD;
  EXPECT_CU(cuStreamSetAttribute(s, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  CUstream t = stream();
  EXPECT_CU(cuStreamCopyAttributes(t, s));
  CUstreamAttrValue read{};
  EXPECT_CU(cuStreamGetAttribute(t, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &read));
  EXPECT_EQ(read.syncPolicy, CU_SYNC_POLICY_YIELD);
}

TEST_F(Streams, HostFunctionsRunInOrderAndMayNotCall) {
  CUstream s = stream();
  struct Seen {
    Trace* trace;
    CUresult answer = CUDA_SUCCESS, told = CUDA_ERROR_UNKNOWN;
    CUstream stream = nullptr;
    std::thread::id thread{};
  } seen{&trace_};
  EXPECT_CU(note(s, 1));
  EXPECT_CU(cuLaunchHostFunc(
      s,
      [](void* data) {
        auto* seen = static_cast<Seen*>(data);
        seen->thread = std::this_thread::get_id();
        CUdeviceptr address = 0;
        seen->answer = cuMemAlloc(&address, 64);
        seen->trace->add(2);
      },
      &seen));
  EXPECT_CU(cuStreamAddCallback(
      s,
      [](CUstream stream, CUresult status, void* data) {
        auto* seen = static_cast<Seen*>(data);
        seen->stream = stream;
        seen->told = status;
        EXPECT_EQ(seen->thread, std::this_thread::get_id());
        seen->trace->add(3);
      },
      &seen, 0));
  EXPECT_CU(note(s, 4));
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(trace_.numbers(), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(seen.answer, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(seen.told, CUDA_SUCCESS);
  EXPECT_EQ(seen.stream, s);
  EXPECT_NE(seen.thread, std::this_thread::get_id());
  EXPECT_EQ(cuLaunchHostFunc(s, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Streams, LibraryDataAreReleasedBeforeTheWorkCompletes) {
  CUstream s = stream();
  std::atomic<int> released{0};
  EXPECT_CU(cropdl_software_gpu_enqueue(
      s, "test", [](void*) { return CUDA_SUCCESS; },
      [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &released));
  EXPECT_CU(cuStreamSynchronize(s));
  EXPECT_EQ(released, 1);
}

}  // namespace

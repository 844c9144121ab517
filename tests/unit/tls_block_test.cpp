// links: cropdl_tls_block
// A lower half's main thread continues on a TLS block that another thread lends it.
#include "restart/threads/tls_block.h"

#include <asm/ldt.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <thread>

#include "interpose/seam/thread.h"

namespace {

using namespace cropdl;

thread_local int own = 5;

// In a child: the test program must not lose its own block.
template <class Body>
void in_a_child(Body body) {
  EXPECT_EXIT(
      {
        program_threads::continue_on_low_tls_block();
        body();
        _exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

int32_t thread_id() { return static_cast<int32_t>(syscall(SYS_gettid)); }

TEST(TlsBlock, LiesBelow4GiB) {
  in_a_child([] {
    EXPECT_GE(seam::by_kernel::fs_base(), seam::kLowBegin);
    EXPECT_LT(seam::by_kernel::fs_base(), seam::kLowEnd);
  });
}

TEST(TlsBlock, HasThreadLocalsAndErrnoOfItsOwn) {
  in_a_child([] {
    EXPECT_EQ(own, 5);
    own = 6;
    EXPECT_EQ(close(-1), -1);
    EXPECT_EQ(errno, EBADF);
    int others = 0;
    std::thread([&] { others = own; }).join();
    EXPECT_EQ(others, 5);
    EXPECT_EQ(own, 6);
  });
}

// C library functions on pthread_self() affect this thread, not the one that lent the block.
TEST(TlsBlock, IdentifiesTheThreadThatRunsOnIt) {
  in_a_child([] {
    const int cpu = sched_getcpu();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    EXPECT_EQ(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
    cpu_set_t now;
    EXPECT_EQ(sched_getaffinity(thread_id(), sizeof now, &now), 0);
    EXPECT_EQ(CPU_COUNT(&now), 1);
    EXPECT_TRUE(CPU_ISSET(cpu, &now));
    static volatile int32_t ran_on;
    signal(SIGUSR2, [](int) { ran_on = thread_id(); });
    EXPECT_EQ(pthread_kill(pthread_self(), SIGUSR2), 0);
    EXPECT_EQ(ran_on, thread_id());
  });
}

TEST(TlsBlock, ReportsTheProcessorOfTheThreadThatRunsOnIt) {
  in_a_child([] {
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &all)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      EXPECT_EQ(sched_getcpu(), cpu);
    }
  });
}

// Some virtual machines accept LDT descriptors that their processor does not know: loading one faults.
bool segments_work() {
  const pid_t child = fork();
  if (child == 0) {
    user_desc d{};
    d.limit = 0xfffff;
    d.limit_in_pages = d.seg_32bit = d.useable = 1;
    if (syscall(SYS_modify_ldt, 0x11, &d, sizeof d) != 0) _exit(1);
    __asm__ volatile("mov %0, %%gs" ::"r"(7));
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST(Segments, TheGateReachesBothBlocksBySelector) {
  if (!segments_work()) GTEST_SKIP() << "this machine has no segments";
  in_a_child([] {
    auto record = std::make_unique<seam::ThreadRecord>();
    record->lower_fs = seam::by_kernel::fs_base();
    record->upper_fs = 0x1234'5000;
    program_threads::make_segments(record.get());
    EXPECT_NE(record->lower_selector, 0u);
    EXPECT_NE(record->upper_selector, 0u);
    seam::use_upper_fs(record.get());
    const uint64_t upper = seam::by_kernel::fs_base();
    seam::use_lower_fs(record.get());
    EXPECT_EQ(upper, record->upper_fs);
    EXPECT_EQ(seam::by_kernel::fs_base(), record->lower_fs);
  });
}

TEST(Segments, AHighBlockHasNone) {
  seam::ThreadRecord record{};
  record.lower_fs = 0x7f12'3456'7000;
  record.upper_fs = 0x4a00'0000'1000;
  program_threads::make_segments(&record);
  EXPECT_EQ(record.lower_selector, 0u);
  EXPECT_EQ(record.upper_selector, 0u);
}

}  // namespace

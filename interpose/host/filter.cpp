#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "interpose/host/filter_program.h"
#include "interpose/host/process.h"
#include "interpose/upper/trapped.h"

namespace cropdl::host {
namespace {

// Little endian: the low word of a 64-bit field comes first.
constexpr uint32_t low(size_t field) { return static_cast<uint32_t>(field); }
constexpr uint32_t high(size_t field) { return static_cast<uint32_t>(field) + 4; }
constexpr size_t argument(int i) { return offsetof(seccomp_data, args) + 8 * static_cast<size_t>(i); }

constexpr uint32_t kWindowHigh = seam::kWindowBegin >> 32, kWindowEndHigh = seam::kWindowEnd >> 32;
// The window's first 4 GiB contain no code except the core's, whose calls are trusted.
static_assert((seam::kCore + seam::kCoreSize) >> 32 == kWindowHigh &&
              seam::kHeapBegin >> 32 == kWindowHigh + 1);

using Program = FilterProgram;

enum Label : Program::Label { kNext = Program::kNext, kAllow, kTrap, kAbsent, kFutexTime, kTests };
// The place of the tests of a call's arguments.
constexpr Program::Label test_of(int nr) { return kTests + nr; }

// Targets of the jumps before: trap, or ENOSYS, if the instruction pointer is in the window; else allow.
void put_ends(Program& p) {
  for (const auto& [label, value] :
       {std::pair{kTrap, SECCOMP_RET_TRAP | seam::kTrapData}, {kAbsent, SECCOMP_RET_ERRNO | ENOSYS}}) {
    p.label(label);
    p.load(high(offsetof(seccomp_data, instruction_pointer)));
    p.jump(BPF_JGT, kWindowHigh, kNext, kAllow);
    p.jump(BPF_JGE, kWindowEndHigh, kAllow);
    p.result(value);
  }
  p.label(kAllow);
  p.result(SECCOMP_RET_ALLOW);
}

void test_numbers(Program& p, std::span<const int> numbers, Program::Label found) {
  for (const int nr : numbers) p.jump(BPF_JEQ, static_cast<uint32_t>(nr), found);
}

// What is trapped besides the calls that always are. The core of an older image handles fewer calls.
struct Followed {
  const bool restarted, input;
  const seam::PersistentState* const state = seam::state();
  const bool munmap = state->brk_first != 0;
  const bool segments = state->segments.followed != 0;
  const bool random = state->began != 0;
  const bool rare_calls = state->core_level >= 1;
  const bool level_2 = state->core_level >= 2, level_2_restarted = restarted && level_2;
};

// Calls of which only commands that take or return ids are trapped; so are some of fcntl and ioctl.
constexpr int kIdCalls[] = {__NR_getsockopt, __NR_semctl, __NR_shmctl, __NR_msgctl};

void test_call(Program& p, const Followed& follows) {
  const auto test = [&p](std::initializer_list<int> calls) {
    for (const int nr : calls) p.jump(BPF_JEQ, static_cast<uint32_t>(nr), test_of(nr));
  };
  p.load(offsetof(seccomp_data, arch));
  p.jump(BPF_JEQ, AUDIT_ARCH_X86_64, kNext, kTrap);  // int 0x80
  p.load(offsetof(seccomp_data, nr));
  p.jump(BPF_JGE, 0x40000000, kAbsent);  // of the x32 ABI
  test({__NR_mmap});
  if (follows.munmap) test({__NR_munmap});
  test({__NR_mprotect, __NR_pkey_mprotect, __NR_rt_sigprocmask, __NR_futex, __NR_arch_prctl, __NR_prctl,
        __NR_membarrier, __NR_fcntl, __NR_ioctl});
  if (follows.random) test({__NR_getrandom});
  if (follows.rare_calls) test_numbers(p, upper::kTrappedSinceLevel1, kTrap);
  if (follows.level_2) test_numbers(p, upper::kTrappedSinceLevel2, kTrap);
  if (follows.input) test_numbers(p, upper::kReads, test_of(__NR_read));
  test_numbers(p, upper::kTrapped, kTrap);
  if (follows.segments) test_numbers(p, upper::kTrappedSinceSegments, kTrap);
  test_numbers(p, upper::kMakesDescriptors, kTrap);
  if (follows.restarted) test_numbers(p, upper::kTrappedAfterRestart, kTrap);
  if (follows.level_2_restarted) {
    test_numbers(p, upper::kTrappedAfterRestartSinceLevel2, kTrap);
    for (const int nr : kIdCalls) test({nr});
  }
  test_numbers(p, upper::kAbsent, kAbsent);
  p.result(SECCOMP_RET_ALLOW);
  put_ends(p);
}

// Begins the tests of a call, with the low word of one of its arguments.
void begin_test(Program& p, int nr, int of) {
  p.label(test_of(nr));
  p.load(low(argument(of)));
}

template <class Values = std::initializer_list<uint32_t>>
void trap_any_of(Program& p, const Values& values) {
  const size_t count = std::size(values);
  for (size_t i = 0; i < count; ++i)
    p.jump(BPF_JEQ, std::data(values)[i], kTrap, i + 1 == count ? kAllow : kNext);
}

void trap_outside_window(Program& p) {
  p.load(high(argument(0)));
  p.jump(BPF_JGE, kWindowHigh, kNext, kTrap);
  p.jump(BPF_JGE, kWindowEndHigh, kTrap, kAllow);
}

void test_memory_calls(Program& p) {
  // mmap goes directly to the kernel if it is MAP_FIXED within the window and not executable. Executable
  // mappings are trapped: the core inspects libc's text when it is mapped.
  begin_test(p, __NR_mmap, 3);
  p.jump(BPF_JSET, MAP_FIXED | MAP_FIXED_NOREPLACE, kNext, kTrap);
  p.jump(BPF_JSET, MAP_32BIT, kTrap);
  p.load(low(argument(2)));
  p.jump(BPF_JSET, PROT_EXEC, kTrap);
  trap_outside_window(p);

  // munmap goes directly to the kernel in the window and below 4 GiB: the core does not record it.
  p.label(test_of(__NR_munmap));
  p.load(high(argument(0)));
  p.jump(BPF_JEQ, 0, kAllow);
  p.jump(BPF_JGE, kWindowHigh, kNext, kTrap);
  p.jump(BPF_JGE, kWindowEndHigh, kTrap, kAllow);

  // mprotect: only what becomes executable outside the window, where code is not followed.
  p.label(test_of(__NR_pkey_mprotect));
  begin_test(p, __NR_mprotect, 2);
  p.jump(BPF_JSET, PROT_EXEC, kNext, kAllow);
  trap_outside_window(p);
}

// futex: a wait with a timeout ends when a checkpoint interrupts it; the kernel restarts any other wait. An
// absolute timeout may refer to a clock that differs from the kernel's (upper/clocks.cpp).
void test_futex(Program& p, bool restarted) {
  begin_test(p, __NR_futex, 1);
  p.mask(static_cast<uint32_t>(FUTEX_CMD_MASK));
  p.jump(BPF_JEQ, FUTEX_WAIT, kFutexTime);
  p.jump(BPF_JEQ, FUTEX_WAIT_BITSET, kFutexTime);
  for (const uint32_t command : {FUTEX_LOCK_PI, 13 /* FUTEX_LOCK_PI2 */})
    p.jump(BPF_JEQ, command, restarted ? kTrap : kFutexTime);
  if (restarted)  // their futex words contain ids of the first run
    for (const uint32_t command : {FUTEX_TRYLOCK_PI, FUTEX_UNLOCK_PI}) p.jump(BPF_JEQ, command, kTrap);
  trap_any_of(p, {FUTEX_CMP_REQUEUE_PI, FUTEX_WAIT_REQUEUE_PI});
  p.label(kFutexTime);
  p.load(low(argument(3)));
  p.jump(BPF_JEQ, 0, kNext, kTrap);
  p.load(high(argument(3)));
  p.jump(BPF_JEQ, 0, kAllow, kTrap);
}

void trap_id_commands(Program& p, int nr) {
  for (const upper::IdCommand& c : upper::kIdCommands)
    if (c.nr == nr) p.jump(BPF_JEQ, c.command, kTrap);
}

void test_id_calls(Program& p) {
  for (const int nr : kIdCalls) {
    begin_test(p, nr, upper::command_argument(nr));
    trap_id_commands(p, nr);
    p.result(SECCOMP_RET_ALLOW);
  }
}

void test_other_calls(Program& p, const Followed& follows) {
  begin_test(p, __NR_rt_sigprocmask, 0);  // unblocking is harmless
  p.jump(BPF_JEQ, 1 /* SIG_UNBLOCK */, kAllow, kTrap);

  begin_test(p, __NR_prctl, 0);
  if (follows.rare_calls) p.jump(BPF_JEQ, 26 /* PR_SET_TSC */, kTrap);
  trap_any_of(p, {59 /* PR_SET_SYSCALL_USER_DISPATCH */});

  begin_test(p, __NR_membarrier, 0);
  p.jump(BPF_JSET, seam::kMembarrierRegistrations, kTrap, kAllow);

  begin_test(p, __NR_arch_prctl, 0);
  trap_any_of(p, {0x1001 /* ARCH_SET_GS */, 0x1004 /* ARCH_GET_GS */});

  begin_test(p, __NR_fcntl, 1);
  if (follows.level_2_restarted) trap_id_commands(p, __NR_fcntl);
  if (follows.level_2) test_numbers(p, upper::kLocksSinceLevel2, kTrap);
  trap_any_of(p, {0 /* F_DUPFD */, 1030 /* F_DUPFD_CLOEXEC */, 1026 /* F_NOTIFY */});

  begin_test(p, __NR_ioctl, 1);
  if (follows.level_2_restarted) trap_id_commands(p, __NR_ioctl);
  trap_any_of(p, upper::kDescriptorIoctls);

  begin_test(p, __NR_read, 0);
  trap_any_of(p, {0});
}

}  // namespace

Status install_filter(bool restarted, bool watch_input) {
  const Followed follows{restarted, watch_input};
  Program p;
  test_call(p, follows);
  // No signal interrupts a getrandom of up to 256 bytes (man 2 getrandom).
  begin_test(p, __NR_getrandom, 1);
  p.jump(BPF_JGT, 256, kTrap);
  p.load(high(argument(1)));
  p.jump(BPF_JEQ, 0, kAllow, kTrap);
  test_memory_calls(p);
  test_futex(p, restarted);
  if (follows.level_2_restarted) test_id_calls(p);
  test_other_calls(p, follows);
  put_ends(p);

  Result<std::vector<sock_filter>> code = p.finish();
  if (!code) return code.error();
  const sock_fprog program{static_cast<unsigned short>(code->size()), code->data()};
  // Without this flag (since 4.17) a filter turns speculative store bypass and indirect branch prediction
  // across threads off for good before Linux 5.16: the program would be slower, and see it (man 2 seccomp).
  const auto install = [&](unsigned flags) {
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0;
  };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      !(install(SECCOMP_FILTER_FLAG_SPEC_ALLOW) || (errno == EINVAL && install(0))))
    return Error{
        "cannot install a seccomp filter: {} (containers may forbid it: allow the seccomp system call)",
        errno_text(errno)};
  return {};
}

}  // namespace cropdl::host

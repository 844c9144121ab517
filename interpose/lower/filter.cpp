#include "interpose/lower/filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include "interpose/seam/layout.h"
#include "interpose/upper/trapped.h"

namespace cropdl::lower {
namespace {

// Little endian: the low word of a 64-bit field comes first.
constexpr uint32_t low(size_t field) { return static_cast<uint32_t>(field); }
constexpr uint32_t high(size_t field) { return static_cast<uint32_t>(field) + 4; }
constexpr size_t argument(int i) { return offsetof(seccomp_data, args) + 8 * static_cast<size_t>(i); }

constexpr uint32_t kWindowHigh = seam::kWindowBegin >> 32, kWindowEndHigh = seam::kWindowEnd >> 32;
// Below 4 GiB of the window lies no code but the core's, whose calls are trusted.
static_assert((seam::kCore + seam::kCoreSize) >> 32 == kWindowHigh &&
              seam::kHeapBegin >> 32 == kWindowHigh + 1);

enum Label { kNext, kAllow, kTrapInWindow, kAbsentInWindow, kMmap, kMask, kFcntl, kFutex, kLabels };

struct Instruction {
  sock_filter code;
  Label yes = kNext, no = kNext;
};

class Program {
 public:
  void load(uint32_t offset) { add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void mask(uint32_t bits) { add(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits)); }
  void result(uint32_t value) { add(BPF_STMT(BPF_RET | BPF_K, value)); }
  void jump(uint16_t test, uint32_t value, Label yes, Label no = kNext) {
    instructions_.push_back({BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, 0, 0), yes, no});
  }
  void label(Label l) { at_[l] = instructions_.size(); }
  std::vector<sock_filter> finish() {
    std::vector<sock_filter> out;
    for (size_t i = 0; i < instructions_.size(); ++i) {  // jumps go forward only, at most 255 instructions
      Instruction in = instructions_[i];
      if (in.yes != kNext) in.code.jt = static_cast<uint8_t>(at_[in.yes] - i - 1);
      if (in.no != kNext) in.code.jf = static_cast<uint8_t>(at_[in.no] - i - 1);
      out.push_back(in.code);
    }
    return out;
  }

 private:
  void add(sock_filter code) { instructions_.push_back({code}); }
  std::vector<Instruction> instructions_;
  size_t at_[kLabels] = {};
};

}  // namespace

Status install_filter(bool restarted) {
  Program p;
  p.load(offsetof(seccomp_data, arch));
  p.jump(BPF_JEQ, AUDIT_ARCH_X86_64, kNext, kAllow);
  p.load(offsetof(seccomp_data, nr));
  p.jump(BPF_JEQ, __NR_mmap, kMmap);
  p.jump(BPF_JEQ, __NR_rt_sigprocmask, kMask);
  p.jump(BPF_JEQ, __NR_fcntl, kFcntl);
  if (seam::control()->clocks.monotonic != 0) p.jump(BPF_JEQ, __NR_futex, kFutex);
  for (const int nr : upper::kTrapped) p.jump(BPF_JEQ, static_cast<uint32_t>(nr), kTrapInWindow);
  if (restarted)
    for (const int nr : upper::kTrappedAfterRestart)
      p.jump(BPF_JEQ, static_cast<uint32_t>(nr), kTrapInWindow);
  for (const int nr : upper::kAbsent) p.jump(BPF_JEQ, static_cast<uint32_t>(nr), kAbsentInWindow);
  p.result(SECCOMP_RET_ALLOW);

  // mmap is the kernel's alone when it is MAP_FIXED within the window and not executable (the core looks at
  // libc's text on its way in).
  p.label(kMmap);
  p.load(low(argument(3)));
  p.jump(BPF_JSET, MAP_FIXED | MAP_FIXED_NOREPLACE, kNext, kTrapInWindow);
  p.jump(BPF_JSET, MAP_32BIT, kTrapInWindow);
  p.load(low(argument(2)));
  p.jump(BPF_JSET, PROT_EXEC, kTrapInWindow);
  p.load(high(argument(0)));
  p.jump(BPF_JGE, kWindowHigh, kNext, kTrapInWindow);
  p.jump(BPF_JGE, kWindowEndHigh, kTrapInWindow);
  p.result(SECCOMP_RET_ALLOW);

  // Unblocking is harmless.
  p.label(kMask);
  p.load(low(argument(0)));
  p.jump(BPF_JEQ, 1 /* SIG_UNBLOCK */, kNext, kTrapInWindow);
  p.result(SECCOMP_RET_ALLOW);

  p.label(kFcntl);
  p.load(low(argument(1)));
  p.jump(BPF_JEQ, 0 /* F_DUPFD */, kTrapInWindow);
  p.jump(BPF_JEQ, 1030 /* F_DUPFD_CLOEXEC */, kTrapInWindow);
  p.result(SECCOMP_RET_ALLOW);

  // Absolute times on a monotonic clock that is not the kernel's (upper/clocks.cpp).
  p.label(kFutex);
  p.load(low(argument(1)));
  p.jump(BPF_JSET, FUTEX_CLOCK_REALTIME, kAllow);
  p.mask(FUTEX_CMD_MASK & 0xff);
  p.jump(BPF_JEQ, FUTEX_WAIT_BITSET, kTrapInWindow);
  p.jump(BPF_JEQ, FUTEX_WAIT_REQUEUE_PI, kTrapInWindow);
  p.jump(BPF_JEQ, 13 /* FUTEX_LOCK_PI2 */, kTrapInWindow);
  p.result(SECCOMP_RET_ALLOW);

  p.label(kTrapInWindow);
  p.load(high(offsetof(seccomp_data, instruction_pointer)));
  p.jump(BPF_JGT, kWindowHigh, kNext, kAllow);
  p.jump(BPF_JGE, kWindowEndHigh, kAllow);
  p.result(SECCOMP_RET_TRAP);

  p.label(kAbsentInWindow);
  p.load(high(offsetof(seccomp_data, instruction_pointer)));
  p.jump(BPF_JGT, kWindowHigh, kNext, kAllow);
  p.jump(BPF_JGE, kWindowEndHigh, kAllow);
  p.result(SECCOMP_RET_ERRNO | ENOSYS);

  p.label(kAllow);
  p.result(SECCOMP_RET_ALLOW);

  std::vector<sock_filter> code = p.finish();
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
    return Error{"cannot install a seccomp filter: " + errno_text(errno) +
                 " (containers may forbid it: allow the seccomp system call)"};
  return {};
}

}  // namespace cropdl::lower

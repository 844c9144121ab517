// What an interruption by a signal means for the call that a thread was making.
#include <asm/unistd.h>
#include <linux/futex.h>

#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

constexpr uint16_t kSyscall = 0x050f;  // the instruction

struct VdsoFrame {  // as entry.S lays it out
  uint64_t alignment, entry;
  greg_t saved[9];
};
constexpr int kSaved[9] = {REG_RDI, REG_RSI, REG_RDX, REG_R15, REG_R14, REG_R13, REG_R12, REG_RBP, REG_RBX};

void begin_vdso_call_anew(seam::ThreadRecord* t, greg_t* g) {
  const uint64_t at = t->vdso_frame;
  if (at == 0) return;
  const auto* f = reinterpret_cast<const VdsoFrame*>(at);
  g[REG_RIP] = static_cast<greg_t>(f->entry);
  g[REG_RSP] = static_cast<greg_t>(at) + static_cast<greg_t>(sizeof *f);
  for (int i = 0; i < 9; ++i) g[kSaved[i]] = f->saved[i];
  t->vdso_frame = 0;
}

// Ends the system call at the instruction pointer with EINTR.
void end_with_eintr(greg_t* g) {
  g[REG_RAX] = kInterrupted;
  g[REG_RIP] += sizeof kSyscall;
}

// Ends the core's wait for an owned futex instead of letting the kernel restart it. After a restart the
// kernel does not know the owner's id, so the core must examine the futex again (futexes.cpp).
void leave_owned_futex(greg_t* g) {
  const auto ip = static_cast<uint64_t>(g[REG_RIP]);
  if (ip - seam::kCore >= seam::kCoreSize || g[REG_RAX] != __NR_futex || !futex_has_owner(g[REG_RSI])) return;
  if (!is_child() && *reinterpret_cast<const uint16_t*>(ip) == kSyscall) end_with_eintr(g);
}

// System calls that the kernel restarts after a handler with SA_RESTART, else ends with EINTR (man 7 signal).
bool is_restarted(long nr, long operation) {
  static constexpr CallSet kAlways(
      {// files and descriptors
       __NR_read, __NR_readv, __NR_preadv, __NR_preadv2, __NR_write, __NR_writev, __NR_pwritev, __NR_pwritev2,
       __NR_sendfile, __NR_splice, __NR_tee, __NR_vmsplice, __NR_ioctl, __NR_open, __NR_openat, __NR_openat2,
       __NR_creat, __NR_flock,
       // messages
       __NR_accept, __NR_accept4, __NR_connect, __NR_recvfrom, __NR_recvmsg, __NR_recvmmsg, __NR_sendto,
       __NR_sendmsg, __NR_sendmmsg, __NR_mq_timedsend, __NR_mq_timedreceive,
       // others
       __NR_getrandom, __NR_wait4, __NR_waitid, 449 /* futex_waitv */, 455 /* futex_wait */});
  if (nr == __NR_fcntl) return operation == 7 /* F_SETLKW */ || operation == 38 /* F_OFD_SETLKW */;
  operation &= FUTEX_CMD_MASK;
  if (nr == __NR_futex) return operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
  return kAlways.has(nr);
}

// After a signal of the core (SA_RESTART) the interrupted call is at its instruction again. This notes it, so
// that a handler without SA_RESTART that runs next ends the call as natively. (A call that has not begun
// looks the same if an earlier call left this value in rcx. It ends as if the signal had come a moment
// later.)
void note_rewound(seam::ThreadRecord* t, const greg_t* g) {
  const auto ip = static_cast<uint64_t>(g[REG_RIP]);
  t->rewound = 0;
  if (static_cast<uint64_t>(g[REG_RCX]) != ip + sizeof kSyscall || !is_restarted(g[REG_RAX], g[REG_RSI]))
    return;
  uint16_t instruction;
  if (copy_in(&instruction, static_cast<long>(ip)) && instruction == kSyscall) t->rewound = ip;
}

// Whether the thread is after a system call of entry.S, but before its note.
bool is_between(const greg_t* g, const char* made, const char* noted) {
  const auto begin = reinterpret_cast<uint64_t>(made);
  return static_cast<uint64_t>(g[REG_RIP]) - begin < reinterpret_cast<uint64_t>(noted) - begin;
}

// Completes a signal wait that the kernel has ended but whose sender is not yet translated.
void end_sigwait(seam::ThreadRecord* t, greg_t* g) {
  if (is_between(g, cropdl_sigwait_made, cropdl_sigwait_noted)) {
    t->sender_untranslated = g[REG_RAX] > 0 ? static_cast<uint64_t>(g[REG_RSI]) : 0;
    g[REG_RIP] = reinterpret_cast<greg_t>(cropdl_sigwait_noted);
  }
  tell_waited(t);
}

void note_descriptor(const greg_t* g) {
  const auto fd = static_cast<uint64_t>(g[REG_RAX]);
  if (is_between(g, cropdl_descriptor_made, cropdl_descriptor_noted) && fd < seam::kMaxDescriptors)
    seam::set_owned(seam::state(), fd, true);
}

}  // namespace

void settle(seam::ThreadRecord* t, ucontext_t* context) {
  auto* g = context->uc_mcontext.gregs;
  begin_vdso_call_anew(t, g);
  leave_owned_futex(g);
  end_sigwait(t, g);
  if (!is_child()) note_descriptor(g);
}

void settle_for_core(seam::ThreadRecord* t, ucontext_t* context) {
  settle(t, context);
  note_rewound(t, context->uc_mcontext.gregs);
}

void end_rewound_call(seam::ThreadRecord* t, const seam::SignalAction& action, greg_t* g) {
  const uint64_t at = t->rewound;
  t->rewound = 0;
  if (at == 0 || at != static_cast<uint64_t>(g[REG_RIP]) || (action.flags & seam::kSaRestart) != 0) return;
  if (static_cast<uint64_t>(g[REG_RCX]) == at + sizeof kSyscall) end_with_eintr(g);
}

uint64_t mask_before(seam::ThreadRecord* t, int sig, const ucontext_t* context) {
  const auto* g = context->uc_mcontext.gregs;
  const auto ip = static_cast<uint64_t>(g[REG_RIP]);
  const auto given = static_cast<greg_t>(t->masked_wait);
  const bool has_ended =
      given != 0 && g[REG_RAX] == kInterrupted && ip - seam::kCore < seam::kCoreSize &&
      reinterpret_cast<const uint16_t*>(ip)[-1] == kSyscall &&
      (g[REG_RDI] == given || g[REG_R8] == given || g[REG_R9] == given || g[REG_R10] == given);
  if (!has_ended) return context->uc_sigmask.__val[0];
  t->masked_wait = 0;
  // false: a signal of the core ended the wait just before.
  const bool by_it = (t->wait_mask >> (sig - 1) & 1) == 0;
  return by_it ? t->wait_mask : context->uc_sigmask.__val[0];
}

}  // namespace cropdl::upper

// Commands of fcntl, ioctl, getsockopt, semctl, shmctl and msgctl that take or return ids (kIdCommands). They
// are trapped in a process that continues an image. UH, any thread.
#include <asm/unistd.h>
#include <linux/fcntl.h>

#include "interpose/upper/core.h"
#include "interpose/upper/trapped.h"

namespace cropdl::upper {
namespace {

// fcntl. An owner below 0 is a group (man 2 fcntl).
long owner_to_kernel(int owner) {
  if (owner > 0) return to_kernel_pid(owner);
  return owner < 0 ? -to_kernel_group(-static_cast<long>(owner)) : 0;
}

long set_owner(const SystemCall& c) {
  f_owner_ex owner;
  if (!copy_in(&owner, c.a[2])) return pass_on(c);
  if (owner.pid > 0)
    owner.pid =
        static_cast<int>(owner.type == F_OWNER_PGRP ? to_kernel_group(owner.pid) : to_kernel_pid(owner.pid));
  return raw(c.nr, c.a[0], c.a[1], as_word(&owner));
}

long tell_owner(const SystemCall& c) {
  const long result = pass_on(c);
  if (failed(result)) return result;
  auto* owner = reinterpret_cast<f_owner_ex*>(c.a[2]);
  if (owner->pid > 0)
    owner->pid = static_cast<int>(owner->type == F_OWNER_PGRP ? to_virtual_group(owner->pid)
                                                              : to_virtual_pid(owner->pid));
  return result;
}

long tell_lock_holder(const SystemCall& c) {
  const long result = pass_on(c);
  const auto* lock = reinterpret_cast<const struct flock*>(c.a[2]);
  // F_UNLCK: nobody's, and l_pid is unchanged.
  if (!failed(result) && lock->l_type != F_UNLCK) tell_process(as_word(&lock->l_pid));
  return result;
}

long file_command(const SystemCall& c) {
  const auto command = static_cast<uint32_t>(c.a[1]);
  if (command == kSetOwn) return raw(c.nr, c.a[0], c.a[1], owner_to_kernel(static_cast<int>(c.a[2])));
  if (command == kSetOwnEx) return set_owner(c);
  if (command == kGetOwnEx) return tell_owner(c);
  if (command != kGetOwn) return tell_lock_holder(c);
  const long result = pass_on(c);
  if (failed(result)) return result;
  return result < 0 ? -to_virtual_group(-result) : to_virtual_pid(result);
}

long terminal_command(const SystemCall& c) {
  const long result = pass_on(c);
  if (failed(result)) return result;
  auto* id = reinterpret_cast<int32_t*>(c.a[2]);
  *id = static_cast<int32_t>(static_cast<uint32_t>(c.a[1]) == kTerminalSession ? to_virtual_session(*id)
                                                                               : to_virtual_group(*id));
  return result;
}

long socket_option(const SystemCall& c) {
  constexpr int kSocketLevel = 1;  // SOL_SOCKET
  const long result = pass_on(c);
  if (failed(result) || static_cast<int>(c.a[1]) != kSocketLevel) return result;
  if (*reinterpret_cast<const uint32_t*>(c.a[4]) >= sizeof(int32_t)) tell_process(c.a[3]);
  return result;
}

// Of struct shmid_ds and struct msqid_ds: who made or attached it last, who sent and received last.
long statistics(const SystemCall& c) {
  constexpr long kMaker = 80, kLastAttached = 84, kLastSender = 96, kLastReceiver = 100;  // offsets
  const long result = pass_on(c);
  if (failed(result)) return result;
  const bool memory = c.nr == __NR_shmctl;
  tell_process(c.a[2] + (memory ? kMaker : kLastSender));
  tell_process(c.a[2] + (memory ? kLastAttached : kLastReceiver));
  return result;
}

}  // namespace

bool is_id_command(const SystemCall& c) {
  if (seam::control()->restarted == 0) return false;
  for (const IdCommand& command : kIdCommands)
    if (command.nr == c.nr && command.command == static_cast<uint32_t>(c.a[command_argument(c.nr)]))
      return true;
  return false;
}

long id_command(const SystemCall& c) {
  if (c.nr == __NR_fcntl) return file_command(c);
  if (c.nr == __NR_ioctl) return terminal_command(c);
  if (c.nr == __NR_getsockopt) return socket_option(c);
  if (c.nr == __NR_semctl) return to_virtual_pid(pass_on(c));  // leaves an error as it is
  return statistics(c);
}

}  // namespace cropdl::upper

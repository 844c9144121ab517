// Tracks which descriptors are the program's.
#include <asm/unistd.h>
#include <sys/socket.h>

#include "interpose/upper/core.h"
#include "interpose/upper/trapped.h"

namespace cropdl::upper {
namespace {

constexpr long kFiles = 0x400;  // CLONE_FILES

// Whether this is the program's descriptor table. A child has a copy, without an LH, unless by CLONE_FILES.
bool is_program_table() {
  if (is_spawned()) return seam::current_thread()->shares_files != 0;
  return seam::state()->forked == 0 || (seam::state()->unseen & seam::kUnseenSharedTable) != 0;
}

void set_stream(long fd, uint8_t stream) {
  if (fd < static_cast<long>(seam::kStreamFiles)) seam::state()->streams[fd] = stream;
}
void own(long fd, uint8_t stream = 0) {
  if (fd < 0 || failed(fd) || !is_program_table()) return;
  if (fd >= static_cast<long>(seam::kMaxDescriptors)) return note_unseen(seam::kUnseenTooHigh);
  set_stream(fd, stream);
  seam::set_owned(seam::state(), fd, true);
}

// A copy of a standard stream counts as that stream. The program may read a copy of the input.
void own_copy(long from, long fd) {
  if (fd < 0 || failed(fd)) return;
  const uint8_t stream =
      from >= 0 && from < static_cast<long>(seam::kStreamFiles) ? seam::state()->streams[from] : 0;
  if (stream == 1 && fd != from) seam::state()->input_used = 1;
  if (fd != from) own(fd, stream);
}

bool is_lower_file(long fd) {
  return fd >= seam::control()->first_lower_file && is_program_table() && !seam::owns_file(seam::state(), fd);
}

// Descriptors and the sender's id in a message (man 7 unix, SCM_RIGHTS, SCM_CREDENTIALS; man 3 cmsg).
void take_received(const msghdr& m) {
  constexpr int kPidFd = 4;  // SCM_PIDFD
  auto at = reinterpret_cast<uint64_t>(m.msg_control);
  const uint64_t end = at + m.msg_controllen;
  while (m.msg_control != nullptr && at + sizeof(cmsghdr) <= end) {
    const auto& header = *reinterpret_cast<const cmsghdr*>(at);
    const uint64_t data = at + sizeof header;
    if (header.cmsg_len < sizeof header || header.cmsg_len > end - at) return;
    if (header.cmsg_level == SOL_SOCKET && (header.cmsg_type == SCM_RIGHTS || header.cmsg_type == kPidFd))
      for (uint64_t fd = data; fd + 4 <= at + header.cmsg_len; fd += 4)
        own(*reinterpret_cast<const int32_t*>(fd));
    if (header.cmsg_level == SOL_SOCKET && header.cmsg_type == SCM_CREDENTIALS &&
        header.cmsg_len >= sizeof header + sizeof(int32_t))
      tell_process(static_cast<long>(data));
    at += (header.cmsg_len + 7) & ~7ull;
  }
}

long receive(const SystemCall& c) {  // recvmsg, recvmmsg; may wait long
  const long result = pass_on(c);
  if (static_cast<int>(c.a[0]) == 0) seam::state()->input_used = 1;
  if (failed(result)) return result;
  if (c.nr == __NR_recvmsg) take_received(*reinterpret_cast<const msghdr*>(c.a[1]));
  for (long i = 0; c.nr == __NR_recvmmsg && i < result; ++i)
    take_received(reinterpret_cast<const mmsghdr*>(c.a[1])[i].msg_hdr);
  return result;
}

long close_file(const SystemCall& c) {
  // A program that closes all descriptors must not close the LH's.
  if (is_lower_file(static_cast<uint32_t>(c.a[0]))) return kBadFile;
  // Before the close: afterwards another thread may get the same number.
  disown(static_cast<uint32_t>(c.a[0]));
  return raw(c.nr, c.a[0]);
}

long unshare(long what) {  // the LH's threads share the table
  if (is_child() || (what & kFiles) == 0) return raw(__NR_unshare, what);
  bool alone = true;  // if there is no other thread, unsharing makes no difference
  for (unsigned i = 1; i < seam::kMaxThreads && alone; ++i) alone = seam::state()->threads[i].used == 0;
  if (!alone) note_unseen(seam::kUnseenOwnTable);
  return raw(__NR_unshare, alone ? what & ~kFiles : what);
}

long close_range(const SystemCall& c) {
  const auto flags = static_cast<uint32_t>(c.a[2]);
  constexpr uint32_t kUnshare = 2, kCloseOnExec = 4;  // CLOSE_RANGE_*
  if (!is_program_table() || (flags & ~(kUnshare | kCloseOnExec)) != 0) return pass_on(c);
  // The range contains descriptors of the LH: close only the program's.
  const uint64_t first = static_cast<uint32_t>(c.a[0]);
  uint64_t last = static_cast<uint32_t>(c.a[1]);
  if (first > last) return kInvalid;
  if ((flags & kUnshare) != 0)
    if (const long result = unshare(kFiles); failed(result)) return result;
  if ((flags & kCloseOnExec) != 0) return raw(c.nr, c.a[0], c.a[1], kCloseOnExec);
  if (last >= seam::kMaxDescriptors) last = seam::kMaxDescriptors - 1;
  for (uint64_t fd = first; fd <= last; ++fd) {
    if (fd % 64 == 0 && seam::state()->files[fd / 64] == 0)
      fd += 63;
    else if (seam::owns_file(seam::state(), fd))
      disown(fd), raw(__NR_close, fd);
  }
  return 0;
}

long copy_to(const SystemCall& c) {  // dup2, dup3
  const long to = static_cast<uint32_t>(c.a[1]);
  if (is_lower_file(to) && !failed(raw(__NR_fcntl, to, 1 /* F_GETFD */))) return kBadFile;
  const long fd = raw(c.nr, c.a[0], c.a[1], c.a[2]);
  own_copy(static_cast<int>(c.a[0]), fd);
  return fd;
}

long control_file(const SystemCall& c) {
  const long result = raw(c.nr, c.a[0], c.a[1], c.a[2]);
  const auto command = static_cast<uint32_t>(c.a[1]);
  if (command == 0 || command == 1030) own_copy(static_cast<int>(c.a[0]), result);  // F_DUPFD(_CLOEXEC)
  if (command == 1026 && result == 0) note_unseen(seam::kUnseenNotification);       // F_NOTIFY
  return result;
}

// Makes a call that returns a descriptor, with some arguments at least.
long make(const SystemCall& c) {
  constexpr long kLandlockCreateRuleset = 444;  // with flags it only answers queries
  const long result = pass_on(c);
  const bool other = (c.nr == __NR_bpf && result == 0) ||  // many commands
                     (c.nr == kLandlockCreateRuleset && static_cast<uint32_t>(c.a[2]) != 0);
  if (!other) own(result);
  if (c.nr == __NR_io_uring_setup && !failed(result)) note_unseen(seam::kUnseenIoUring);
  return result;
}

}  // namespace

void disown(long fd) {
  if (fd < 0 || fd >= static_cast<long>(seam::kMaxDescriptors) || !is_program_table()) return;
  set_stream(fd, 0);
  seam::set_owned(seam::state(), fd, false);
}

long make_slowly(const SystemCall& c) {
  if (is_child()) return pass_on(c);
  return cropdl_descriptor_call(c.nr, c.a[0], c.a[1], c.a[2], c.a[3], c.a[4], c.a[5]);
}

void note_made(long fd) {
  if (fd >= static_cast<long>(seam::kMaxDescriptors) || is_child()) own(fd);
}

long descriptor_call(const SystemCall& c) {
  static constexpr CallSet kInput(kReads);
  if (kInput.has(c.nr)) {  // from the standard input, a pipe or a socket
    if (!is_child() && seam::state()->streams[0] == 1) seam::state()->input_used = 1;
    return pass_on(c);
  }
  switch (c.nr) {
    case __NR_accept:
    case __NR_accept4: {
      const long fd = make_slowly(c);
      note_made(fd);
      return fd;
    }
    case __NR_recvmsg:
    case __NR_recvmmsg:
      return receive(c);
    case __NR_close:
      return close_file(c);
    case __NR_close_range:
      return close_range(c);
    case __NR_dup2:
    case __NR_dup3:
      return copy_to(c);
    case __NR_fcntl:
      return control_file(c);
    case __NR_dup: {
      const long fd = raw(c.nr, c.a[0]);
      own_copy(static_cast<int>(c.a[0]), fd);
      return fd;
    }
    case __NR_unshare:
      return unshare(c.a[0]);
    case __NR_pipe:
    case __NR_pipe2:
    case __NR_socketpair: {
      const long result = raw(c.nr, c.a[0], c.a[1], c.a[2], c.a[3]);
      const int* pair = reinterpret_cast<const int*>(c.nr == __NR_socketpair ? c.a[3] : c.a[0]);
      if (result == 0) own(pair[0]), own(pair[1]);
      return result;
    }
    default:
      return make(c);
  }
}

// A child must not keep the LH's sockets and store lock: closes all from its first on but the program's.
void close_lower_files() {
  auto* s = seam::state();
  // The table may be the parent's, or lack descriptors of the program.
  if ((s->unseen & (seam::kUnseenSharedTable | seam::kUnseenTooHigh | seam::kUnseenIoUring)) != 0) return;
  const auto first = static_cast<unsigned>(seam::control()->first_lower_file);
  unsigned begin = first;
  for (unsigned word = first / 64; word < seam::kMaxDescriptors / 64; ++word) {
    if (s->files[word] == 0) continue;
    for (unsigned fd = word * 64; fd < (word + 1) * 64; ++fd) {
      if (fd < first || !seam::owns_file(s, fd)) continue;
      if (fd > begin) raw(__NR_close_range, begin, fd - 1, 0);
      begin = fd + 1;
    }
  }
  raw(__NR_close_range, begin, ~0u, 0);
}

}  // namespace cropdl::upper

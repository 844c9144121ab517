// Tracks which descriptors are the program's, and translates the few paths that must read as they would
// natively.
#include <asm/stat.h>
#include <asm/unistd.h>

#include "interpose/upper/core.h"

extern "C" long cropdl_descriptor_call(long nr, long a, long b, long c, long d, long e, long f);

namespace cropdl::upper {
namespace {

constexpr int kAtFdcwd = -100;
constexpr long kFiles = 0x400;                  // CLONE_FILES
constexpr int kReadOnlyCloseOnExec = 02000000;  // flags with which ld.so opens libraries

// Whether the caller has the program's own descriptor table. A child has a copy, without an LH, unless it was
// made with CLONE_FILES.
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
void disown(long fd) {
  if (fd < 0 || fd >= static_cast<long>(seam::kMaxDescriptors) || !is_program_table()) return;
  set_stream(fd, 0);
  seam::set_owned(seam::state(), fd, false);
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

// Descriptors received with a message (man 7 unix, SCM_RIGHTS; man 3 cmsg).
struct Message {
  uint64_t name, name_length, pieces, piece_count, control, control_length, flags;
};
void own_received(const Message& m) {
  struct Header {
    uint64_t length;
    int32_t level, type;
  };
  constexpr int kSocketLevel = 1, kRights = 1, kPidFd = 4;
  uint64_t at = m.control;
  const uint64_t end = m.control + m.control_length;
  while (m.control != 0 && at + sizeof(Header) <= end) {
    const auto* header = reinterpret_cast<const Header*>(at);
    if (header->length < sizeof(Header) || header->length > end - at) return;
    if (header->level == kSocketLevel && (header->type == kRights || header->type == kPidFd))
      for (uint64_t fd = at + sizeof(Header); fd + 4 <= at + header->length; fd += 4)
        own(*reinterpret_cast<const int32_t*>(fd));
    at += (header->length + 7) & ~7ull;
  }
}

// Whether the path leads to the link /proc/self/exe itself: below a descriptor of /proc/self, relative, or in
// other words. An empty path means the descriptor.
__attribute__((noinline)) bool is_link_to_own_exe(long directory, const char* path) {
  constexpr long kNoFollow = 0x100, kEmptyPath = 0x1000;  // AT_*
  constexpr unsigned kKind = 0170000, kLink = 0120000;    // S_IFMT, S_IFLNK
  struct stat link;
  if (failed(raw(__NR_newfstatat, directory, reinterpret_cast<long>(path), reinterpret_cast<long>(&link),
                 *path == 0 ? kNoFollow | kEmptyPath : kNoFollow)) ||
      (link.st_mode & kKind) != kLink)
    return false;
  const auto is = [&link](const char* name) {
    struct stat own;
    return !failed(raw(__NR_newfstatat, kAtFdcwd, reinterpret_cast<long>(name), reinterpret_cast<long>(&own),
                       kNoFollow)) &&
           link.st_dev == own.st_dev && link.st_ino == own.st_ino;
  };
  return is("/proc/self/exe") || is("/proc/thread-self/exe");  // of the process, of the thread
}

// Whether the path names the program's executable. Natively such a path leads to the program; here the kernel
// would return the lower half.
bool names_own_exe(long directory, const char* path) {
  if (equal(path, "/proc/self/exe") || equal(path, "/proc/thread-self/exe")) return true;
  if (*path != 0 && !equal(base_name(path), "exe")) return false;
  const auto skip_number = [](const char* p, long* number) {
    for (*number = 0; *p >= '0' && *p <= '9'; ++p) *number = *number * 10 + (*p - '0');
    return p;
  };
  if (starts_with(path, "/proc/")) {
    constexpr unsigned kProc = 6, kSelf = 4, kTask = 6;
    long pid = seam::state()->virtual_pid, thread;
    const char* p = path + kProc;
    p = starts_with(p, "self/") ? p + kSelf : skip_number(p, &pid);
    if (starts_with(p, "/task/")) p = skip_number(p + kTask, &thread);
    if (equal(p, "/exe") && pid == seam::state()->virtual_pid) return true;
  }
  return is_link_to_own_exe(directory, path);
}

// Whether `name` is `begins`, or `begins` and more numbers: libcudart.so.13.0.96, but not libcudart.so.130.
bool is_version_of(const char* name, const char* begins) {
  if (!starts_with(name, begins)) return false;
  while (*begins != 0) ++begins, ++name;
  return *name == 0 || *name == '.';
}

enum class Named { kNotSo, kSo, kAnotherVersion };

// Compares a name with a stand-in of one version. A name without a version has the version of the file that
// it links to.
Named named_as(const char* path, const char* name, const char* begins) {
  if (is_version_of(name, begins)) return Named::kSo;
  const char* version = begins;  // the dot before its version
  for (const char* p = begins; *p != 0; ++p)
    if (*p == '.') version = p;
  for (const char* p = begins; p != version; ++p, ++name)
    if (*name != *p) return Named::kNotSo;
  if (*name == '.') return Named::kAnotherVersion;
  if (*name != 0) return Named::kNotSo;
  char target[512];
  const long length =
      raw(__NR_readlink, reinterpret_cast<long>(path), reinterpret_cast<long>(target), sizeof target - 1);
  if (failed(length)) return Named::kSo;
  target[length] = 0;
  return is_version_of(base_name(target), begins) ? Named::kSo : Named::kAnotherVersion;
}

// Records the path for the LH, which loads that file. A relative path is made absolute.
void note_found(const char* path, char (&found)[sizeof seam::PersistentState::found[0]]) {
  if (found[0] != 0) return;
  unsigned n = 0;
  if (path[0] != '/') {
    const long length = raw(__NR_getcwd, reinterpret_cast<long>(found), sizeof found - 1);
    if (failed(length) || found[0] != '/') {
      found[0] = 0;
      return;
    }
    while (found[n] != 0) ++n;
    found[n++] = '/';
  }
  while (*path != 0 && n < sizeof found - 1) found[n++] = *path++;
  found[*path == 0 ? n : 0] = 0;
}

// Returns the file that ld.so opens in place of `path`, or null: the real library must not be loaded in the
// UH.
const char* stand_in(const char* path) {
  const char* name = base_name(path);
  const auto* const control = seam::control();
  const auto is_there = [&] {
    constexpr long kReadable = 4;  // R_OK
    return !failed(raw(__NR_access, reinterpret_cast<long>(path), kReadable));
  };
  for (unsigned i = 0; i < seam::kMaxStandIns && control->stand_ins[i].begins[0] != 0; ++i) {
    const seam::StandIn& s = control->stand_ins[i];
    const seam::StandInRule& rule = control->stand_in_rules[i];
    if ((rule.bits & seam::kOneVersion) == 0) {
      if (!starts_with(name, s.begins)) continue;
    } else {
      const Named named = named_as(path, name, s.begins);
      if (named == Named::kNotSo) continue;
      if (named == Named::kAnotherVersion) {
        if (is_there()) seam::state()->native_devices = 1;
        return nullptr;
      }
    }
    if (s.file[0] == 0) return nullptr;
    if ((rule.bits & seam::kOfDevice) != 0 && seam::state()->native_devices != 0) return nullptr;
    if ((rule.bits & seam::kWhereItIs) != 0) {
      if (!is_there()) return nullptr;
      note_found(path, seam::state()->found[i]);
    }
    return s.file;
  }
  return nullptr;
}

// Makes a call that may wait long, such as opening a FIFO, and that returns a descriptor.
long make_slowly(const SystemCall& c) {
  if (is_child()) return pass_on(c);
  return cropdl_descriptor_call(c.nr, c.a[0], c.a[1], c.a[2], c.a[3], c.a[4], c.a[5]);
}

// Whether cropdl_descriptor_call has not noted the descriptor.
bool needs_note(long fd) { return fd >= static_cast<long>(seam::kMaxDescriptors) || is_child(); }

}  // namespace

long open_call(const SystemCall& c) {
  SystemCall call = c;
  const bool at = c.nr != __NR_open && c.nr != __NR_creat;
  const char* path = reinterpret_cast<const char*>(c.a[at ? 1 : 0]);
  const long flags = c.nr == __NR_openat ? c.a[2] : c.nr == __NR_open ? c.a[1] : -1;
  // The kernel refuses a null or unreadable path. So the core reads only paths from ld.so, and those that the
  // kernel has accepted.
  if (flags == kReadOnlyCloseOnExec && upper::from_loader(c.from)) {
    if (const char* file = stand_in(path); file != nullptr) call.a[at ? 1 : 0] = reinterpret_cast<long>(file);
  }
  long fd = make_slowly(call);
  constexpr uint64_t kTheLinkItself = 0400000;  // O_NOFOLLOW, with O_PATH
  const auto how = [&] {
    return c.nr == __NR_openat2 ? *reinterpret_cast<const uint64_t*>(c.a[2]) : static_cast<uint64_t>(flags);
  };
  if (!failed(fd) && names_own_exe(at ? c.a[0] : kAtFdcwd, path) &&
      (c.nr == __NR_creat || (how() & kTheLinkItself) == 0)) {
    call.a[at ? 1 : 0] = reinterpret_cast<long>(seam::state()->exe);
    const long exe = make_slowly(call);
    raw(__NR_close, fd);
    disown(fd);
    fd = exe;
  }
  if (needs_note(fd)) own(fd);
  return fd;
}

long descriptor_call(const SystemCall& c) {
  switch (c.nr) {
    case __NR_accept:
    case __NR_accept4: {
      const long fd = make_slowly(c);
      if (needs_note(fd)) own(fd);
      return fd;
    }
    case __NR_recvmsg: {  // may wait long
      const long result = raw(c.nr, c.a[0], c.a[1], c.a[2]);
      if (static_cast<int>(c.a[0]) == 0) seam::state()->input_used = 1;
      if (!failed(result)) own_received(*reinterpret_cast<const Message*>(c.a[1]));
      return result;
    }
    case __NR_recvmmsg: {
      const long result = pass_on(c);
      if (static_cast<int>(c.a[0]) == 0) seam::state()->input_used = 1;
      struct Received {
        Message message;
        uint64_t length;
      };
      for (long i = 0; !failed(result) && i < result; ++i)
        own_received(reinterpret_cast<const Received*>(c.a[1])[i].message);
      return result;
    }
    case __NR_read:  // of the standard input, a pipe or a socket
    case __NR_readv:
    case __NR_preadv2:
    case __NR_recvfrom:
    case __NR_splice:
    case __NR_tee:
      if (!is_child() && seam::state()->streams[0] == 1) seam::state()->input_used = 1;
      return pass_on(c);
    case __NR_close:
      // A program that closes all descriptors must not close the LH's.
      if (is_lower_file(static_cast<uint32_t>(c.a[0]))) return kBadFile;
      // Before the close: afterwards another thread may get the same number.
      disown(static_cast<uint32_t>(c.a[0]));
      return raw(c.nr, c.a[0]);
    case __NR_close_range: {
      const auto flags = static_cast<uint32_t>(c.a[2]);
      constexpr uint32_t kUnshare = 2, kCloseOnExec = 4;  // CLOSE_RANGE_*
      if (!is_program_table() || (flags & ~(kUnshare | kCloseOnExec)) != 0) return pass_on(c);
      // The range contains descriptors of the LH: close only the program's.
      const uint64_t first = static_cast<uint32_t>(c.a[0]);
      uint64_t last = static_cast<uint32_t>(c.a[1]);
      if (first > last) return kInvalid;
      if ((flags & kUnshare) != 0)
        if (const long result = descriptor_call({__NR_unshare, {kFiles}}); failed(result)) return result;
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
    case __NR_dup2:
    case __NR_dup3: {
      const long to = static_cast<uint32_t>(c.a[1]);
      if (is_lower_file(to) && !failed(raw(__NR_fcntl, to, 1 /* F_GETFD */))) return kBadFile;
      const long fd = raw(c.nr, c.a[0], c.a[1], c.a[2]);
      own_copy(static_cast<int>(c.a[0]), fd);
      return fd;
    }
    case __NR_fcntl: {
      const long result = raw(c.nr, c.a[0], c.a[1], c.a[2]);
      const auto command = static_cast<uint32_t>(c.a[1]);
      if (command == 0 || command == 1030) own_copy(static_cast<int>(c.a[0]), result);  // F_DUPFD(_CLOEXEC)
      if (command == 1026 && result == 0) note_unseen(seam::kUnseenNotification);       // F_NOTIFY
      return result;
    }
    case __NR_dup: {
      const long fd = raw(c.nr, c.a[0]);
      own_copy(static_cast<int>(c.a[0]), fd);
      return fd;
    }
    case __NR_unshare: {  // the LH's threads share the table
      if (!is_child() && (c.a[0] & kFiles) != 0) {
        bool alone = true;  // if there is no other thread, unsharing makes no difference
        for (unsigned i = 1; i < seam::kMaxThreads && alone; ++i) alone = seam::state()->threads[i].used == 0;
        if (alone) return raw(c.nr, c.a[0] & ~kFiles);
        note_unseen(seam::kUnseenOwnTable);
      }
      return raw(c.nr, c.a[0]);
    }
    case __NR_bpf: {  // only some commands make a descriptor; others return 0
      const long result = raw(c.nr, c.a[0], c.a[1], c.a[2]);
      if (result > 0) own(result);
      return result;
    }
    case 444: {  // landlock_create_ruleset: with flags it only answers queries
      const long result = raw(c.nr, c.a[0], c.a[1], c.a[2]);
      if (static_cast<uint32_t>(c.a[2]) == 0) own(result);
      return result;
    }
    case __NR_io_uring_setup: {
      const long fd = raw(c.nr, c.a[0], c.a[1]);
      if (!failed(fd)) note_unseen(seam::kUnseenIoUring);
      own(fd);
      return fd;
    }
    case __NR_pipe:
    case __NR_pipe2:
    case __NR_socketpair: {
      const long result = raw(c.nr, c.a[0], c.a[1], c.a[2], c.a[3]);
      const int* pair = reinterpret_cast<const int*>(c.nr == __NR_socketpair ? c.a[3] : c.a[0]);
      if (result == 0) own(pair[0]), own(pair[1]);
      return result;
    }
    default: {
      const long fd = pass_on(c);
      own(fd);
      return fd;
    }
  }
}

// A child must not keep the LH's sockets and its store's lock open. Closes all from the LH's first descriptor
// on, except the program's.
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

long read_link(const SystemCall& c) {
  const bool at = c.nr == __NR_readlinkat;
  const int name = at ? 1 : 0;
  const int size = static_cast<int>(c.a[name + 2]);
  if (size <= 0) return pass_on(c);
  // The kernel checks path and buffer first, and refuses invalid ones.
  SystemCall probe = c;
  probe.a[name + 2] = 1;
  const long exists = pass_on(probe);
  if (failed(exists) || !names_own_exe(at ? c.a[0] : kAtFdcwd, reinterpret_cast<const char*>(c.a[name])))
    return pass_on(c);
  const char* exe = seam::state()->exe;
  long n = 0;
  while (exe[n] != 0 && n < size) ++n;
  return copy_out(c.a[name + 1], exe, n) ? n : kBadAddress;
}

// A program that executes /proc/self/exe gets itself and not the lower half.
long execute(const SystemCall& c) {
  const bool at = c.nr == __NR_execveat;
  SystemCall call = c;
  const char* path = reinterpret_cast<const char*>(c.a[at ? 1 : 0]);
  constexpr int kExists = 0;
  const long directory = at ? c.a[0] : kAtFdcwd;
  if (!failed(raw(__NR_faccessat, directory, reinterpret_cast<long>(path), kExists)) &&
      names_own_exe(directory, path))
    call.a[at ? 1 : 0] = reinterpret_cast<long>(seam::state()->exe);
  return pass_on(call);
}

}  // namespace cropdl::upper

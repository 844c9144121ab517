// Which descriptors are the program's, and the few paths that must read as they would natively.
#include <asm/unistd.h>

#include "interpose/upper/core.h"

extern "C" long cropdl_descriptor_call(long nr, long a, long b, long c, long d, long e, long f);

namespace cropdl::upper {
namespace {

constexpr int kAtFdcwd = -100;
constexpr long kFirstLowerFile = seam::kFirstLowerFile;
constexpr long kBadFile = -9;                   // EBADF
constexpr int kReadOnlyCloseOnExec = 02000000;  // what ld.so opens libraries with

void own(long fd) {
  if (fd >= 0 && fd < static_cast<long>(seam::kMaxFiles) && !is_child())
    __atomic_fetch_or(&seam::state()->files[fd / 64], 1ull << (fd % 64), __ATOMIC_RELAXED);
}
void disown(long fd) {
  if (fd >= 0 && fd < static_cast<long>(seam::kMaxFiles) && !is_child())
    __atomic_fetch_and(&seam::state()->files[fd / 64], ~(1ull << (fd % 64)), __ATOMIC_RELAXED);
}

// Natively these lead to the program; here the kernel would say the lower half.
bool names_own_exe(const char* path) {
  if (equal(path, "/proc/self/exe") || equal(path, "/proc/thread-self/exe")) return true;
  if (!starts_with(path, "/proc/")) return false;
  long pid = 0;
  const char* p = path + 6;
  for (; *p >= '0' && *p <= '9'; ++p) pid = pid * 10 + (*p - '0');
  return equal(p, "/exe") && pid == seam::state()->upper_pid && seam::state()->forked == 0;
}

// The file that takes the place of `path` when ld.so opens it: the real libmpi must not be loaded in the UH.
const char* stand_in(const char* path) {
  const char* name = base_name(path);
  auto* page = seam::control();
  if (starts_with(name, "libmpi.so")) return page->shim_openmpi;
  if (starts_with(name, "libmpich.so")) return page->shim_mpich;
  if (starts_with(name, "libopen-rte.so")) return page->shim_orte;
  if (starts_with(name, "libopen-pal.so")) return page->shim_opal;
  return nullptr;
}

// A call that may wait for long, such as opening a FIFO, and gives a descriptor.
long make_slowly(const Call& c) {
  if (is_child()) return raw(c.nr, c.a[0], c.a[1], c.a[2], c.a[3], c.a[4], c.a[5]);
  return cropdl_descriptor_call(c.nr, c.a[0], c.a[1], c.a[2], c.a[3], c.a[4], c.a[5]);
}

}  // namespace

long open_call(const Call& c) {
  Call call = c;
  const bool at = c.nr != __NR_open && c.nr != __NR_creat;
  const char* path = reinterpret_cast<const char*>(c.a[at ? 1 : 0]);
  const long flags = c.nr == __NR_openat ? c.a[2] : c.nr == __NR_open ? c.a[1] : -1;
  // A null or unreadable path is the kernel's to refuse: look only at what ld.so passes, or at absolute /proc
  // paths that the kernel has accepted.
  if (flags == kReadOnlyCloseOnExec && upper::from_loader(c.from)) {
    if (const char* file = stand_in(path); file != nullptr && file[0] != 0)
      call.a[at ? 1 : 0] = reinterpret_cast<long>(file);
  }
  long fd = make_slowly(call);
  if (!failed(fd) && flags != -1 && path[0] == '/' && names_own_exe(path)) {
    const long exe =
        make_slowly({__NR_openat, {kAtFdcwd, reinterpret_cast<long>(seam::state()->exe), flags}});
    raw(__NR_close, fd);
    disown(fd);
    fd = exe;
  }
  return fd;
}

long descriptor_call(const Call& c) {
  switch (c.nr) {
    case __NR_accept:
    case __NR_accept4:
      return make_slowly(c);
    case __NR_close:
      // A program that closes "everything" must not close the LH's.
      if (c.a[0] >= kFirstLowerFile && !is_child() && !seam::owns_file(seam::state(), c.a[0]))
        return kBadFile;
      disown(c.a[0]);  // before: afterwards another thread may have been given the number
      return raw(c.nr, c.a[0]);
    case __NR_close_range: {
      const bool only_flags = (c.a[2] & 4) != 0;  // CLOSE_RANGE_CLOEXEC
      if (is_child() || only_flags) return raw(c.nr, c.a[0], c.a[1], c.a[2]);
      // The LH's descriptors lie in the range, too: close what is the program's.
      const uint64_t first = static_cast<uint32_t>(c.a[0]);
      uint64_t last = static_cast<uint32_t>(c.a[1]);
      if (first > last) return -22;  // EINVAL
      if (last >= seam::kMaxFiles) last = seam::kMaxFiles - 1;
      for (uint64_t fd = first; fd <= last; ++fd)
        if (seam::owns_file(seam::state(), fd)) disown(fd), raw(__NR_close, fd);
      return 0;
    }
    case __NR_dup2:
    case __NR_dup3: {
      if (c.a[1] >= kFirstLowerFile && !is_child() && !seam::owns_file(seam::state(), c.a[1]) &&
          !failed(raw(__NR_fcntl, c.a[1], 1 /* F_GETFD */)))
        return kBadFile;
      const long fd = raw(c.nr, c.a[0], c.a[1], c.a[2]);
      own(fd);
      return fd;
    }
    case __NR_fcntl: {
      const long result = raw(c.nr, c.a[0], c.a[1], c.a[2]);
      if (c.a[1] == 0 || c.a[1] == 1030) own(result);  // F_DUPFD, F_DUPFD_CLOEXEC
      return result;
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
      const long fd = raw(c.nr, c.a[0], c.a[1], c.a[2], c.a[3], c.a[4], c.a[5]);
      own(fd);
      return fd;
    }
  }
}

long read_link(const Call& c) {
  const bool at = c.nr == __NR_readlinkat;
  const int name = at ? 1 : 0;
  // The kernel looks at path and buffer first: what is wrong with them is its to say.
  Call probe = c;
  probe.a[name + 2] = 1;
  const long exists = raw(c.nr, probe.a[0], probe.a[1], probe.a[2], probe.a[3]);
  if (failed(exists) || static_cast<int>(c.a[name + 2]) <= 0 || !names_own_exe(reinterpret_cast<const char*>(c.a[name])))
    return raw(c.nr, c.a[0], c.a[1], c.a[2], c.a[3]);
  char* out = reinterpret_cast<char*>(c.a[name + 1]);
  long n = 0;
  for (const char* p = seam::state()->exe; *p != 0 && n < c.a[name + 2]; ++p) out[n++] = *p;
  return n;
}

// A program that executes itself by /proc/self/exe gets itself and not the lower half.
long execute(const Call& c) {
  const bool at = c.nr == __NR_execveat;
  Call call = c;
  const char* path = reinterpret_cast<const char*>(c.a[at ? 1 : 0]);
  constexpr int kExists = 0;
  if (!failed(raw(__NR_faccessat, kAtFdcwd, reinterpret_cast<long>(path), kExists)) && path[0] == '/' &&
      names_own_exe(path))
    call.a[at ? 1 : 0] = reinterpret_cast<long>(seam::state()->exe);
  return raw(call.nr, call.a[0], call.a[1], call.a[2], call.a[3], call.a[4]);
}

}  // namespace cropdl::upper

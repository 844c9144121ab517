// Translates the few paths that must read as natively: of stand-ins, and of the program's own file.
#include <asm/stat.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>

#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

struct Link {
  uint64_t device, inode;
};
// Returns the symbolic link of that name; inode 0: it is none. An empty path means the descriptor.
CROPDL_OWN_FRAME Link link_at(long directory, const char* path) {
  constexpr unsigned kKind = 0170000, kLink = 0120000;  // S_IFMT, S_IFLNK
  struct stat st;
  if (failed(raw(__NR_newfstatat, directory, as_word(path), as_word(&st),
                 AT_SYMLINK_NOFOLLOW | (*path == 0 ? AT_EMPTY_PATH : 0))) ||
      (st.st_mode & kKind) != kLink)
    return {0, 0};
  return {st.st_dev, st.st_ino};
}

// Whether the path leads to the link /proc/self/exe itself: relative, below a descriptor, or in other words.
CROPDL_OWN_FRAME bool is_link_to_own_exe(long directory, const char* path) {
  const Link link = link_at(directory, path);
  if (link.inode == 0) return false;
  const auto is = [&link](const char* name) {
    const Link own = link_at(AT_FDCWD, name);
    return link.device == own.device && link.inode == own.inode;
  };
  return is("/proc/self/exe") || is("/proc/thread-self/exe");  // of the process, of the thread
}

// Whether the path leads to the program's executable natively; here the kernel would return the lower half.
bool names_own_exe(long directory, const char* path) {
  if (equal(path, "/proc/self/exe") || equal(path, "/proc/thread-self/exe")) return true;
  if (*path != 0 && !equal(base_name(path), "exe")) return false;
  const auto skip_number = [](const char* p, long* number) {
    for (*number = 0; *p >= '0' && *p <= '9'; ++p) *number = *number * 10 + (*p - '0');
    return p;
  };
  if (starts_with(path, "/proc/")) {
    constexpr unsigned kProc = 6, kSelf = 4, kTask = 6;
    const long own = seam::state()->kernel_pid;  // the path has been translated (proc_paths.cpp)
    long pid = own, thread;
    const char* p = path + kProc;
    p = starts_with(p, "self/") ? p + kSelf : skip_number(p, &pid);
    if (starts_with(p, "/task/")) p = skip_number(p + kTask, &thread);
    if (equal(p, "/exe") && pid == own) return true;
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

// Compares a name with a stand-in of one version. A name without a version has that of the file it links to.
Named named_as(const char* path, const char* name, const char* begins) {
  if (is_version_of(name, begins)) return Named::kSo;
  const char* version = begins;  // the dot before its version
  for (const char* p = begins; *p != 0; ++p)
    if (*p == '.') version = p;
  for (const char* p = begins; p != version; ++p, ++name)
    if (*name != *p) return Named::kNotSo;
  if (*name == '.') return Named::kAnotherVersion;
  if (*name != 0) return Named::kNotSo;
  return leads_to(path, is_version_of, begins, true) ? Named::kSo : Named::kAnotherVersion;
}

// Records the path for the LH, which loads that file. A relative path is made absolute.
void note_found(const char* path, char (&found)[sizeof seam::PersistentState::found[0]]) {
  if (found[0] != 0) return;
  unsigned n = 0;
  if (path[0] != '/') {
    const long length = raw(__NR_getcwd, as_word(found), sizeof found - 1);
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

// The file that ld.so opens in place of `path`, or null: the real library must not be loaded in the UH.
CROPDL_OWN_FRAME const char* stand_in(const char* path) {
  const char* name = base_name(path);
  const auto* const control = seam::control();
  const auto is_there = [&] {
    constexpr long kReadable = 4;  // R_OK
    return !failed(raw(__NR_access, as_word(path), kReadable));
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

// Makes the call with another path.
CROPDL_OWN_FRAME long open_other(const SystemCall& c, const char* path) {
  SystemCall call = c;
  call.a[c.nr != __NR_open && c.nr != __NR_creat ? 1 : 0] = as_word(path);
  return make_slowly(call);
}

}  // namespace

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wframe-larger-than="
CROPDL_OWN_FRAME bool leads_to(const char* link, bool (*is)(const char*, const char*), const char* wanted,
                               bool otherwise) {
  char target[512];
  const long length = raw(__NR_readlink, as_word(link), as_word(target), sizeof target - 1);
  if (failed(length)) return otherwise;
  target[length] = 0;
  return is(base_name(target), wanted);
}
#pragma GCC diagnostic pop

long open_call(const SystemCall& c) {
  const bool at = c.nr != __NR_open && c.nr != __NR_creat;
  const char* path = reinterpret_cast<const char*>(c.a[at ? 1 : 0]);
  const long flags = c.nr == __NR_openat ? c.a[2] : c.nr == __NR_open ? c.a[1] : -1;
  // The kernel refuses a null or unreadable path: the core reads only ld.so's, which opens libraries with
  // these flags, and what the kernel has accepted.
  const char* file = nullptr;
  if (flags == (O_RDONLY | O_CLOEXEC) && from_loader(c.from)) file = stand_in(path);
  long fd = file != nullptr ? open_other(c, file) : make_slowly(c);
  const auto how = [&] {  // O_NOFOLLOW, with O_PATH: the link itself is opened
    return c.nr == __NR_openat2 ? *reinterpret_cast<const uint64_t*>(c.a[2]) : static_cast<uint64_t>(flags);
  };
  if (!failed(fd) && names_own_exe(at ? c.a[0] : AT_FDCWD, path) &&
      (c.nr == __NR_creat || (how() & O_NOFOLLOW) == 0)) {
    const long exe = open_other(c, seam::state()->exe);
    raw(__NR_close, fd);
    disown(fd);
    fd = exe;
  }
  note_made(fd);
  return fd;
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
  if (failed(exists) || !names_own_exe(at ? c.a[0] : AT_FDCWD, reinterpret_cast<const char*>(c.a[name])))
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
  constexpr int kExists = 0, kMayBeExecuted = 1;  // F_OK, X_OK
  const long directory = at ? c.a[0] : AT_FDCWD;
  const auto is = [&](int mode) { return !failed(raw(__NR_faccessat, directory, as_word(path), mode)); };
  if (is(kExists) && names_own_exe(directory, path)) call.a[at ? 1 : 0] = as_word(seam::state()->exe);
  // A search in PATH tries names that do not exist. All arguments and the environment must be readable.
  const auto is_list = [](long list) {
    long word = list;
    for (char begin; word != 0 && copy_in(&word, list); list += sizeof word)
      if (word != 0 && !copy_in(&begin, word)) return false;
    return word == 0;
  };
  if (!is_child() && is(kMayBeExecuted) && is_list(c.a[at ? 2 : 1]) && is_list(c.a[at ? 3 : 2]))
    say_once(kReplaced,
             "cropdl: no more checkpoints of this process: it executes another program in its place\n");
  return pass_on(call);
}

}  // namespace cropdl::upper

// System calls that take a path. After a restart, an id of the first run in /proc/PID and /proc/PID/task/TID
// means its replacement in this run, and /proc/self links to the virtual pid. Absolute paths only: readdir()
// on /proc lists the kernel's pids. UH, any thread.
#include <asm/unistd.h>

#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

// Calls whose first, or second, argument is the path.
constexpr CallSet kPathFirst({__NR_open, __NR_creat, __NR_readlink, __NR_execve, __NR_stat, __NR_lstat,
                              __NR_access, __NR_chdir, __NR_statfs});
constexpr CallSet kPathSecond({__NR_openat, __NR_openat2, __NR_newfstatat, __NR_readlinkat, __NR_execveat,
                               __NR_statx, __NR_faccessat, __NR_faccessat2, __NR_inotify_add_watch});

// Whether `path` begins with `/proc/` and is readable: 8 bytes (`/proc/1`) by this, the rest by access().
bool is_in_proc(const char* path) {
  return can_be_read(path, 8) && starts_with(path, "/proc/") &&
         raw(__NR_access, as_word(path), 0) != kBadAddress;
}

const char* number(const char* p, long* value) {
  const char* const begin = p;
  for (*value = 0; *p >= '0' && *p <= '9' && p - begin < 9; ++p) *value = *value * 10 + (*p - '0');
  return p == begin || (*p != '/' && *p != 0) ? nullptr : p;
}

class Writer {
 public:
  Writer(char* begin, unsigned size) : p_(begin), end_(begin + size - 1) {}
  void text(const char* t) {
    while (*t != 0 && p_ < end_) *p_++ = *t++;
    whole_ = whole_ && *t == 0;
    *p_ = 0;
  }
  void number(long value) {
    char digits[12];
    int n = 11;
    digits[n] = 0;
    do digits[--n] = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0 && n > 0);
    text(digits + n);
  }
  bool whole() const { return whole_; }

 private:
  char* p_;
  char* const end_;
  bool whole_ = true;
};

// Longest path that is translated; paths through /proc/PID/root may be longer.
constexpr unsigned kLongest = 384;

// Room for the path with kernel ids. The buffer is on the program's stack: no larger than necessary.
unsigned room_for(const char* path) {
  constexpr unsigned kTwoNumbers = 20;
  unsigned n = 0;
  while (path[n] != 0 && n < kLongest) ++n;
  return n + kTwoNumbers < kLongest ? n + kTwoNumbers : kLongest;
}

// Returns `path` with kernel ids in `out`, or `path` itself.
const char* real_path(const char* path, char* out, unsigned room) {
  Writer w(out, room);
  w.text("/proc/");
  const char* p = path + 6;
  while (*p == '/') ++p;
  long value;
  if (const char* end = number(p, &value); end != nullptr) {
    const bool below = *end == '/';  // /proc/self, unlike /proc/PID, is a link
    if (below && !is_child() && value == seam::state()->virtual_pid)
      w.text("self");
    else
      w.number(to_kernel_pid(value));
    p = end;
  } else if (starts_with(p, "self/")) {
    w.text("self");
    p += 4;
  } else {
    return path;
  }
  if (starts_with(p, "/task/")) {
    if (const char* end = number(p + 6, &value); end != nullptr) {
      w.text("/task/");
      w.number(to_kernel_pid(value));
      p = end;
    }
  }
  w.text(p);
  return w.whole() ? out : path;
}

// Answers readlink("/proc/self"), and "/proc/thread-self". 0: another path.
CROPDL_OWN_FRAME long own_number_call(const SystemCall& c, int path) {
  const char* name = reinterpret_cast<const char*>(c.a[path]);
  const bool thread = equal(name, "/proc/thread-self");
  if (!thread && !equal(name, "/proc/self")) return 0;
  char text[40];
  Writer w(text, sizeof text);
  w.number(own_process());
  if (thread) {
    w.text("/task/");
    w.number(is_child() ? own_process() : seam::current_thread()->virtual_tid);
  }
  // The kernel refuses an invalid path or buffer.
  const int size = static_cast<int>(c.a[path + 2]);
  SystemCall probe = c;
  if (size > 0) probe.a[path + 2] = 1;
  const long result = pass_on(probe);
  if (failed(result)) return result;
  long n = 0;
  while (text[n] != 0 && n < size) ++n;
  return copy_out(c.a[path + 1], text, n) ? n : kBadAddress;
}

bool opens(long nr) { return nr == __NR_open || nr == __NR_creat || nr == __NR_openat || nr == __NR_openat2; }
bool reads_link(long nr) { return nr == __NR_readlink || nr == __NR_readlinkat; }
bool executes(long nr) { return nr == __NR_execve || nr == __NR_execveat; }

long perform(const SystemCall& c) {
  if (opens(c.nr)) return open_call(c);
  if (reads_link(c.nr)) return read_link(c);
  return executes(c.nr) ? execute(c) : pass_on(c);
}

CROPDL_OWN_FRAME long proc_call(const SystemCall& c, int path) {
  const auto* given = reinterpret_cast<const char*>(c.a[path]);
  const unsigned room = room_for(given);
  auto* text = static_cast<char*>(__builtin_alloca(room));
  SystemCall call = c;
  const auto translate = [&] { call.a[path] = as_word(real_path(given, text, room)); };
  // Signals stay unblocked: an executed program inherits the mask, and opening a FIFO may wait. A cut in
  // between leaves an id of a former run, which names nothing or is looked up again.
  if (executes(c.nr) || opens(c.nr)) {
    translate();
    return perform(call);
  }
  const Undisturbed undisturbed;  // the ids are of this run
  translate();
  return perform(call);
}

}  // namespace

bool takes_path(long nr) { return kPathFirst.has(nr) || kPathSecond.has(nr); }

long path_call(const SystemCall& c) {
  if (seam::control()->restarted != 0) {
    const int path = kPathSecond.has(c.nr) ? 1 : 0;
    if (is_in_proc(reinterpret_cast<const char*>(c.a[path]))) {
      if (reads_link(c.nr))
        if (const long result = own_number_call(c, path); result != 0) return result;
      return proc_call(c, path);
    }
  }
  return perform(c);
}

}  // namespace cropdl::upper

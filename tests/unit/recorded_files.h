// Records this process's file system calls below one directory, and lays out what a disk may hold after a
// crash. The recorder replaces C library functions (libstdc++'s remove_all uses them too), so it sees the
// real calls of the code under test; a forgotten fsync is missing in the record.
//
// The simulated disk is as weak as POSIX allows and journaling file systems come close to. Data covered by
// fsync are durable. Any other write may be there, be missing, or be zeros of its full length (delayed
// allocation). Any other change of a name may have happened or not, in any combination.
#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace cropdl::restart {

struct FileCall {
  enum Kind { kName, kWrite, kCut, kSync, kMark } kind;
  // the directory whose names change, or the file that is written, truncated or synced
  int node = 0;
  std::string name;          // kName
  int child = 0;             // kName: the node behind the name afterwards; 0: none
  bool with_former = false;  // kName: atomic with the previous call (the two names of a rename)
  uint64_t offset = 0;       // kWrite, kCut
  std::string bytes;         // kWrite
};

class RecordedFiles {
 public:
  static RecordedFiles& get() {
    static RecordedFiles files;
    return files;
  }

  void record_below(const std::string& root) {
    root_ = root;
    nodes_.assign(2, Node{});
    nodes_[1].directory = true;
    calls_.clear();
    open_.clear();
  }
  void stop() { root_.clear(); }
  void mark(const std::string& name) { calls_.push_back({FileCall::kMark, 0, name, 0, false, 0, ""}); }
  const std::vector<FileCall>& calls() const { return calls_; }
  bool is_directory(int node) const { return nodes_[static_cast<size_t>(node)].directory; }
  size_t nodes() const { return nodes_.size(); }

  // --- Called by the functions below, after the kernel has done the call.
  void opened(int at, const char* path, int flags, int fd) {
    if (fd < 0 || root_.empty()) return;
    std::string name;
    const int parent = parent_of(at, path, &name);
    if (parent == 0) return;
    int node = name.empty() ? parent : child(parent, name);
    if (node == 0 && (flags & O_CREAT) != 0) node = add(parent, name, false);
    if (node == 0) return;
    open_[fd] = node;
    if ((flags & O_TRUNC) != 0) calls_.push_back({FileCall::kCut, node, "", 0, false, 0, ""});
  }
  void copied(int fd, int copy) {
    if (copy >= 0 && open_.count(fd) != 0) open_[copy] = open_[fd];
  }
  void closed(int fd) { open_.erase(fd); }
  void written(int fd, const iovec* pieces, int count, off_t offset, ssize_t done) {
    if (done <= 0 || open_.count(fd) == 0) return;
    FileCall call{FileCall::kWrite, open_[fd], "", 0, false, static_cast<uint64_t>(offset), ""};
    for (int i = 0; i < count; ++i)
      call.bytes.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
    call.bytes.resize(static_cast<size_t>(done));
    calls_.push_back(std::move(call));
  }
  void cut(int fd, off_t size) {
    if (open_.count(fd) != 0)
      calls_.push_back({FileCall::kCut, open_[fd], "", 0, false, static_cast<uint64_t>(size), ""});
  }
  void synced(int fd) {
    if (open_.count(fd) != 0) calls_.push_back({FileCall::kSync, open_[fd], "", 0, false, 0, ""});
  }
  void made(const char* path) {
    std::string name;
    if (const int parent = parent_of(AT_FDCWD, path, &name); parent != 0) add(parent, name, true);
  }
  void removed(int at, const char* path) {
    std::string name;
    if (const int parent = parent_of(at, path, &name); parent != 0) set(parent, name, 0, false);
  }
  void renamed(int from_at, const char* from, int to_at, const char* to) {
    std::string old_name, new_name;
    const int old_parent = parent_of(from_at, from, &old_name), new_parent = parent_of(to_at, to, &new_name);
    if (old_parent == 0 || new_parent == 0) return;
    const int node = child(old_parent, old_name);
    set(new_parent, new_name, node, false);
    set(old_parent, old_name, 0, true);
  }

 private:
  struct Node {
    bool directory = false;
    std::map<std::string, int> names;
  };
  int child(int directory, const std::string& name) const {
    const auto& names = nodes_[static_cast<size_t>(directory)].names;
    const auto found = names.find(name);
    return found == names.end() ? 0 : found->second;
  }
  void set(int directory, const std::string& name, int node, bool with_former) {
    if (node == 0)
      nodes_[static_cast<size_t>(directory)].names.erase(name);
    else
      nodes_[static_cast<size_t>(directory)].names[name] = node;
    calls_.push_back({FileCall::kName, directory, name, node, with_former, 0, ""});
  }
  int add(int directory, const std::string& name, bool is_directory) {
    nodes_.push_back(Node{is_directory, {}});
    const int node = static_cast<int>(nodes_.size()) - 1;
    set(directory, name, node, false);
    return node;
  }
  // The directory of the path's last component; 0: not below the root, which is 1.
  int parent_of(int at, const char* path, std::string* name) {
    if (root_.empty()) return 0;
    std::string rest = path;
    int node = 1;
    if (rest.rfind(root_, 0) == 0)
      rest = rest.substr(root_.size());
    else if (rest[0] != '/' && at != AT_FDCWD && open_.count(at) != 0)
      node = open_[at];
    else
      return 0;
    name->clear();
    for (size_t begin = 0; begin < rest.size();) {
      const size_t end = std::min(rest.find('/', begin), rest.size());
      const std::string word = rest.substr(begin, end - begin);
      begin = end + 1;
      if (word.empty() || word == ".") continue;
      if (!name->empty() && (node = child(node, *name)) == 0) return 0;
      *name = word;
    }
    return node;
  }

  std::string root_;
  std::vector<Node> nodes_;  // indexed by number, as the running system sees them
  std::vector<FileCall> calls_;
  std::map<int, int> open_;  // descriptor -> node
};

// Chooses which calls not covered by an fsync survive.
struct Luck {
  enum Data { kLost, kZeros, kThere, kAny } data = kLost;
  enum Names { kNone, kAll, kLast, kAnyNames } names = kNone;
  unsigned seed = 0;
};

// Lays out in `directory` what a disk may hold if the machine stops before call `until`. The sync with index
// `ignored` (counted among syncs), if given, has no effect.
inline void lay_out_crash(const std::vector<FileCall>& calls, size_t until, const Luck& luck, int ignored,
                          const std::string& directory) {
  const auto& files = RecordedFiles::get();
  std::vector<size_t> durable_before(files.nodes(), 0);  // calls on that node below this index are durable
  int syncs = 0;
  for (size_t i = 0; i < until; ++i)
    if (calls[i].kind == FileCall::kSync && syncs++ != ignored)
      durable_before[static_cast<size_t>(calls[i].node)] = i;
  std::mt19937 random(luck.seed);
  std::vector<size_t> last_name(files.nodes(), 0);
  for (size_t i = 0; i < until; ++i)
    if (calls[i].kind == FileCall::kName) last_name[static_cast<size_t>(calls[i].node)] = i;

  std::vector<std::map<std::string, int>> names(files.nodes());
  std::vector<std::string> contents(files.nodes());
  bool former_there = false;
  for (size_t i = 0; i < until; ++i) {
    const FileCall& call = calls[i];
    const auto node = static_cast<size_t>(call.node);
    const bool durable = i < durable_before[node];
    switch (call.kind) {
      case FileCall::kName: {
        bool there = durable || luck.names == Luck::kAll;
        if (!there && luck.names == Luck::kLast) there = i + 1 >= last_name[node];
        if (!there && luck.names == Luck::kAnyNames) there = random() % 2 != 0;
        if (call.with_former && !durable) there = former_there;
        former_there = there;
        if (!there) break;
        if (call.child != 0)
          names[node][call.name] = call.child;
        else
          names[node].erase(call.name);
        break;
      }
      case FileCall::kWrite: {
        auto data = luck.data;
        if (data == Luck::kAny) data = static_cast<Luck::Data>(random() % 3);
        if (durable) data = Luck::kThere;
        if (data == Luck::kLost) break;
        std::string& text = contents[node];
        text.resize(std::max(text.size(), call.offset + call.bytes.size()));
        if (data == Luck::kThere) text.replace(call.offset, call.bytes.size(), call.bytes);
        break;
      }
      case FileCall::kCut:
        contents[node].resize(call.offset);
        break;
      default:
        break;
    }
  }
  const std::function<void(int, const std::string&)> lay_out = [&](int node, const std::string& path) {
    if (!files.is_directory(node)) {
      std::ofstream(path, std::ios::binary) << contents[static_cast<size_t>(node)];
      return;
    }
    std::filesystem::create_directory(path);
    for (const auto& [name, child] : names[static_cast<size_t>(node)]) lay_out(child, path + "/" + name);
  };
  lay_out(1, directory);
}

}  // namespace cropdl::restart

// The recorder's functions. Definitions in an executable replace those of the libraries, for all callers.
#define CROPDL_RECORDER cropdl::restart::RecordedFiles::get()
extern "C" {
static int recorded_openat(int at, const char* path, int flags, unsigned mode) {
  const long fd = syscall(SYS_openat, at, path, flags, mode);
  CROPDL_RECORDER.opened(at, path, flags, static_cast<int>(fd));
  return static_cast<int>(fd);
}
#define CROPDL_MODE(flags)                        \
  unsigned mode = 0;                              \
  if (((flags) & (O_CREAT | __O_TMPFILE)) != 0) { \
    va_list more;                                 \
    va_start(more, flags);                        \
    mode = va_arg(more, unsigned);                \
    va_end(more);                                 \
  }
int open(const char* path, int flags, ...) {
  CROPDL_MODE(flags)
  return recorded_openat(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  CROPDL_MODE(flags)
  return recorded_openat(AT_FDCWD, path, flags, mode);
}
int openat(int at, const char* path, int flags, ...) {
  CROPDL_MODE(flags)
  return recorded_openat(at, path, flags, mode);
}
int openat64(int at, const char* path, int flags, ...) {
  CROPDL_MODE(flags)
  return recorded_openat(at, path, flags, mode);
}
int close(int fd) {
  CROPDL_RECORDER.closed(fd);
  return static_cast<int>(syscall(SYS_close, fd));
}
int fcntl(int fd, int command, ...) {
  va_list more;
  va_start(more, command);
  const long argument = va_arg(more, long);
  va_end(more);
  const long result = syscall(SYS_fcntl, fd, command, argument);
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) CROPDL_RECORDER.copied(fd, static_cast<int>(result));
  return static_cast<int>(result);
}
ssize_t pwritev(int fd, const iovec* pieces, int count, off_t offset) {
  const ssize_t n = syscall(SYS_pwritev, fd, pieces, count, offset, 0);
  CROPDL_RECORDER.written(fd, pieces, count, offset, n);
  return n;
}
int ftruncate(int fd, off_t size) noexcept {
  const long result = syscall(SYS_ftruncate, fd, size);
  if (result == 0) CROPDL_RECORDER.cut(fd, size);
  return static_cast<int>(result);
}
int fsync(int fd) {  // the disk is simulated, so the real one need not be waited for
  if (fcntl(fd, F_GETFD) < 0) return -1;
  CROPDL_RECORDER.synced(fd);
  return 0;
}
int sync_file_range(int, off_t, off_t, unsigned) { return 0; }
int fdatasync(int fd) { return fsync(fd); }
int mkdir(const char* path, mode_t mode) noexcept {
  const long result = syscall(SYS_mkdir, path, mode);
  if (result == 0) CROPDL_RECORDER.made(path);
  return static_cast<int>(result);
}
int unlink(const char* path) noexcept {
  const long result = syscall(SYS_unlink, path);
  if (result == 0) CROPDL_RECORDER.removed(AT_FDCWD, path);
  return static_cast<int>(result);
}
int rmdir(const char* path) noexcept {
  const long result = syscall(SYS_rmdir, path);
  if (result == 0) CROPDL_RECORDER.removed(AT_FDCWD, path);
  return static_cast<int>(result);
}
int remove(const char* path) noexcept {
  long result = syscall(SYS_unlink, path);
  if (result != 0) result = syscall(SYS_rmdir, path);
  if (result == 0) CROPDL_RECORDER.removed(AT_FDCWD, path);
  return static_cast<int>(result);
}
int unlinkat(int at, const char* path, int flags) noexcept {
  const long result = syscall(SYS_unlinkat, at, path, flags);
  if (result == 0) CROPDL_RECORDER.removed(at, path);
  return static_cast<int>(result);
}
int renameat(int from_at, const char* from, int to_at, const char* to) noexcept {
  const long result = syscall(SYS_renameat, from_at, from, to_at, to);
  if (result == 0) CROPDL_RECORDER.renamed(from_at, from, to_at, to);
  return static_cast<int>(result);
}
int rename(const char* from, const char* to) noexcept { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
}

// The writer of restart/store.h: opens a store, says whose it is, and holds its lock.
#include "restart/store.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

#include "base/caught.h"
#include "base/format.h"
#include "base/host.h"
#include "base/json.h"
#include "base/time.h"
#include "base/words.h"
#include "restart/store_layout.h"

namespace cropdl::restart {

namespace {

constexpr uint32_t kStoreFormat = 1;

// Stores that this process has locked: pid (a forked child inherits the set, not the locks), device, inode.
std::mutex locked_stores_mutex;
std::set<std::tuple<pid_t, dev_t, ino_t>> locked_stores;  // under locked_stores_mutex

Error used_by_its_job(const StoreReader& store) {
  const Result<StoreReader::LiveJob> live = store.live_job();
  const auto [pid, host] = live ? *live : StoreReader::LiveJob{};
  return Error{"store {}: is used by a running job (pid {}{})", store.directory(), pid,
               host.empty() ? "" : " on " + host};
}

// A file may be named by other paths in the next start.
bool same_argument(const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (a.find('/') == std::string::npos || b.find('/') == std::string::npos) return false;
  const std::string path = resolved_path(a);
  return !path.empty() && path == resolved_path(b);
}

bool same_job(const StoreIdentity& a, const StoreIdentity& b) {
  return a.program == b.program && a.ranks == b.ranks && std::ranges::equal(a.args, b.args, same_argument);
}

bool has_identity(const Folder& store) {
  struct stat info;
  return store.look_at(kIdentityFile, &info) == 0;
}

Result<std::optional<StoreIdentity>> read_identity(const Folder& store) {
  if (!has_identity(store)) return std::optional<StoreIdentity>();
  const std::string path = store.path_of(kIdentityFile);
  const Result<std::string> text =
      within_memory(path, [&] { return store.text(kIdentityFile, kSmallFileLimit); });
  if (!text) return text.error();
  const Result<nlohmann::json> object = unsealed(*text, path, kStoreFormat);
  const auto damaged = [](const std::string& why) {
    return Error{why + "; remove it: the store's versions tell whose it is, too"};
  };
  if (!object)
    return object.error().message.find(": damaged: ") == std::string::npos ? object.error()
                                                                           : damaged(object.error().message);
  try {
    return std::optional(StoreIdentity{"", bytes_from_json(object->at("program")),
                                       list_from_json(object->at("args")),
                                       integer_from_json<uint32_t>(object->at("ranks"))});
  } catch (const std::exception& e) {
    return damaged(formatted("{}: damaged: {}", path, e.what()));
  }
}

// Lustre without -o flock, NFS without its lock daemon, some FUSE file systems.
bool no_locks_there(int failure) {
  return failure == ENOLCK || failure == ENOSYS || failure == EOPNOTSUPP || failure == EINVAL;
}

Error of_another_user(const std::string& directory, uid_t owner) {
  return Error{"store {}: belongs to user id {}, not to yours ({}); choose another directory", directory,
               owner, ::geteuid()};
}

Result<Folder> open_folder(const std::string& directory, int flags = 0) {
  Result<Folder> folder = Folder::open(directory, Folder::Whose::kAnybodys, flags);
  if (folder) return folder;
  struct stat info;
  if (::stat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid != ::geteuid())
    return of_another_user(directory, info.st_uid);
  return Error{"store " + folder.error().message};
}

Result<bool> check_directory(const Folder& folder) {
  const std::string store = formatted("store {}: ", folder.path());
  struct stat info;
  if (::fstat(folder.fd(), &info) != 0) return Error{store + errno_text(errno)};
  if (info.st_uid != ::geteuid()) return of_another_user(folder.path(), info.st_uid);
  if (::faccessat(folder.fd(), ".", R_OK | W_OK | X_OK, 0) != 0)
    return Error{"{}is not writable: {}", store, errno_text(errno)};
  const Result<std::vector<std::string>> names = folder.names();
  if (!names) return Error{"store " + names.error().message};
  if (std::ranges::any_of(*names, is_of_a_store)) return true;
  const auto is_ours = [](const std::string& name) { return name == kLockFile || is_temporary(name); };
  if (std::ranges::all_of(*names, is_ours)) return false;
  return Error{store + "is not empty and not a CropDL store; nothing was changed, choose another directory"};
}

}  // namespace

StoreIdentity identity_of(const Manifest& m) { return {m.job, m.program, m.args, m.ranks}; }

Error of_another_job(const std::string& directory, const StoreIdentity& job) {
  std::string command = command_line(job.program, job.args);
  if (command.size() > 200) command.replace(200, std::string::npos, "…");
  return Error{"store {}: belongs to another job, `{}` on {}; choose another directory", directory, command,
               counted(job.ranks, "rank")};
}

Result<bool> check_directory(const std::string& directory) {
  const Result<Folder> folder = open_folder(directory);
  return folder ? check_directory(*folder) : folder.error();
}

Result<std::optional<StoreIdentity>> identity_of(const std::string& directory) {
  const Result<Folder> folder = open_folder(directory);
  return folder ? read_identity(*folder) : folder.error();
}

bool locked_by_this_process(const Folder& store) {
  struct stat info;
  if (::fstat(store.fd(), &info) != 0) return false;
  std::lock_guard guard(locked_stores_mutex);
  return locked_stores.contains({::getpid(), info.st_dev, info.st_ino});
}

// --- The lock.

int lock_bytes(int fd, off_t first, off_t bytes, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = bytes;
  return ::fcntl(fd, F_SETLK, &lock) == 0 ? 0 : errno;
}

// A thread that holds the part of a store's lock that the program cannot drop. Closing any descriptor of a
// file drops the POSIX locks of that descriptor table (man 2 fcntl); a program that copies its store
// (`shutil.copytree`, tar) does so. So this thread has its own table. Children do not inherit the lock; it
// ends with the process, or with the object, which is destroyed only in the process that locked.
class LockHolder {
 public:
  // Locks the file from `first` on. 0 or the errno value (EAGAIN, EACCES: held by another process). Without a
  // thread, or if a sandbox forbids its own table, the lock is the calling thread's.
  int lock(const Descriptor& file, off_t first) {
    // The thread must consume no signal meant for the program.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ =
          std::jthread([this, fd = file.fd(), first](const std::stop_token& stop) { hold(stop, fd, first); });
    } catch (const std::exception&) {  // no thread available for this user, or no memory
      failure_ = lock_bytes(file.fd(), first, 0);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    std::unique_lock guard(mutex_);
    changed_.wait(guard, [this] { return failure_.has_value(); });
    return *failure_;
  }
  bool is_of_this_process() const { return process_ == ::getpid(); }  // false in a forked child

 private:
  void hold(const std::stop_token& stop, int fd, off_t first) {
    int failure = ENOMEM;
    [[maybe_unused]] const Status left = caught([&] {
      leave_descriptor_table([fd](int other) { return other == fd; });
      failure = lock_bytes(fd, first, 0);
    });
    std::unique_lock guard(mutex_);
    failure_ = failure;
    changed_.notify_all();
    changed_.wait(guard, stop, [] { return false; });
    // Unlock: join() may return before the kernel has closed descriptors. No close: the table may be shared.
    if (failure == 0) lock_bytes(fd, first, 0, F_UNLCK);
  }

  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<int> failure_;  // under mutex_; errno value of locking, 0: locked; empty: not yet known
  std::jthread thread_;         // last: it uses the rest
};

// --- The store.

Store::Store(StoreReader reader, StoreOptions options)
    : reader_(std::move(reader)), options_(std::move(options)) {}

Store::Store(Store&&) noexcept = default;

Store::~Store() {
  discard();
  // A forked child does not have the thread.
  if (lock_holder_ && !lock_holder_->is_of_this_process()) static_cast<void>(lock_holder_.release());
  if (!lock_) return;
  std::lock_guard guard(locked_stores_mutex);
  locked_stores.erase({::getpid(), device_, inode_});
}

Result<Store> Store::open_or_create(const std::string& directory, const StoreIdentity& identity,
                                    StoreOptions options, bool* in_use) {
  if (in_use != nullptr) *in_use = false;
  const bool made = create_private_directory(directory);
  if (!made && errno != EEXIST) return Error{"store {}: cannot be created: {}", directory, errno_text(errno)};
  if (made)
    if (Status synced = sync_directory(folder_of(directory)); !synced) return synced.error();
  Result<Folder> folder = open_folder(directory, made ? O_NOFOLLOW : 0);
  if (!folder) return folder.error();
  Store store(StoreReader(directory), std::move(options));
  store.reader_.folder_ = std::make_shared<Folder>(std::move(*folder));
  if (Status taken = store.take_ownership(identity, in_use); !taken) return taken.error();
  store.reader_.folder_.reset();
  return store;
}

Status Store::take_ownership(const StoreIdentity& identity, bool* in_use) {
  const Folder& folder = *reader_.folder_;
  if (const Result<bool> good = check_directory(folder); !good) return good.error();
  // Check before the lock, so that another job's store stays untouched, and again under it.
  if (has_identity(folder))
    if (const Result<bool> good = check_job(identity); !good) return good.error();
  if (Status locked = take_lock(in_use); !locked) return locked;
  const Result<bool> recorded = check_job(identity);
  if (!recorded) return recorded.error();
  // The directory may have existed, empty; images hold all of a program's memory.
  ::fchmod(folder.fd(), 0700);
  // On a file system without modes no restart would accept the store: refuse now rather than after a week.
  if (Status mine = folder.check_mine(); !mine) return Error{"store " + mine.error().message};
  // Before anything is written: a draft that filled the disk must not keep its job from being restarted. An
  // error is harmless; the next start tries again.
  std::vector<std::string> left;
  for (const std::string& name : reader_.leftovers())
    left.push_back(descriptor_path(folder.fd()) + "/" + name);  // wherever the directory's path leads
  static_cast<void>(remove_all_of(left));
  if (!*recorded)
    if (Status written = write_identity(identity); !written) return written;
  // Versions are written by the path.
  struct stat there;
  if (::stat(directory().c_str(), &there) != 0 || there.st_dev != device_ || there.st_ino != inode_)
    return Error{
        "store {}: was replaced while it was being opened; choose a directory that nobody else can "
        "rename",
        directory()};
  return {};
}

Result<Store> Store::open_existing(const std::string& directory, bool* in_use) {
  if (in_use != nullptr) *in_use = false;
  Result<StoreReader> reader = StoreReader::open(directory, Folder::Whose::kMine);
  if (!reader) return reader.error();
  Store store(std::move(*reader), {});
  if (Status locked = store.take_lock(in_use); !locked) return locked.error();
  return store;
}

Status Store::take_lock(bool* in_use) {
  bool ignored;
  if (in_use == nullptr) in_use = &ignored;
  const Folder& folder = *reader_.folder_;
  *in_use = locked_by_this_process(folder);
  if (*in_use) return used_by_its_job(reader_);
  Descriptor file = open_high(kLockFile, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600, folder.fd());
  if (!file) return Error{"store {}: its lock cannot be opened: {}", directory(), errno_text(errno)};
  if (!is_regular(file))
    return Error{"{}/{}: is not a regular file; remove it if no job runs", directory(), kLockFile};
  ::fchmod(file.fd(), 0600);  // a new file has the mode that the program's umask left
  // POSIX locks, because the others (flock, open file description locks) pass to forked children: a killed
  // rank's child would keep the store from being restarted. Both of two must be free. The first byte's lasts
  // until the whole process has ended, GPU memory included, but the program can drop it; the holder's cannot
  // be dropped, but may end a moment earlier.
  auto holder = std::make_unique<LockHolder>();
  int failure = lock_bytes(file.fd(), 0, 1);
  if (failure == 0) failure = holder->lock(file, 1);
  if (failure != 0) {
    if (failure != EAGAIN && failure != EACCES)
      return Error{"store {}: cannot be locked: {}{}", directory(), errno_text(failure),
                   no_locks_there(failure)
                       ? "; choose a directory on a file system with record locks (fcntl), or have this one "
                         "mounted with them"
                       : ""};
    *in_use = true;
    return used_by_its_job(reader_);
  }
  std::string owner = formatted("{} {}\n", ::getpid(), host_name());
  iovec piece{owner.data(), owner.size()};
  // For people only (live_job() knows the process without it), so a full disk is no reason to refuse.
  // Written over the last one's, which needs no space.
  const bool written = write_all(file.fd(), {&piece, 1}, 0) == 0;
  [[maybe_unused]] const int cut = ::ftruncate(file.fd(), written ? static_cast<off_t>(owner.size()) : 0);
  struct stat info;
  if (::fstat(folder.fd(), &info) != 0) return Error{"store {}: {}", directory(), errno_text(errno)};
  device_ = info.st_dev;
  inode_ = info.st_ino;
  std::lock_guard guard(locked_stores_mutex);
  locked_stores.insert({::getpid(), device_, inode_});
  lock_ = std::move(file);
  lock_holder_ = std::move(holder);
  return {};
}

Result<bool> Store::check_job(const StoreIdentity& identity) const {
  const Result<std::optional<StoreIdentity>> there = read_identity(*reader_.folder_);
  if (!there) return there.error();
  if (*there && same_job(identity, **there)) return true;
  // Without versions, damaged ones included, the store is nobody's: its last job left nothing, as a helper in
  // a wrapper script (`python3 -c`) does, and any job may have it.
  const Result<std::vector<Version>> all = reader_.all_versions();
  if (!all) return all.error();
  if (*there && !all->empty()) return of_another_job(directory(), **there);
  // The file is lost or was never written: all existing versions must belong to this job.
  for (const Version& version : *all) {
    const StoreIdentity its = identity_of(version.manifest);
    if (!its.program.empty() && !same_job(identity, its)) return of_another_job(directory(), its);
  }
  return false;
}

Status Store::write_identity(const StoreIdentity& identity) {
  nlohmann::json object{{"store", "cropdl"},
                        {"format", kStoreFormat},
                        {"job", json_bytes(identity.job)},
                        {"program", json_bytes(identity.program)},
                        {"args", json_bytes(identity.args)},
                        {"ranks", identity.ranks},
                        {"created", utc_now()}};
  const std::string draft = std::string(kTemporaryPrefix) + kIdentityFile;
  Status written = reader_.folder_->replace_file(kIdentityFile, draft, sealed_text(object));
  wrote_identity_ = static_cast<bool>(written);
  return written;
}

void Store::disown() {
  discard();
  if (!wrote_identity_) return;
  if (const Result<std::vector<Version>> all = reader_.all_versions(); all && all->empty())
    ::unlink((directory() + "/" + kIdentityFile).c_str());
}

}  // namespace cropdl::restart

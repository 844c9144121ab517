// The store: the directory that holds a job's versions. Lower half of rank 0 (LH FS base) and tools; an
// object is used by one thread at a time. Nothing here throws.
//
//   DIR/store.json               which job's store this is
//   DIR/lock                     locked by the one live job
//   DIR/vNNNNNN/                 a complete version: manifest.json, rank-K.img; appears by rename only
//   DIR/tmp-vNNNNNN-PID/         a version being written, or removed; a leftover when its writer died
//
// Directories are 0700 and files 0600: an image holds all of a program's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/folder.h"
#include "base/result.h"
#include "restart/lock_holder.h"
#include "restart/manifest.h"
#include "restart/retention.h"

namespace cropdl::restart {

// A store belongs to one program with one argument list on one number of ranks.
struct StoreIdentity {
  std::string job;  // recorded when the store is created; not compared (a repeated run has a new one)
  std::string program;
  std::vector<std::string> args;
  uint32_t ranks = 0;
};

struct Version {
  uint64_t number = 0;
  std::string directory;
  Manifest manifest;
  std::string damage;     // "": complete. Else why it cannot be used, one line
  bool not_mine = false;  // `damage` says so; then no older version is taken in its place

  std::shared_ptr<const Folder> store;  // in which it was found
  Result<Folder> folder() const;
};

inline constexpr char kManifestFile[] = "manifest.json";
std::string contents_name(uint32_t rank);  // "rank-3.files", a folder: the program's files, if any are saved
std::string version_name(uint64_t version);  // "v000003"

// Looks only; needs no lock, writes nothing.
class StoreReader {
 public:
  // Refuses what is not a readable CropDL store. Anybody's may be looked at; a restart, which runs what is in
  // it, asks for one's own, that nobody else may write to.
  static Result<StoreReader> open(const std::string& directory,
                                  Folder::Whose whose = Folder::Whose::kAnybodys);

  const std::string& directory() const { return directory_; }
  Descriptor& descriptor() { return folder_->descriptor(); }  // of a reader that was opened

  // Newest first. Checks manifests and the images' existence and size, not their contents. What its job
  // removes meanwhile is left out.
  std::vector<Version> all_versions() const;
  std::vector<Version> versions() const;  // the complete ones

  // That version, or the newest complete one for 0; an error if there is none.
  Result<Version> version(uint64_t number) const;

  struct LiveJob {
    long pid = 0;  // 0: nobody holds the lock
    std::string host;
  };
  Result<LiveJob> live_job() const;

 private:
  friend class Store;  // which opens stores that are still empty
  explicit StoreReader(std::string directory) : directory_(std::move(directory)) {}
  Result<std::shared_ptr<Folder>> folder() const;

  std::string directory_;
  Folder::Whose whose_ = Folder::Whose::kAnybodys;
  std::shared_ptr<Folder>
      folder_;  // null: of a Store, whose job may outlive the directory; opened for each look
};

// Whether the directory, which is there, is the caller's store or can become it. Looks only.
Status check_directory(const std::string& directory, bool* is_store);

// Whether the file that says whose the store is can be read; a store may lack it.
Status check_identity(const std::string& directory);

// Why the store is not the caller's: it has that job.
Error of_another_job(const std::string& directory, const std::string& program,
                     const std::vector<std::string>& args, uint32_t ranks);

// It was there when it was listed: its job may remove old ones at any time.
bool is_gone(const Version& version);

// The caller's own, and nobody else may write to it: then what it refers to elsewhere may be opened.
bool is_mine(const Version& version);

// What a version has outside of the store.
struct Outside {
  bool left_out = false;               // it is another user's: nothing of it was opened or looked at
  std::vector<std::string> data_sets;  // files that the program had mapped and only reads: not saved, a
                                       // restart needs them as they were. Each once
  Status as_they_were;                 // of the first that is not, here: nothing of the version is damaged
};

// Checks every byte of a version's images, and that they are those of the manifest. Minutes for large ones.
// Contents elsewhere that an image refers to are checked as a restart does; what is to be said of data sets
// is in `outside`.
Status verify_version(const Version& version, Outside* outside = nullptr);
// Likewise of images that are no version yet. `mine`: they are the caller's own.
Status verify_images(const Folder& folder, const Manifest& manifest, bool mine, Outside* outside);

// Names below the version's folder of the program's files that are saved beside that image.
Result<std::vector<std::string>> stored_contents(const Folder& folder, const std::string& image);

struct StoreOptions {
  Retention keep{4, 0, 0};  // of this job's complete versions. Those of other jobs are never removed
  // Called within publish(), for tests that kill or look: "manifest" (written), "synced" (all durable, not
  // yet visible), "renamed", "published" (durable).
  std::function<void(const char* phase)> on_phase;
};

class Store {
 public:
  // Opens or creates the store, takes the lock (held until the object or the process ends, whatever the
  // program opens and closes; not inherited by children) and removes the leftovers of killed writers.
  // Refuses, having changed nothing: a directory with other things in it, one of another user or job, one in
  // use (then `*in_use` says so), one that cannot be written.
  static Result<Store> open_or_create(const std::string& directory, const StoreIdentity& identity,
                                      StoreOptions options = {}, bool* in_use = nullptr);
  // Opens one's own store, whatever job's, and takes its lock, to remove versions. Changes nothing else.
  static Result<Store> open_existing(const std::string& directory, bool* in_use = nullptr);
  Store(Store&& other) noexcept;
  Store& operator=(Store&&) = delete;
  ~Store();

  const std::string& directory() const { return reader_.directory(); }
  const StoreReader& reader() const { return reader_; }

  struct Draft {
    uint64_t number = 0;
    std::string directory;  // the ranks write their images here
  };
  // One draft at a time. Its number is above those of all versions there are.
  Result<Draft> begin_version();

  // Makes the draft the newest version: its images must be complete and synced. Sets manifest.version,
  // returns it. When it fails older versions are as before, and the draft is there until discard():
  // the ranks go on first.
  Result<uint64_t> publish(Manifest manifest);

  // Removes complete versions of that job that StoreOptions::keep does not name. To be called after
  // publish(), once the ranks go on: freeing gigabytes takes time. May run beside all others, in another
  // thread. An error says which stays, and why.
  Status remove_old_versions(const std::string& job);
  // Takes their names only, so that they are no versions any more: a moment. The store's next job removes
  // them.
  Status set_old_versions_aside(const std::string& job);

  // Removes the draft, if there is one.
  void discard();

  // Of a store that was made by open_or_create() and has no version: any other job's may be made there.
  void disown();

  // Renames these versions, durably, so that none is taken for one any more, and adds their directories to
  // `aside`, for remove_all_of(). That frees gigabytes and takes time, and needs no lock. An error says of
  // the first that stays why it does; the others are set aside all the same.
  std::vector<uint64_t> old_versions(const std::string& job) const;
  Status set_aside(const std::vector<uint64_t>& numbers, std::vector<std::string>* aside);
  // Likewise what killed writers left.
  std::vector<std::string> set_leftovers_aside();

 private:
  Store(StoreReader reader, StoreOptions options)
      : reader_(std::move(reader)), options_(std::move(options)) {}
  Status take_lock(bool* in_use);
  Status check_or_write_identity(const StoreIdentity& identity);
  void remove_leftovers();
  void phase(const char* name) const;

  StoreReader reader_;
  StoreOptions options_;
  Descriptor lock_;
  std::unique_ptr<LockHolder> lock_holder_;
  Draft draft_;  // directory "": none
  bool wrote_identity_ = false;
};

// What cannot be removed now is removed at the store's next start; an error says so of the first.
Status remove_all_of(const std::vector<std::string>& directories);

}  // namespace cropdl::restart

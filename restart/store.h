// The store: the directory that holds a job's versions. Lower half of rank 0 (LH FS base) and tools; one
// thread at a time per object. Only a lack of memory is thrown; coord/publisher.h catches it.
//
//   DIR/store.json               the job that the store belongs to
//   DIR/lock                     locked by the running job
//   DIR/vNNNNNN/                 a complete version: manifest.json, rank-K.img; appears by rename only
//   DIR/tmp-vNNNNNN-PID/         a version being written or removed; left behind if its writer died
//
// Directories are 0700 and files 0600: an image holds all of a program's memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/folder.h"
#include "base/result.h"
#include "restart/manifest.h"
#include "restart/retention.h"

namespace cropdl::restart {

class ImageReader;
class LockHolder;

// A store belongs to one program with one argument list and one number of ranks.
struct StoreIdentity {
  std::string job;  // recorded at creation; not compared (a repeated run has a new one)
  std::string program;
  std::vector<std::string> args;
  uint32_t ranks = 0;
};

struct Version {
  uint64_t number = 0;
  std::string directory;
  Manifest manifest;
  std::string damage;                   // "": complete; else one line: why it cannot be used
  bool not_mine = false;                // `damage` says so; then no older version replaces it
  std::shared_ptr<const Folder> store;  // the store that it was found in

  Result<Folder> folder() const;
};

inline constexpr char kManifestFile[] = "manifest.json";
// "rank-3.files": folder of the program's saved files, if there are any.
std::string contents_name(uint32_t rank);
std::string version_name(uint64_t version);  // "v000003"

// Read-only access; needs no lock, writes nothing.
class StoreReader {
 public:
  // Refuses what is no readable CropDL store. Any user's may be read; a restart runs what is in it, so it
  // requires the caller's own, which no other user can write to.
  static Result<StoreReader> open(const std::string& directory,
                                  Folder::Whose whose = Folder::Whose::kAnybodys);

  const std::string& directory() const { return directory_; }
  Descriptor& descriptor() { return folder_->descriptor(); }  // only after open()

  // Newest first. Checks manifests, and images' existence and size, not their contents. Omits versions
  // removed meanwhile. An error: the directory cannot be read.
  Result<std::vector<Version>> all_versions() const;

  // Version `number`, or the newest complete one for 0; an error if there is none.
  Result<Version> version(uint64_t number) const;

  struct LiveJob {
    long pid = 0;  // 0: the lock is free
    std::string host;
  };
  Result<LiveJob> live_job() const;

  // Names of what killed writers left; also of what a running job writes.
  std::vector<std::string> leftovers() const;

 private:
  friend class Store;  // Store opens empty stores, too
  explicit StoreReader(std::string directory) : directory_(std::move(directory)) {}
  Result<std::shared_ptr<Folder>> folder() const;
  Result<std::vector<std::string>> names() const;

  std::string directory_;
  Folder::Whose whose_ = Folder::Whose::kAnybodys;
  // Null in a job's open Store: the job may outlive the directory, so each access opens it.
  std::shared_ptr<Folder> folder_;
};

// Checks that the existing directory is the caller's store (true) or can become one. Read-only.
Result<bool> check_directory(const std::string& directory);

// What store.json says, without the job's id; an error if it cannot be read. Empty: the store lacks it.
Result<std::optional<StoreIdentity>> identity_of(const std::string& directory);
StoreIdentity identity_of(const Manifest& manifest);

// The error for a store that belongs to another job.
Error of_another_job(const std::string& directory, const StoreIdentity& job);

// Returns whether the version was removed since it was listed: its job may remove old versions at any time.
bool is_gone(const Version& version);

// Returns whether the version is the caller's own and no other user can write to it; then outside files that
// it refers to may be opened.
bool is_mine(const Version& version);

DatedVersion dated(const Version& version);

// What a version needs from outside of the store.
struct Outside {
  bool left_out = false;  // another user's version: no outside file was examined
  // Files that the program had mapped and only reads, each once: not saved, needed unchanged at a restart.
  std::vector<std::string> data_sets;
  Status as_they_were;  // of the first that has changed; the version itself is not damaged
};

// Checks every byte of a version's images, and that they are the manifest's: minutes for large ones. Outside
// contents that an image refers to are checked as at a restart; results on data sets are in `outside`. `each`
// gets each verified image, so that nobody has to open it again; it may throw what reading JSON throws.
using EachImage = std::function<void(const ImageReader&, const nlohmann::json& metadata)>;
Status verify_version(const Version& version, Outside* outside = nullptr, const EachImage& each = {});
// The same for images that are no version yet. `mine`: the images are the caller's own.
Status verify_images(const Folder& folder, const Manifest& manifest, bool mine, Outside* outside,
                     const EachImage& each = {});

// Calls `read`, which may throw what reading JSON throws, with the image's metadata.
Status read_metadata(const ImageReader& image, const std::function<void(const nlohmann::json&)>& read);

// Names, below the version's folder, of the program's files saved beside the image with this metadata. Throws
// what reading JSON throws.
std::vector<std::string> stored_contents(const nlohmann::json& metadata);

struct StoreOptions {
  Retention keep{4, 0, 0};  // for this job's complete versions; never applied to other jobs' versions
  // Called within publish(), for tests that kill or inspect: "manifest" (written), "synced" (all durable, not
  // yet visible), "renamed", "published" (durable).
  std::function<void(const char* phase)> on_phase = [](const char*) {};
};

class Store {
 public:
  // Opens or creates the store, takes the lock and removes killed writers' leftovers. The lock lasts until
  // the object or the process ends, whatever the program opens and closes; children do not inherit it.
  // Refuses, changing nothing, a directory with other contents, of another user, with versions of another
  // job, in use (sets `*in_use`), or not writable.
  static Result<Store> open_or_create(const std::string& directory, const StoreIdentity& identity,
                                      StoreOptions options = {}, bool* in_use = nullptr);
  // Opens the caller's own store, of any job, and takes its lock to remove versions. Changes nothing else.
  static Result<Store> open_existing(const std::string& directory, bool* in_use = nullptr);
  Store(Store&&) noexcept;
  ~Store();

  const std::string& directory() const { return reader_.directory(); }
  const StoreReader& reader() const { return reader_; }

  struct Draft {
    uint64_t number = 0;    // larger than that of any version
    std::string directory;  // where the ranks write their images
  };
  // One draft at a time.
  Result<Draft> begin_version();

  // Makes the draft the newest version; its images must be complete and synced. Sets and returns
  // manifest.version. On failure older versions are unchanged, and the draft stays until discard(): the ranks
  // resume first.
  Result<uint64_t> publish(Manifest manifest);

  // Removes this job's complete versions, except those that StoreOptions::keep names (retention.h). Call
  // after publish(), once the ranks run: freeing gigabytes takes time. May run in a thread concurrent with
  // all other functions. An error says which version stays, and why.
  Status remove_old_versions(const std::string& job);
  // Only renames them, as set_aside(), which is quick. The store's next job removes them.
  Status set_old_versions_aside(const std::string& job, std::vector<std::string>* aside = nullptr);

  void discard();  // removes the draft, if there is one

  // Undoes open_or_create() for a store without versions: another job may then use the directory.
  void disown();

  // old_versions(): versions that StoreOptions::keep does not name. set_aside() durably renames versions, so
  // that they are no versions any more, and adds their directories to `aside` (may be null) for
  // remove_all_of(), which takes time (gigabytes) and needs no lock. Its error is that of the first that
  // stays; the others are renamed.
  Result<std::vector<uint64_t>> old_versions(const std::string& job) const;
  Status set_aside(const std::vector<uint64_t>& numbers, std::vector<std::string>* aside);
  // The same for leftovers of killed writers.
  std::vector<std::string> set_leftovers_aside();

 private:
  Store(StoreReader reader, StoreOptions options);
  // These use the reader's open folder: others may write to the one around it, and put a link in its place.
  Status take_ownership(const StoreIdentity& identity, bool* in_use);
  Status take_lock(bool* in_use);
  Result<bool> check_job(const StoreIdentity& identity) const;  // whether store.json names it
  Status write_identity(const StoreIdentity& identity);

  StoreReader reader_;
  StoreOptions options_;
  Descriptor lock_;
  std::unique_ptr<LockHolder> lock_holder_;
  uint64_t device_ = 0, inode_ = 0;  // of the locked directory
  std::unique_ptr<Draft> draft_;     // null: no draft
  // The version that has its name already, but may lose it again. It replaces no older one, and is not
  // counted by old_versions(), which may run in another thread. 0: none.
  std::unique_ptr<std::atomic<uint64_t>> not_durable_ = std::make_unique<std::atomic<uint64_t>>(0);
  bool wrote_identity_ = false;
};

// Writes a file of so many bytes, which cannot be compressed, into the store's directory, as an image is
// written, and makes it durable. Returns bytes per second. The file has lost its name before it is written,
// so nothing stays (on NFS, where a node that crashes leaves `.nfs…`). After a request to `stop`, 32 MB at
// most are waited for, and the error is ECANCELED's; other errors are errno_text()'s too. SIGXFSZ must be
// blocked or ignored: beyond a limit for files' sizes this fails. Any thread.
Result<double> measure_disk(const std::string& directory, uint64_t bytes, const std::stop_token& stop = {});

// Removes directories. The store's next start removes what is left; the first error is returned.
Status remove_all_of(const std::vector<std::string>& directories);

}  // namespace cropdl::restart

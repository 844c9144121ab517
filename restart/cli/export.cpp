// `cropdl export`: writes a version as one file, the manifest first. The version may be another user's;
// nothing is written into its store.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "base/say.h"
#include "restart/cli/archive.h"
#include "restart/cli/commands.h"
#include "restart/cli/saved_process.h"
#include "restart/content.h"
#include "restart/image.h"

namespace cropdl::cli {
namespace {

using restart::StoreReader;
using restart::Version;

// What the images of a verified version say.
struct Parts {
  std::vector<std::vector<std::string>> stored;  // the files beside each image
  uint64_t elsewhere = 0;                        // bytes of memory that are in files elsewhere
  restart::Outside outside;
};

Result<Parts> verified_parts(const Version& version) {
  Parts parts;
  const auto take = [&parts](const restart::ImageReader& image, const nlohmann::json& metadata) {
    parts.stored.push_back(restart::stored_contents(metadata));
    parts.elsewhere += bytes_elsewhere(image, metadata);
  };
  if (const Status good = restart::verify_version(version, &parts.outside, take); !good)
    return Error{"version {}: {}", version.number, good.error().message};
  return parts;
}

// Archives the manifest, the images that it lists, and the files that those name; nothing else in the folder.
Status write_archive(int fd, const std::string& name, const Version& version, const Parts& parts) {
  const Result<Folder> folder = version.folder();
  if (!folder) return folder.error();
  Result<ArchiveWriter> archive = ArchiveWriter::open(fd, name);
  if (!archive) return archive.error();
  const auto add = [&](const std::string& part, const Result<Descriptor>& file) -> Status {
    if (!file) return file.error();
    return archive->add(formatted("{}/{}", restart::version_name(version.number), part), *file,
                        folder->path_of(part));
  };
  if (Status added = add(restart::kManifestFile, folder->file(restart::kManifestFile)); !added) return added;
  for (size_t i = 0; i < version.manifest.images.size(); ++i) {
    const std::string& image = version.manifest.images[i].file;
    if (Status added = add(image, folder->file(image)); !added) return added;
    for (const std::string& stored : parts.stored[i])
      if (Status added = add(stored, restart::open_stored(*folder, stored)); !added) return added;
  }
  return archive->finish();
}

// An unnamed file that gets its name when complete: it replaces no file, and a killed process leaves none
// behind. On file systems without unnamed files (O_TMPFILE) it has a temporary name first.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)) {}
  ~NewFile() {
    if (!draft_.empty()) ::unlink(draft_.c_str());
  }

  Status create() {
    struct stat info;
    if (::lstat(path_.c_str(), &info) == 0) return Error{path_ + ": is there already; name a new file"};
    out_ = Descriptor(::open(folder_of(path_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    if (out_) {
      ::fchmod(fd(), 0600);  // regardless of the umask
      return {};
    }
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT) return cannot_be_written(path_, errno);
    std::string draft = formatted("{}.{}.part", path_, ::getpid());
    out_ = create_private_file(draft, O_WRONLY);
    if (!out_) return cannot_be_written(path_, errno);
    draft_ = std::move(draft);  // from now on ours to remove
    return {};
  }

  int fd() const { return out_.fd(); }

  Status publish() {
    if (::fsync(fd()) != 0) return cannot_be_written(path_, errno);
    const std::string from = draft_.empty() ? formatted("/proc/self/fd/{}", fd()) : draft_;
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      const int failure = errno;  // a draft: the file system may have no links either (FAT)
      if (draft_.empty() || failure == EEXIST ||
          ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0)
        return cannot_be_written(path_, failure);
      draft_.clear();
    }
    Status synced = sync_directory(folder_of(path_));
    if (!synced) ::unlink(path_.c_str());  // a command that fails leaves no file
    return synced;
  }

 private:
  std::string path_, draft_;
  Descriptor out_;
};

// Returns what the archive lacks of the version; "" if nothing.
std::string missing_line(const Parts& parts) {
  if (parts.elsewhere == 0) return "";
  const std::vector<std::string>& data_sets = parts.outside.data_sets;
  return formatted("{} of its memory are files elsewhere, by reference{}: it can be imported where those are",
                   amount(parts.elsewhere),
                   data_sets.empty() ? "" : formatted(" ({}, not saved)", named_files(data_sets)));
}

Result<int> to_stdout(const Version& version) {
  const Result<Parts> parts = verified_parts(version);
  if (!parts) return parts.error();
  if (const Status written = write_archive(1, "standard output", version, *parts); !written)
    return written.error();
  if (const std::string missing = missing_line(*parts); !missing.empty())
    say(formatted("cropdl: version {}: {}", version.number, missing));
  return kDone;
}

Result<int> to_file(const Common& common, const Version& version, const std::string& output) {
  NewFile file(output);
  if (const Status created = file.create(); !created) return created.error();
  const Result<Parts> parts = verified_parts(version);
  if (!parts) return parts.error();
  Status written = write_archive(file.fd(), output, version, *parts);
  if (written) written = file.publish();
  if (!written) return written.error();
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) return cannot_be_written(output, errno);
  const auto bytes = static_cast<uint64_t>(info.st_size);
  const size_t images = version.manifest.images.size();
  const std::string missing = missing_line(*parts);
  return answer(common.json,
                {{"version", version.number},
                 {"file", json_bytes(output)},
                 {"bytes", bytes},
                 {"images", images},
                 {"by_reference", parts->elsewhere},
                 {"data_sets", json_bytes(parts->outside.data_sets)}},
                formatted("{}: version {}, {}, {}{}{}", output, version.number, counted(images, "image"),
                          amount(bytes), missing.empty() ? "" : "; ", missing));
}

}  // namespace

Result<int> export_version(const Common& common, uint64_t number, const std::string& output) {
  const bool is_stdout = output == "-";
  if (is_stdout && common.json)
    return fail(true, Error{"export: --json and --output - would both go to standard output"}, kMisuse);
  if (is_stdout && ::isatty(1) == 1)
    return fail(false, Error{"export: standard output is a terminal; name a file with --output"}, kMisuse);
  const Result<StoreReader> store = StoreReader::open(common.directory);
  if (!store) return store.error();
  if (const Status outside = check_outside(output, common.directory); !outside) return outside.error();
  const Result<Version> version = store->version(number);
  if (!version) return version.error();
  return is_stdout ? to_stdout(*version) : to_file(common, *version, output);
}

}  // namespace cropdl::cli

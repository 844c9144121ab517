// The reader of restart/store.h, and the reading side of the lock.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/caught.h"
#include "base/format.h"
#include "base/host.h"
#include "base/json.h"
#include "base/words.h"
#include "restart/content.h"
#include "restart/image.h"
#include "restart/page_sources.h"
#include "restart/store.h"
#include "restart/store_layout.h"

namespace cropdl::restart {

std::string contents_name(uint32_t rank) { return formatted("rank-{}.files", rank); }

std::string version_name(uint64_t version) { return formatted("v{:06}", version); }

uint64_t version_number(const std::string& name) {
  if (!name.starts_with('v') || !is_number(name.substr(1), 18)) return 0;
  const uint64_t number = std::strtoull(name.c_str() + 1, nullptr, 10);
  return version_name(number) == name ? number : 0;
}

bool is_temporary(const std::string& name) {
  if (!name.starts_with(kTemporaryPrefix)) return false;
  std::string of = name.substr(std::size(kTemporaryPrefix) - 1);
  const bool removed = of.ends_with(kRemovedSuffix);
  if (removed) of.resize(of.size() - (std::size(kRemovedSuffix) - 1));
  if (of == kIdentityFile) return true;
  int numbers = 0;  // PID, AGAIN
  for (; numbers < 2; ++numbers) {
    const size_t hyphen = of.rfind('-');
    if (hyphen == of.npos || !is_number(of.substr(hyphen + 1), of.npos)) break;
    of.resize(hyphen);
  }
  if (of + "-" == kSpeedTest) return numbers == 1;
  return version_number(of) != 0 && (numbers != 0 || removed);
}

bool is_of_a_store(const std::string& name) { return name == kIdentityFile || version_number(name) != 0; }

namespace {

// Returns why the version cannot be used, or "".
std::string read_manifest(Version& version) {
  const Result<Folder> folder = version.folder();
  if (!folder) return folder.error().message;
  const std::string path = folder->path_of(kManifestFile);
  const Result<std::string> text =
      within_memory(path, [&] { return folder->text(kManifestFile, kSmallFileLimit); });
  if (!text) return text.error().message;
  const Status parsed =
      within_memory(path, [&] { return parse_manifest(*text, path); }).move_to(version.manifest);
  if (!parsed) return parsed.error().message;
  if (version.manifest.version != version.number)
    return formatted("{}: is of version {}", path, version.manifest.version);
  const Status good = check_image_files(*folder, version.manifest);
  return good ? "" : good.error().message;
}

constexpr int kVersionDepth = 2;  // its images, and the folders beside them

Version read_version(const std::shared_ptr<const Folder>& store, const std::string& name,
                     Folder::Whose whose) {
  Version version{version_number(name), store->path_of(name), {}, "", false, store};
  if (whose == Folder::Whose::kMine)
    if (const Status mine = store->check_mine(name, kVersionDepth); !mine) {
      version.damage = mine.error().message;
      version.not_mine = true;
      return version;
    }
  version.damage = read_manifest(version);
  return version;
}

}  // namespace

Status check_image_files(const Folder& folder, const Manifest& manifest) {
  for (const ManifestImage& image : manifest.images) {
    const std::string path = folder.path_of(image.file);
    struct stat info;
    if (const int failure = folder.look_at(image.file, &info); failure != 0)
      return Error{"rank image {}: {}", path, errno_text(failure)};
    if (S_ISLNK(info.st_mode)) return Error{"rank image {}: is a symbolic link", path};
    if (!S_ISREG(info.st_mode)) return Error{"rank image {}: is not a regular file", path};
    if (const auto size = static_cast<uint64_t>(info.st_size); size != image.bytes)
      return Error{"rank image {}: {}: has {} bytes, the manifest says {}", path,
                   size < image.bytes ? "truncated" : "too long", size, image.bytes};
  }
  return {};
}

Result<Folder> Version::folder() const { return store->folder(version_name(number)); }

Result<StoreReader> StoreReader::open(const std::string& directory, Folder::Whose whose) {
  StoreReader reader(directory);
  reader.whose_ = whose;
  if (Status opened = reader.folder().move_to(reader.folder_); !opened) return opened.error();
  if (whose == Folder::Whose::kMine)
    for (const char* name : {kIdentityFile, kLockFile, kJobFile})
      if (Status mine = reader.folder_->check_mine(name, 0); !mine)
        return Error{"store " + mine.error().message};
  const Result<std::vector<std::string>> names = reader.names();
  if (!names) return names.error();
  if (std::ranges::any_of(*names, is_of_a_store)) return reader;
  return Error{"store {}: is not a CropDL store (it holds neither {} nor any version)", directory,
               kIdentityFile};
}

Result<std::shared_ptr<Folder>> StoreReader::folder() const {
  if (folder_) return folder_;
  Result<Folder> folder = Folder::open(directory_, whose_);
  if (!folder) return Error{"store " + folder.error().message};
  return std::make_shared<Folder>(std::move(*folder));
}

Result<std::vector<std::string>> StoreReader::names() const {
  const Result<std::shared_ptr<Folder>> in = folder();
  if (!in) return in.error();
  Result<std::vector<std::string>> names = (*in)->names();
  if (!names) return Error{"store " + names.error().message};
  return names;
}

bool is_gone(const Version& version) {
  struct stat info;
  return version.store->look_at(version_name(version.number), &info) == ENOENT;
}

bool is_mine(const Version& version) {
  return version.store->check_mine() &&
         version.store->check_mine(version_name(version.number), kVersionDepth);
}

Result<std::vector<Version>> StoreReader::all_versions() const {
  constexpr int kMostLooks = 100;  // all listed versions may be removed before they are read
  std::vector<Version> versions;
  for (int looks = 0; looks < kMostLooks; ++looks) {
    versions.clear();
    const Result<std::shared_ptr<Folder>> store = folder();
    if (!store) return store.error();
    const Result<std::vector<std::string>> names = (*store)->names();
    if (!names) return Error{"store " + names.error().message};
    for (const std::string& name : *names)
      if (version_number(name) != 0) versions.push_back(read_version(*store, name, whose_));
    if (std::erase_if(versions, [](const Version& v) { return !v.damage.empty() && is_gone(v); }) == 0) break;
  }
  std::sort(versions.begin(), versions.end(), [](auto& a, auto& b) { return a.number > b.number; });
  return versions;
}

Result<Version> StoreReader::version(uint64_t number) const {
  std::string damaged;
  Result<std::vector<Version>> all = all_versions();
  if (!all) return all.error();
  for (Version& version : *all) {
    if (number != 0 && version.number != number) continue;
    if (version.damage.empty()) return std::move(version);
    if (number != 0 || version.not_mine)
      return Error{"version {} cannot be used: {}", version.number, version.damage};
    if (damaged.empty()) damaged = formatted(" (the newest is damaged: {})", version.damage);
  }
  if (number != 0) return Error{"store {}: has no version {}", directory_, number};
  return Error{"store {}: holds no complete version{}", directory_, damaged};
}

Result<StoreReader::LiveJob> StoreReader::live_job() const {
  const std::string path = directory_ + "/" + kLockFile;
  const Result<std::shared_ptr<Folder>> store = folder();
  if (!store) return store.error();
  if (locked_by_this_process(**store)) return LiveJob{::getpid(), host_name()};
  struct stat info;
  const int failure = (*store)->look_at(kLockFile, &info);
  if (failure == ENOENT) return LiveJob{};
  if (failure != 0) return Error{"{}: {}", path, errno_text(failure)};
  if (!S_ISREG(info.st_mode)) return Error{path + ": is not a regular file; remove it if no job runs"};
  const Result<Descriptor> file = (*store)->file(kLockFile);
  if (!file) return file.error();
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(file->fd(), F_GETLK, &lock) != 0)
    return Error{"{}: cannot be examined: {}", path, errno_text(errno)};
  if (lock.l_type == F_UNLCK) return LiveJob{};
  // As the lock's owner wrote it: the kernel's answer has no host, and its pid is meaningless across hosts.
  long pid = 0;
  char host[256] = "";
  const Result<std::string> text = read_small_file(*file, path, 4096);
  if (text && std::sscanf(text->c_str(), "%ld %255s", &pid, host) == 2 && pid > 0) return LiveJob{pid, host};
  if (lock.l_pid > 0) return LiveJob{lock.l_pid, host_name()};  // a process of this machine
  return LiveJob{-1, "another machine or container"};
}

namespace {

// An image's metadata. Throws what reading JSON throws.
nlohmann::json metadata_of(const ImageReader& image) {
  nlohmann::json metadata = json_from_text(image.metadata());
  if (!metadata.is_object()) throw_wrong_json_type("an object");
  return metadata;
}

// Checks the program's saved files, which are beside the image and named in its metadata.
Status verify_contents(const Folder& version, const nlohmann::json& metadata) {
  if (!metadata.contains("contents")) return {};
  for (const nlohmann::json& content : metadata.at("contents")) {
    const std::string stored = content.at("stored").get<std::string>();
    if (stored.empty()) continue;
    const Result<Descriptor> file = open_stored(version, stored);
    if (!file) return file.error();
    const auto bytes = integer_from_json<uint64_t>(content.at("identity").at("size"));
    const Result<uint64_t> sum = content_checksum(file->fd(), 0, bytes, version.path_of(stored));
    if (!sum) return sum.error();
    if (*sum != hex_from_json(content.at("checksum")))
      return Error{version.path_of(stored) + ": its content is damaged (checksum)"};
  }
  return {};
}

// Checks the pages that the image has by reference, in the files that its metadata names; opens them only if
// the image is `mine`.
Status verify_references(const ImageReader& image, const nlohmann::json& metadata, bool mine,
                         Outside* outside) {
  const nlohmann::json memory = metadata.value("memory", nlohmann::json());
  for (size_t i = 0; i < image.regions().size(); ++i) {
    const Region& region = image.regions()[i];
    if (region.referenced.empty()) continue;
    if (!mine) {
      outside->left_out = true;
      continue;
    }
    const auto& all = memory.at("regions");
    const auto one = std::find_if(all.begin(), all.end(), [&region](const nlohmann::json& r) {
      return integer_from_json<uint64_t>(r.at("begin")) == region.begin && r.contains("file");
    });
    if (one == all.end())
      return Error{"{}: its metadata names no file for the region {}", image.path(), region.name};
    const nlohmann::json& mapped = one->at("file");
    FilePages original(bytes_from_json(mapped.at("path")), region.begin,
                       integer_from_json<uint64_t>(mapped.at("offset")));
    if (Status good = image.verify_referenced(i, original); !good) return good;
  }
  return {};
}

// Checks data sets: files that the program only reads and that were not saved.
void look_at_data_sets(const nlohmann::json& metadata, bool mine, Outside* outside) {
  const nlohmann::json memory = metadata.value("memory", nlohmann::json());
  if (!memory.contains("regions")) return;
  for (const nlohmann::json& region : memory.at("regions")) {
    if (!region.contains("file") || !region.at("file").value("left_in_file", false)) continue;
    const nlohmann::json& file = region.at("file");
    const std::string path = bytes_from_json(file.at("path"));
    auto& known = outside->data_sets;
    if (std::find(known.begin(), known.end(), path) == known.end()) known.push_back(path);
    if (!mine)
      outside->left_out = true;
    else if (outside->as_they_were)
      outside->as_they_were =
          check_data_set(path, -1, integer_from_json<int64_t>(file.at("identity").at("size")),
                         integer_from_json<int64_t>(file.at("identity").at("modified")));
  }
}

Status verify_image(const Folder& version, const ManifestImage& listed, bool mine, Outside* outside,
                    const EachImage& each) {
  const Result<ImageReader> image = ImageReader::open(version, listed.file);
  if (!image) return image.error();
  if (image->totals().checksum != listed.checksum)
    return Error{"rank image {}: is not the one that the manifest lists (its checksum differs)",
                 image->path()};
  if (Status good = image->verify(); !good) return good;
  try {
    const nlohmann::json metadata = metadata_of(*image);
    if (Status good = verify_references(*image, metadata, mine, outside); !good) return good;
    look_at_data_sets(metadata, mine, outside);
    if (Status good = verify_contents(version, metadata); !good) return good;
  } catch (const nlohmann::json::exception& e) {
    return Error{"{}: its metadata cannot be read ({})", image->path(), e.what()};
  }
  return each ? read_metadata(*image, [&](const auto& metadata) { each(*image, metadata); }) : Status();
}

}  // namespace

Status read_metadata(const ImageReader& image, const std::function<void(const nlohmann::json&)>& read) {
  const std::string what = "rank image " + image.path();
  return within_memory(what, [&]() -> Status {
    try {
      read(metadata_of(image));
      return {};
    } catch (const nlohmann::json::exception& e) {
      return Error{"{}: its metadata cannot be read ({})", what, e.what()};
    }
  });
}

std::vector<std::string> stored_contents(const nlohmann::json& metadata) {
  std::vector<std::string> names;
  for (const nlohmann::json& content : metadata.at("contents"))
    if (auto stored = content.at("stored").get<std::string>(); !stored.empty())
      names.push_back(std::move(stored));
  return names;
}

Status verify_images(const Folder& folder, const Manifest& manifest, bool mine, Outside* outside,
                     const EachImage& each) {
  if (Status good = check_image_files(folder, manifest); !good) return good;
  for (const ManifestImage& image : manifest.images) {
    Status good = within_memory("rank image " + folder.path_of(image.file),
                                [&] { return verify_image(folder, image, mine, outside, each); });
    if (!good) return good;
  }
  return {};
}

Status verify_version(const Version& version, Outside* outside, const EachImage& each) {
  Outside ignored;
  if (outside == nullptr) outside = &ignored;
  *outside = {};
  if (!version.damage.empty()) return Error{version.damage};
  const Result<Folder> folder = version.folder();
  if (!folder) return folder.error();
  return verify_images(*folder, version.manifest, is_mine(version), outside, each);
}

}  // namespace cropdl::restart

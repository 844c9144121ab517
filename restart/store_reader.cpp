// The looking half of restart/store.h, and the lock's reading side.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/format.h"
#include "base/host.h"
#include "base/json.h"
#include "restart/content.h"
#include "restart/image.h"
#include "restart/page_sources.h"
#include "restart/store.h"
#include "restart/store_layout.h"

namespace cropdl::restart {

std::string image_name(uint32_t rank) { return formatted("rank-{}.img", rank); }

std::string version_name(uint64_t version) {
  char text[32];
  std::snprintf(text, sizeof text, "v%06lu", static_cast<unsigned long>(version));
  return text;
}

uint64_t version_number(const std::string& name) {
  if (name.size() < 7 || name.size() > 19 || name[0] != 'v' ||
      name.find_first_not_of("0123456789", 1) != std::string::npos)
    return 0;
  uint64_t number = std::strtoull(name.c_str() + 1, nullptr, 10);
  return version_name(number) == name ? number : 0;
}

Result<std::vector<std::string>> directory_names(const std::string& directory) {
  DIR* stream = ::opendir(directory.c_str());
  if (stream == nullptr)
    return Error{formatted("store {}: cannot be read: {}", directory, errno_text(errno))};
  std::vector<std::string> names;
  while (dirent* entry = ::readdir(stream)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(stream);
  return names;
}

namespace {

Status check_image_file(const std::string& directory, const ManifestImage& image) {
  std::string path = directory + "/" + image.file;
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return Error{formatted("rank image {}: {}", path, errno_text(errno))};
  if (!S_ISREG(info.st_mode)) return Error{formatted("rank image {}: is not a regular file", path)};
  uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size == image.bytes) return {};
  return Error{formatted("rank image {}: {}: has {} bytes, the manifest says {}", path,
                         size < image.bytes ? "truncated" : "too long", size, image.bytes)};
}

Version read_version(const std::string& store, const std::string& name) {
  Version version{version_number(name), store + "/" + name, {}, ""};
  std::string path = version.directory + "/manifest.json";
  Result<std::string> text = read_small_file(path, kSmallFileLimit);
  if (!text) {
    version.damage = text.error().message;
    return version;
  }
  Result<Manifest> manifest = parse_manifest(*text, path);
  if (!manifest) {
    version.damage = manifest.error().message;
    return version;
  }
  version.manifest = std::move(*manifest);
  if (version.manifest.version != version.number)
    version.damage = formatted("{}: is of version {}", path, version.manifest.version);
  if (version.damage.empty())
    if (Status good = check_image_files(version.directory, version.manifest); !good)
      version.damage = good.error().message;
  return version;
}

}  // namespace

Status check_image_files(const std::string& directory, const Manifest& manifest) {
  for (const ManifestImage& image : manifest.images)
    if (Status good = check_image_file(directory, image); !good) return good;
  return {};
}

Result<StoreReader> StoreReader::open(const std::string& directory) {
  struct stat info;
  if (::stat(directory.c_str(), &info) != 0)
    return Error{formatted("store {}: {}", directory, errno_text(errno))};
  if (!S_ISDIR(info.st_mode)) return Error{formatted("store {}: is not a directory", directory)};
  Result<std::vector<std::string>> names = directory_names(directory);
  if (!names) return names.error();
  for (const std::string& name : *names)
    if (name == kIdentityFile || version_number(name) != 0) return StoreReader(directory);
  return Error{formatted("store {}: is not a CropDL store (it holds neither {} nor any version)", directory,
                         kIdentityFile)};
}

bool is_gone(const Version& version) {
  return ::access(version.directory.c_str(), F_OK) != 0 && errno == ENOENT;
}

std::vector<Version> StoreReader::all_versions() const {
  constexpr int kMostLooks = 100;  // all that was listed may be gone by the time that it is read
  std::vector<Version> versions;
  for (int looks = 0; looks < kMostLooks; ++looks) {
    versions.clear();
    Result<std::vector<std::string>> names = directory_names(directory_);
    if (!names) return versions;
    for (const std::string& name : *names)
      if (version_number(name) != 0) versions.push_back(read_version(directory_, name));
    if (std::erase_if(versions, [](const Version& v) { return !v.damage.empty() && is_gone(v); }) == 0) break;
  }
  std::sort(versions.begin(), versions.end(), [](auto& a, auto& b) { return a.number > b.number; });
  return versions;
}

std::vector<Version> StoreReader::versions() const {
  std::vector<Version> versions = all_versions();
  std::erase_if(versions, [](const Version& version) { return !version.damage.empty(); });
  return versions;
}

Result<Version> StoreReader::version(uint64_t number) const {
  std::string damaged;
  for (Version& version : all_versions()) {
    if (number != 0 && version.number != number) continue;
    if (version.damage.empty()) return std::move(version);
    if (number != 0) return Error{formatted("version {} cannot be used: {}", number, version.damage)};
    if (damaged.empty()) damaged = formatted(" (the newest is damaged: {})", version.damage);
  }
  if (number != 0) return Error{formatted("store {}: has no version {}", directory_, number)};
  return Error{formatted("store {}: holds no complete version{}", directory_, damaged)};
}

Result<StoreReader::LiveJob> StoreReader::live_job() const {
  std::string path = directory_ + "/" + kLockFile;
  LiveJob job;
  if (locked_by_this_process(directory_)) return LiveJob{::getpid(), host_name()};
  Descriptor file = open_high(path, O_RDONLY | O_NONBLOCK);
  if (!file && errno == ENOENT) return LiveJob{};
  if (!file) return Error{formatted("{}: cannot be opened: {}", path, errno_text(errno))};
  if (!is_regular(file)) return Error{path + ": is not a regular file; remove it if no job runs"};
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(file.fd(), F_GETLK, &lock) != 0)
    return Error{formatted("{}: cannot be examined: {}", path, errno_text(errno))};
  if (lock.l_type == F_UNLCK) return LiveJob{};
  // Whom the lock's owner says it is: the kernel's answer has no host, and means nothing across hosts.
  char host[256] = "";
  Result<std::string> text = read_small_file(path, 4096);
  if (text && std::sscanf(text->c_str(), "%ld %255s", &job.pid, host) == 2)
    job.host = host;
  else
    job.pid = lock.l_pid;
  return job;
}

namespace {

// Contents of the program's files, which lie beside the image and are named in its metadata.
Status verify_contents(const std::string& directory, const std::string& metadata, const std::string& image) {
  try {
    const nlohmann::json j = nlohmann::json::parse(metadata);
    if (!j.contains("contents")) return {};
    for (const nlohmann::json& content : j.at("contents")) {
      const std::string stored = content.at("stored").get<std::string>();
      if (stored.empty()) continue;
      const std::string path = directory + "/" + stored;
      const Descriptor file = open_high(path, O_RDONLY);
      if (!file) return Error{formatted("{}: cannot be opened: {}", path, errno_text(errno))};
      const auto bytes = integer_from_json<uint64_t>(content.at("identity").at("size"));
      const Result<uint64_t> sum = content_checksum(file.fd(), 0, bytes, path);
      if (!sum) return sum.error();
      if (*sum != hex_from_json(content.at("checksum")))
        return Error{path + ": its content is damaged (checksum)"};
    }
  } catch (const nlohmann::json::exception& e) {
    return Error{formatted("{}: its metadata cannot be read ({})", image, e.what())};
  }
  return {};
}

// What the image has by reference, of the files that its metadata names.
Status verify_references(const ImageReader& image) {
  try {
    const nlohmann::json memory = nlohmann::json::parse(image.metadata()).value("memory", nlohmann::json());
    for (size_t i = 0; i < image.regions().size(); ++i) {
      const Region& region = image.regions()[i];
      if (region.referenced.empty()) continue;
      const auto& all = memory.at("regions");
      const auto one = std::find_if(all.begin(), all.end(), [&region](const nlohmann::json& r) {
        return integer_from_json<uint64_t>(r.at("begin")) == region.begin && r.contains("file");
      });
      if (one == all.end())
        return Error{
            formatted("{}: its metadata names no file for the region {}", image.path(), region.name)};
      const nlohmann::json& mapped = one->at("file");
      FilePages original(bytes_from_json(mapped.at("path")), region.begin,
                         integer_from_json<uint64_t>(mapped.at("offset")));
      if (Status good = image.verify_referenced(i, original); !good) return good;
    }
  } catch (const nlohmann::json::exception& e) {
    return Error{formatted("{}: its metadata cannot be read ({})", image.path(), e.what())};
  }
  return {};
}

}  // namespace

Status verify_version(const Version& version) {
  if (!version.damage.empty()) return Error{version.damage};
  if (Status good = check_image_files(version.directory, version.manifest); !good) return good;
  for (const ManifestImage& image : version.manifest.images) {
    std::string path = version.directory + "/" + image.file;
    Result<ImageReader> reader = ImageReader::open(path);
    if (!reader) return reader.error();
    if (reader->totals().checksum != image.checksum)
      return Error{
          formatted("rank image {}: is not the one that the manifest lists (its checksum differs)", path)};
    if (Status good = reader->verify(); !good) return good;
    if (Status good = verify_references(*reader); !good) return good;
    if (Status good = verify_contents(version.directory, reader->metadata(), path); !good) return good;
  }
  return {};
}

}  // namespace cropdl::restart

// `cropdl import`: creates a version from an archive of `cropdl export`. Refuses entries that a version does
// not have, and publishes the version only after every byte was verified.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>

#include "base/folder.h"
#include "restart/cli/archive.h"
#include "restart/cli/commands.h"
#include "restart/image.h"
#include "restart/store_layout.h"

namespace cropdl::cli {
namespace {

using restart::Manifest;
using restart::Store;

struct Imported {
  Manifest manifest;
  std::string top;  // prefix of all names
};

Result<Imported> read_manifest(ArchiveReader& archive, const std::string& file) {
  const Result<std::optional<ArchiveReader::Entry>> entry = archive.next();
  if (!entry) return entry.error();
  const std::string path = *entry ? (*entry)->path : "";
  const size_t slash = std::min(path.find('/'), path.size());
  if (restart::version_number(path.substr(0, slash)) == 0 ||
      path.substr(slash) != formatted("/{}", restart::kManifestFile))
    return Error{file + ": is no file of `cropdl export` (it does not begin with a version's manifest)"};
  Result<std::string> text = archive.text(restart::kSmallFileLimit);
  if (!text) return text.error();
  Result<Manifest> manifest = restart::parse_manifest(*text, formatted("{}: {}", file, path));
  if (!manifest) return manifest.error();
  return Imported{std::move(*manifest), path.substr(0, slash + 1)};
}

// What a version may hold: the names of its images, with their sizes, and of folders beside them, without.
using Allowed = std::map<std::string, std::optional<uint64_t>>;

// `made`: the folders that exist; adds the one for `name`.
Status check_entry(const Allowed& allowed, const std::string& draft, const std::string& name, uint64_t bytes,
                   std::set<std::string>* made) {
  if (const auto image = allowed.find(name); image != allowed.end() && image->second) {
    if (image->second == bytes) return {};
    return Error{"`{}` has {} bytes, and {} in the manifest", name, bytes, *image->second};
  }
  const size_t slash = std::min(name.find('/'), name.size());
  const auto folder = allowed.find(name.substr(0, slash));
  if (slash == name.size() || folder == allowed.end() || folder->second ||
      !is_plain_name(name.substr(slash + 1)))
    return Error{"`{}` is no part of the version that its manifest lists", name};
  if (made->insert(folder->first).second && !create_private_directory(draft + "/" + folder->first))
    return Error{"{}/{}: cannot be made: {}", draft, folder->first, errno_text(errno)};
  return {};
}

// Extracts all files and returns their names below the draft.
Result<std::set<std::string>> extract_all(ArchiveReader& archive, const std::string& file,
                                          const Imported& from, const std::string& draft) {
  Allowed allowed;
  for (uint32_t rank = 0; rank < from.manifest.ranks; ++rank) {
    allowed[from.manifest.images[rank].file] = from.manifest.images[rank].bytes;
    allowed.try_emplace(restart::contents_name(rank));
  }
  std::set<std::string> names, folders;
  for (;;) {
    const Result<std::optional<ArchiveReader::Entry>> entry = archive.next();
    if (!entry) return entry.error();
    if (!*entry) break;
    const std::string& path = (*entry)->path;
    const std::string name = path.starts_with(from.top) ? path.substr(from.top.size()) : path;
    if (Status good = check_entry(allowed, draft, name, (*entry)->bytes, &folders); !good)
      return Error{"{}: {}", file, good.error().message};
    const std::string to = draft + "/" + name;
    const Descriptor out = create_private_file(to, O_WRONLY);
    if (!out && errno == EEXIST) return Error{"{}: holds `{}` twice", file, name};
    if (!out) return cannot_be_written(to, errno);
    if (Status written = archive.extract(out, to); !written) return written.error();
    names.insert(name);
  }
  for (const std::string& folder : folders)
    if (Status synced = sync_directory(draft + "/" + folder); !synced) return synced.error();
  return names;
}

// Verifies the images, and that each file beside them is one that an image names; `names`: all files.
Status check_all(const Folder& folder, const Manifest& manifest, std::set<std::string> names) {
  restart::Outside outside;
  const auto strike_off = [&names](const restart::ImageReader&, const nlohmann::json& metadata) {
    for (const std::string& name : restart::stored_contents(metadata)) names.erase(name);
  };
  if (Status good = restart::verify_images(folder, manifest, true, &outside, strike_off); !good) return good;
  if (!outside.as_they_were) return outside.as_they_were;
  for (const restart::ManifestImage& listed : manifest.images) names.erase(listed.file);
  if (names.empty()) return {};
  return Error{"`{}` is no part of the version: no image names it", *names.begin()};
}

Result<uint64_t> make_version(Store& store, ArchiveReader& archive, const std::string& file,
                              const Imported& from) {
  const Result<Store::Draft> draft = store.begin_version();
  if (!draft) return draft.error();
  const Result<std::set<std::string>> names = extract_all(archive, file, from, draft->directory);
  if (!names) return names.error();
  const Result<Folder> folder = Folder::open(draft->directory, Folder::Whose::kMine);
  if (!folder) return folder.error();
  if (Status good = check_all(*folder, from.manifest, *names); !good)
    return Error{"{}: {}", file, good.error().message};
  Manifest manifest = from.manifest;
  manifest.parent = 0;  // version numbers of another store have no meaning here
  manifest.restarted = false;
  return store.publish(std::move(manifest));
}

// A restart runs the code in a version, so the archive must belong to the user, and no other may write to it.
// A pipe does not say who wrote what comes out of it: the user must know (docs/cli.md).
Status check_author(int archive, const std::string& file, bool may_be_a_pipe) {
  struct stat info;
  if (::fstat(archive, &info) != 0) return Error{"{}: {}", file, errno_text(errno)};
  if (may_be_a_pipe && !S_ISREG(info.st_mode)) return {};
  const char* const advice = "a restart runs what is in it; if you trust who made it, import a copy of yours";
  if (info.st_uid != ::geteuid())
    return Error{"{}: belongs to user id {}, not to yours ({}): {}", file, info.st_uid, ::geteuid(), advice};
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error{"{}: others may write to it (mode {:o}): {}", file, info.st_mode & 07777, advice};
  return {};
}

}  // namespace

Result<int> import_version(const Common& common, const std::string& file) {
  const bool from_stdin = file == "-";
  const Descriptor opened(from_stdin ? -1 : ::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from_stdin && !opened) return Error{"{}: {}", file, errno_text(errno)};
  const std::string name = from_stdin ? "standard input" : file;
  const int fd = from_stdin ? STDIN_FILENO : opened.fd();
  if (Status trusted = check_author(fd, name, from_stdin); !trusted) return trusted.error();
  Result<ArchiveReader> archive = ArchiveReader::open(fd, name);
  if (!archive) return archive.error();
  const Result<Imported> from = read_manifest(*archive, name);
  if (!from) return from.error();
  const Manifest& manifest = from->manifest;
  bool in_use = false;
  Result<Store> store = Store::open_or_create(common.directory, restart::identity_of(manifest), {}, &in_use);
  if (!store) return Error{store.error().message + (in_use ? ": import when that has ended" : "")};
  const Result<uint64_t> number = make_version(*store, *archive, name, *from);
  if (!number) {
    store->disown();
    return number.error();
  }
  return answer(common.json,
                {{"version", *number},
                 {"former", manifest.version},
                 {"images", manifest.images.size()},
                 {"bytes", manifest.bytes()}},
                formatted("version {}: was version {}, {}, {}", *number, manifest.version,
                          counted(manifest.images.size(), "image"), amount(manifest.bytes())));
}

}  // namespace cropdl::cli

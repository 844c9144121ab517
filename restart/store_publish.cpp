// The writer of restart/store.h: drafts, which become versions.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/format.h"
#include "restart/store.h"
#include "restart/store_layout.h"

namespace cropdl::restart {

constexpr int kMostDrafts = 100;  // per version number

Result<Store::Draft> Store::begin_version() {
  discard();
  const Result<std::vector<std::string>> names = reader_.names();
  if (!names) return names.error();
  uint64_t newest = 0;
  for (const std::string& name : *names) newest = std::max(newest, version_number(name));
  Draft draft{newest + 1, ""};
  if (version_number(version_name(draft.number)) != draft.number)
    return Error{"store {}: version {} has the largest number that there is; choose another directory",
                 directory(), newest};
  draft.directory =
      formatted("{}/{}{}-{}", directory(), kTemporaryPrefix, version_name(draft.number), ::getpid());
  // A draft of that name may remain that could not be removed completely: a rank was still writing there.
  const std::string first = draft.directory;
  bool made = create_private_directory(draft.directory);
  for (int again = 1; !made && errno == EEXIST && again <= kMostDrafts; ++again) {
    draft.directory = formatted("{}-{}", first, again);
    made = create_private_directory(draft.directory);
  }
  if (!made)
    return Error{"store {}: version {} cannot be begun: {}", directory(), draft.number, errno_text(errno)};
  draft_ = draft;
  return draft;
}

Result<uint64_t> Store::publish(Manifest manifest) {
  if (draft_.directory.empty()) return Error{"store {}: no version was begun", directory()};
  std::string name = formatted("version {} is given up: ", draft_.number);
  auto give_up = [&](const std::string& why) { return Error{name + why}; };
  manifest.version = draft_.number;
  std::string text = manifest_text(manifest);
  std::string path = draft_.directory + "/" + kManifestFile;
  if (Result<Manifest> readable = parse_manifest(text, path); !readable)
    return give_up(readable.error().message);
  const Result<Folder> draft = Folder::open(draft_.directory, Folder::Whose::kAnybodys);
  if (!draft) return give_up(draft.error().message);
  if (Status good = check_image_files(*draft, manifest); !good) return give_up(good.error().message);
  if (Status written = write_durable_file(path, text); !written) return give_up(written.error().message);
  options_.on_phase("manifest");
  if (Status synced = sync_directory(draft_.directory); !synced) return give_up(synced.error().message);
  options_.on_phase("synced");

  std::string published = directory() + "/" + version_name(draft_.number);
  not_durable_ = draft_.number;
  if (::rename(draft_.directory.c_str(), published.c_str()) != 0)
    return give_up(formatted("it cannot be renamed to {}: {}", published, errno_text(errno)));
  options_.on_phase("renamed");
  if (Status synced = sync_directory(directory()); !synced) {
    // Visible but perhaps not durable: revert, since the caller reports a failure.
    if (::rename(published.c_str(), draft_.directory.c_str()) != 0) draft_ = {};
    return give_up(synced.error().message);
  }
  draft_ = {};
  not_durable_ = 0;
  options_.on_phase("published");
  return manifest.version;
}

void Store::discard() {
  if (draft_.directory.empty()) return;
  const DescriptorInHand directory;
  std::error_code ignored;  // the next start removes the rest
  std::filesystem::remove_all(draft_.directory, ignored);
  draft_ = {};
}

}  // namespace cropdl::restart

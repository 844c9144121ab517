// The writer of restart/store.h: drafts, which become versions, the removal of versions and leftovers, and
// how fast the disk takes images.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/format.h"
#include "base/time.h"
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
  draft_ = std::make_unique<Draft>(draft);
  return draft;
}

Result<uint64_t> Store::publish(Manifest manifest) {
  if (!draft_) return Error{"store {}: no version was begun", directory()};
  std::string name = formatted("version {} is given up: ", draft_->number);
  auto give_up = [&](const std::string& why) { return Error{name + why}; };
  manifest.version = draft_->number;
  std::string text = manifest_text(manifest);
  std::string path = draft_->directory + "/" + kManifestFile;
  if (Result<Manifest> readable = parse_manifest(text, path); !readable)
    return give_up(readable.error().message);
  const Result<Folder> draft = Folder::open(draft_->directory, Folder::Whose::kAnybodys);
  if (!draft) return give_up(draft.error().message);
  if (Status good = check_image_files(*draft, manifest); !good) return give_up(good.error().message);
  if (Status written = write_durable_file(path, text); !written) return give_up(written.error().message);
  options_.on_phase("manifest");
  if (Status synced = sync_directory(draft_->directory); !synced) return give_up(synced.error().message);
  options_.on_phase("synced");

  std::string published = directory() + "/" + version_name(draft_->number);
  *not_durable_ = draft_->number;
  if (::rename(draft_->directory.c_str(), published.c_str()) != 0)
    return give_up(formatted("it cannot be renamed to {}: {}", published, errno_text(errno)));
  options_.on_phase("renamed");
  if (Status synced = sync_directory(directory()); !synced) {
    // Visible but perhaps not durable: revert, since the caller reports a failure.
    if (::rename(published.c_str(), draft_->directory.c_str()) != 0) draft_.reset();
    return give_up(synced.error().message);
  }
  draft_.reset();
  *not_durable_ = 0;
  options_.on_phase("published");
  return manifest.version;
}

void Store::discard() {
  if (!draft_) return;
  const DescriptorInHand directory;
  std::error_code ignored;  // the next start removes the rest
  std::filesystem::remove_all(draft_->directory, ignored);
  draft_.reset();
}

// --- Removal of versions and leftovers.

DatedVersion dated(const Version& version) {
  const Manifest& m = version.manifest;
  return {version.number, seconds_of(m.created), m.restarted ? m.parent : 0, m.job};
}

Result<std::vector<uint64_t>> Store::old_versions(const std::string& job) const {
  const Result<std::vector<Version>> versions = reader_.all_versions();
  if (!versions) return versions.error();
  const uint64_t not_durable = *not_durable_;  // read after the versions
  std::vector<DatedVersion> all;
  for (const Version& version : *versions)
    if (version.damage.empty() && version.manifest.job == job && version.number != not_durable)
      all.push_back(dated(version));
  const auto kept = versions_to_keep(all, options_.keep);
  std::vector<uint64_t> doomed;
  for (const DatedVersion& one : all)
    if (!kept.contains(one.number)) doomed.push_back(one.number);
  return doomed;
}

Status Store::set_old_versions_aside(const std::string& job, std::vector<std::string>* aside) {
  const Result<std::vector<uint64_t>> old = old_versions(job);
  return old ? set_aside(*old, aside) : old.error();
}

Status Store::remove_old_versions(const std::string& job) {
  std::vector<std::string> aside;
  const Status good = set_old_versions_aside(job, &aside);
  const Status removed = remove_all_of(aside);
  return good ? removed : good;
}

Status Store::set_aside(const std::vector<uint64_t>& numbers, std::vector<std::string>* aside) {
  Status good;
  std::vector<std::string> renamed;
  for (const uint64_t number : numbers) {
    // Rename first: a partly removed version must never be used.
    const std::string name = version_name(number);
    const std::string to = formatted("{}/{}{}{}", directory(), kTemporaryPrefix, name, kRemovedSuffix);
    if (::rename((directory() + "/" + name).c_str(), to.c_str()) == 0)
      renamed.push_back(to);
    else if (errno != ENOENT && good)  // ENOENT: another thread has renamed it
      good = Error{"version {} cannot be removed: {}", number, errno_text(errno)};
  }
  if (renamed.empty()) return good;
  // Make the renames durable: after a crash the old name could return, with parts missing.
  if (Status synced = sync_directory(directory()); !synced) return synced;
  if (aside != nullptr) aside->insert(aside->end(), renamed.begin(), renamed.end());
  return good;
}

std::vector<std::string> StoreReader::leftovers() const {
  Result<std::vector<std::string>> names = this->names();
  if (!names) return {};
  std::erase_if(*names, [](const std::string& name) { return !is_temporary(name); });
  return std::move(*names);
}

std::vector<std::string> Store::set_leftovers_aside() {
  std::vector<std::string> aside;
  for (const std::string& name : reader_.leftovers()) {
    const std::string from = directory() + "/" + name;
    if (from.ends_with(kRemovedSuffix))
      aside.push_back(from);
    else if (::rename(from.c_str(), (from + kRemovedSuffix).c_str()) == 0)
      aside.push_back(from + kRemovedSuffix);
  }
  return aside;
}

Status remove_all_of(const std::vector<std::string>& directories) {
  Status good;
  const DescriptorInHand directory;
  for (const std::string& name : directories) {
    std::error_code failure;
    std::filesystem::remove_all(name, failure);
    if (failure && good)
      good = Error{"{}: not all of it was removed ({}); the store's next job removes the rest", name,
                   failure.message()};
  }
  return good;
}

Result<double> measure_disk(const std::string& directory, uint64_t bytes, const std::stop_token& stop) {
  const std::string path = formatted("{}/{}{}{}", directory, kTemporaryPrefix, kSpeedTest, ::getpid());
  const Descriptor file = create_private_file(path, O_WRONLY);
  if (!file) return Error{errno_text(errno)};
  ::unlink(path.c_str());
  constexpr size_t kBlock = 1 << 20, kAhead = 16 * kBlock;
  std::vector<char> block(kBlock);
  uint64_t x = 1;
  for (size_t i = 0; i + sizeof x <= kBlock; i += sizeof x) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    std::memcpy(block.data() + i, &x, sizeof x);
  }
  const int64_t begin = monotonic_us();
  int failure = 0;
  for (uint64_t at = 0; at < bytes && failure == 0; at += kBlock) {
    iovec piece{block.data(), kBlock};
    failure = stop.stop_requested() ? ECANCELED : write_all(file.fd(), {&piece, 1}, at);
    if ((at + kBlock) % kAhead != 0) continue;
    // What is written reaches the disk a part behind, so that little is left to wait for after a stop.
    const uint64_t part = at + kBlock - kAhead;
    ::sync_file_range(file.fd(), off64_t(part), kAhead, SYNC_FILE_RANGE_WRITE);
    if (part >= kAhead)
      ::sync_file_range(file.fd(), off64_t(part - kAhead), kAhead,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
  if (failure == 0 && ::fsync(file.fd()) != 0) failure = errno;
  if (failure != 0) return Error{errno_text(failure)};
  return static_cast<double>(bytes) * 1e6 / static_cast<double>(std::max<int64_t>(monotonic_us() - begin, 1));
}

}  // namespace cropdl::restart

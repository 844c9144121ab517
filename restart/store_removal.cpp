// The removal of versions and leftovers, of restart/store.h.
#include <cerrno>
#include <filesystem>

#include "base/format.h"
#include "restart/store.h"
#include "restart/store_layout.h"

namespace cropdl::restart {

DatedVersion dated(const Version& version) {
  const Manifest& m = version.manifest;
  return {version.number, seconds_of(m.created), m.restarted ? m.parent : 0, m.job};
}

Result<std::vector<uint64_t>> Store::old_versions(const std::string& job) const {
  const Result<std::vector<Version>> versions = reader_.versions();
  if (!versions) return versions.error();
  const uint64_t not_durable = not_durable_;  // read after the versions
  std::vector<DatedVersion> all;
  for (const Version& version : *versions)
    if (version.manifest.job == job && version.number != not_durable) all.push_back(dated(version));
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

}  // namespace cropdl::restart

// `cropdl prune`: removes versions no longer wanted. Only in the user's own store, and only while its lock is
// free: a running job removes its old versions itself, and a restart may be reading any version.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "restart/cli/commands.h"

namespace cropdl::cli {
namespace {

using nlohmann::json;
using restart::Retention;
using restart::Store;
using restart::StoreReader;
using restart::Version;

// Returns the bytes used on disk, without holes and without contents that have other names too.
uint64_t bytes_on_disk(const std::string& path) {
  namespace fs = std::filesystem;
  uint64_t bytes = 0;
  const auto add = [&bytes](const std::string& name) {
    struct stat info;
    if (::lstat(name.c_str(), &info) == 0 && (S_ISDIR(info.st_mode) || info.st_nlink == 1))
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  };
  add(path);
  std::error_code end;
  for (fs::recursive_directory_iterator at(path, end), last; !end && at != last; at.increment(end))
    add(at->path().string());
  return bytes;
}

Status check_owner(const std::string& directory) {
  struct stat info;
  if (::stat(directory.c_str(), &info) == 0 && info.st_uid != ::geteuid())
    return Error{"store {}: belongs to user id {}, not to yours ({}); only its owner may prune it", directory,
                 info.st_uid, ::geteuid()};
  return {};
}

struct Plan {
  std::vector<uint64_t> kept;                           // newest first, as in the other lists
  std::map<uint64_t, uint64_t, std::greater<>> doomed;  // version -> its bytes on disk
  std::vector<Version> damaged;
  std::optional<Version> newest;  // always kept
  uint64_t leftovers = 0;         // bytes left by killed writers
  uint64_t freed() const {
    uint64_t sum = leftovers;
    for (const auto& [number, bytes] : doomed) sum += bytes;
    return sum;
  }
};

// Keeps damaged versions: a newer CropDL may be able to read more of them.
Result<Plan> plan_for(const StoreReader& store, const Retention& retention) {
  Result<std::vector<Version>> there = store.all_versions();
  if (!there) return there.error();
  std::vector<restart::DatedVersion> complete;
  for (const Version& version : *there)
    if (version.damage.empty()) complete.push_back(restart::dated(version));
  const std::set<uint64_t> kept = restart::versions_to_keep(complete, retention);
  Plan plan;
  for (Version& version : *there) {
    if (!version.damage.empty()) {
      plan.damaged.push_back(std::move(version));
      continue;
    }
    if (!plan.newest) plan.newest = version;
    if (kept.contains(version.number))
      plan.kept.push_back(version.number);
    else
      plan.doomed[version.number] = bytes_on_disk(version.directory);
  }
  return plan;
}

// Refuses to remove versions in favour of a newest one that cannot be restarted.
Status check_newest(const Plan& plan) {
  if (plan.doomed.empty() || !plan.newest) return {};
  const Status good = restart::verify_version(*plan.newest);
  if (good) return {};
  return Error{
      "nothing was removed: version {}, the newest that would stay, is damaged ({}); keep more (--keep), or "
      "remove its directory",
      plan.newest->number, good.error().message};
}

Result<Plan> look_only(const std::string& directory, const Retention& retention) {
  const Result<StoreReader> store = StoreReader::open(directory, Folder::Whose::kMine);
  if (!store) return store.error();
  Result<Plan> plan = plan_for(*store, retention);
  const Result<StoreReader::LiveJob> job = store->live_job();
  if (!plan || !job || job->pid != 0) return plan;  // what looks left may be what that job writes
  for (const std::string& name : store->leftovers()) plan->leftovers += bytes_on_disk(directory + "/" + name);
  return plan;
}

Result<Plan> remove(const std::string& directory, const Retention& retention) {
  Plan plan;
  Status set_aside;
  std::vector<std::string> aside;
  {
    bool in_use = false;
    Result<Store> store = Store::open_existing(directory, &in_use);
    if (!store && in_use)
      return Error{store.error().message +
                   ": prune it when that has ended (a running job removes its old "
                   "versions itself)"};
    if (!store) return store.error();
    const Status planned = plan_for(store->reader(), retention).move_to(plan);
    if (!planned) return planned.error();
    if (Status good = check_newest(plan); !good) return good.error();
    aside = store->set_leftovers_aside();
    for (const std::string& name : aside) plan.leftovers += bytes_on_disk(name);
    std::vector<uint64_t> doomed;
    for (const auto& [number, bytes] : plan.doomed) doomed.push_back(number);
    set_aside = store->set_aside(doomed, &aside);
  }  // released before the slow removal from disk
  if (Status removed = restart::remove_all_of(aside); !removed) return removed.error();
  if (!set_aside) return set_aside.error();
  return plan;
}

json plan_json(const Plan& plan, bool dry_run) {
  json removed = json::array(), damaged = json::array();
  for (const auto& [number, bytes] : plan.doomed) removed.push_back({{"version", number}, {"bytes", bytes}});
  for (const Version& version : plan.damaged) damaged.push_back(version.number);
  return {{"dry_run", dry_run},          {"removed", std::move(removed)},
          {"kept", plan.kept},           {"damaged", std::move(damaged)},
          {"leftovers", plan.leftovers}, {"freed", plan.freed()}};
}

void print_plan(const Plan& plan, bool dry_run) {
  for (const auto& [number, bytes] : plan.doomed)
    print("version {}: {}removed, {}", number, dry_run ? "would be " : "", amount(bytes));
  for (const Version& version : plan.damaged)
    print("version {}: is damaged, and stays ({})", version.number, version.damage);
  std::string kept;
  for (const uint64_t number : plan.kept) kept += formatted("{}{}", kept.empty() ? "" : ", ", number);
  print("kept:  " + (kept.empty() ? "no complete version" : kept));
  if (plan.leftovers != 0)
    print("{} that killed writers had left {} removed, too", amount(plan.leftovers),
          dry_run ? "would be" : "were");
  print("{} {}", dry_run ? "would free" : "freed:", amount(plan.freed()));
}

}  // namespace

Result<int> prune(const Common& common, const Retention& retention, bool dry_run) {
  if (retention.keep == 0 && retention.hourly == 0 && retention.daily == 0)
    return fail(common.json,
                Error{"prune: say what to keep: --keep, --hourly or --daily (see cropdl --help)"}, kMisuse);
  if (Status mine = check_owner(common.directory); !mine) return mine.error();
  const Result<Plan> plan =
      dry_run ? look_only(common.directory, retention) : remove(common.directory, retention);
  if (!plan) return plan.error();
  if (common.json)
    print(plan_json(*plan, dry_run));
  else
    print_plan(*plan, dry_run);
  return kDone;
}

}  // namespace cropdl::cli

// `cropdl verify`: reads and checks every byte of the images.
#include "restart/cli/commands.h"

namespace cropdl::cli {
namespace {

using nlohmann::json;
using restart::Outside;
using restart::StoreReader;
using restart::Version;

json verified_json(const Version& version, const Status& whole, const Outside& outside) {
  return {{"version", version.number},
          {"good", static_cast<bool>(whole)},
          {"damage", whole ? json() : json(whole.error().message)},
          {"images", version.manifest.images.size()},
          {"bytes", version.manifest.bytes()},
          {"device_memory", version.manifest.device_memory()},
          {"left_out", outside.left_out},
          {"data_sets", json_bytes(outside.data_sets)}};
}

std::string good_line(const Version& version, const Outside& outside) {
  const restart::Manifest& m = version.manifest;
  return formatted(
      "version {}: good, {}, {}{}{}{}", version.number, counted(m.images.size(), "image"), amount(m.bytes()),
      m.devices().empty() ? "" : formatted(", {} of them device memory", amount(m.device_memory())),
      outside.data_sets.empty() ? ""
                                : formatted("; needs {}, which {} not saved", named_files(outside.data_sets),
                                            outside.data_sets.size() == 1 ? "is" : "are"),
      outside.left_out ? " (it is not yours alone: files elsewhere that it refers to were not opened)" : "");
}

}  // namespace

Result<int> verify(const Common& common, uint64_t number) {
  const Result<StoreReader> store = StoreReader::open(common.directory);
  if (!store) return store.error();
  json all = json::array();
  std::string first_damage;
  bool found = false;
  const auto complain = [&](const Error& damage) {
    if (first_damage.empty()) first_damage = damage.message;
    if (!common.json) (void)fail(false, damage);
  };
  if (const auto known = restart::identity_of(common.directory); !known) complain(known.error());
  const Result<std::vector<Version>> versions = store->all_versions();
  if (!versions) return versions.error();
  for (const Version& version : *versions) {
    if (number != 0 && version.number != number) continue;
    Outside outside;
    Status whole = restart::verify_version(version, &outside);
    if (!whole && restart::is_gone(version)) continue;
    if (whole) whole = outside.as_they_were;
    found = true;
    if (common.json) all.push_back(verified_json(version, whole, outside));
    if (!whole)
      complain({"version {}: {}", version.number, whole.error().message});
    else if (!common.json)
      print(good_line(version, outside));
  }
  if (!found)
    return Error{"store {}: holds no version{}", common.directory,
                 number != 0 ? formatted(" {}", number) : ""};
  if (common.json) print(json{{"versions", std::move(all)}, {"error", text_or_null(first_damage)}});
  return first_damage.empty() ? kDone : kFailed;
}

}  // namespace cropdl::cli

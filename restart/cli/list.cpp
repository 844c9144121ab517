// `cropdl list`: the versions of a store.
#include "restart/cli/commands.h"

namespace cropdl::cli {

using restart::StoreReader;
using restart::Version;

Result<int> list(const Common& common) {
  const Result<StoreReader> store = StoreReader::open(common.directory);
  if (!store) return store.error();
  const Result<std::vector<Version>> versions = store->all_versions();
  if (!versions) return versions.error();
  if (common.json) {
    print(nlohmann::json{{"versions", json_list(*versions, version_json)}});
    return kDone;
  }
  constexpr fmt::string_view kHead = "{:<8} {:<20} {:>9} {:>5} {:>10} {:>10} {:>10} {:>9}  {:<10} {}";
  print(kHead, "VERSION", "CREATED", "ITERATION", "RANKS", "SIZE", "MEMORY", "DEVICE", "STALL", "MPI",
        "STATE");
  for (const Version& version : *versions) {
    const restart::Manifest& m = version.manifest;
    if (m.images.empty()) {  // the manifest could not be read
      print(kHead, version.number, "-", "-", "-", "-", "-", "-", "-", "-", "damaged: " + version.damage);
      continue;
    }
    print(kHead, version.number, m.created, m.iteration() == 0 ? "-" : std::to_string(m.iteration()), m.ranks,
          amount(m.bytes()), amount(m.memory()), m.devices().empty() ? "-" : amount(m.device_memory()),
          formatted("{:.3f} s", m.stall_seconds), m.mpi_name,
          version.damage.empty() ? "complete" : "damaged: " + version.damage);
  }
  return kDone;
}

}  // namespace cropdl::cli

// `cropdl checkpoint`: requests a version from the running job and waits until it is durable.
#include "base/say.h"
#include "coord/client.h"
#include "restart/cli/commands.h"

namespace cropdl::cli {

constexpr double kAnswerSeconds = 5;  // of a job that is stopped

Result<int> checkpoint(const Common& common, bool last) {
  if (const auto store = restart::StoreReader::open(common.directory); !store) return store.error();
  const auto waiting = [](const std::string& line) { say("cropdl: " + line); };
  const auto reply = coord::request_checkpoint(common.directory, kAnswerSeconds, last, waiting);
  if (!reply) return reply.error();
  return answer(
      common.json,
      {{"version", reply->version}, {"bytes", reply->bytes}, {"stall_seconds", reply->stall_seconds}},
      formatted("version {}: {} bytes, stall {:.3f} s", reply->version, reply->bytes, reply->stall_seconds));
}

}  // namespace cropdl::cli

// Which versions stay when a job (--keep) or `cropdl prune` removes others. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cropdl::restart {

struct Retention {
  uint64_t keep = 0;    // the newest so many
  uint64_t hourly = 0;  // the newest of each of the last so many hours
  uint64_t daily = 0;   // the newest of each of the last so many days
};

struct DatedVersion {
  uint64_t number = 0;
  std::optional<int64_t> created;  // seconds since 1970; empty: not known
};

// Numbers of those that stay. The newest always does. Hours and days are those of UTC, counted back from that
// of the newest version, so that a store which nobody writes to loses nothing by waiting. A version whose
// time is not known, or is later (a clock was set back), stays if hours or days are asked for.
std::set<uint64_t> versions_to_keep(const std::vector<DatedVersion>& versions, const Retention& retention);

// Of "3", "3,24h", "3,7d", "3,24h,7d" (the newest 3, those of 24 hours, those of 7 days), as --keep has it.
// Empty: it is nothing of the kind.
std::optional<Retention> parse_retention(const std::string& text);

// Of "2026-11-22T04:36:23Z", as manifests have it.
std::optional<int64_t> seconds_of(const std::string& time);

}  // namespace cropdl::restart

// Decides which versions to keep when a job (--keep) or `cropdl prune` removes others. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cropdl::restart {

struct Retention {
  uint64_t keep = 0;    // the newest N
  uint64_t hourly = 0;  // the newest of each of the last N hours that have versions
  uint64_t daily = 0;   // the newest of each of the last N days that have versions
};

struct DatedVersion {
  uint64_t number = 0;
  std::optional<int64_t> created;  // seconds since 1970; empty: unknown
  uint64_t restarted_from = 0;     // the first version of a restarted run: that run's parent; else 0
  std::string job = "";            // only versions of the same job are passed over
};

// Numbers of the versions to keep; always the newest. Hours and days are UTC. Those without versions do not
// count: neither a pause nor a clock that jumps forward removes anything. With hours or days, a version whose
// time is unknown or later than the newest's (a clock was set back) is kept.
//
// A restart from an older version passes over the job's newer ones: they are damaged, or the user chose the
// older one. They do not count, so that they do not displace the version that worked, and they stay until
// `keep` newer versions exist. Of those that many restarts have passed over, only the newest stay: as many as
// the retention names, which is no fewer than one run leaves.
std::set<uint64_t> versions_to_keep(const std::vector<DatedVersion>& versions, const Retention& retention);

// Parses --keep: "3", "3,24h", "3,7d", "3,24h,7d" (the newest 3, 24 hourly, 7 daily ones). Empty: invalid.
std::optional<Retention> parse_retention(const std::string& text);
// What messages say of such a text.
inline constexpr char kIsNoRetention[] = " says no number of versions, such as 3 or 3,24h,7d";

// Parses a manifest's time, "2026-11-22T04:36:23Z".
std::optional<int64_t> seconds_of(const std::string& time);

}  // namespace cropdl::restart

// When versions are taken without a request (cropdl-run --interval). In agents' configurations and images.
#pragma once

#include <string_view>

namespace cropdl::coord {

// One percent: within the noise of a cluster; a version that costs 0.1 s is then taken every 10 s.
inline constexpr double kMaxOverhead = 0.01;

// The effect of SIGTERM if the program leaves it at its default.
enum class AtSigterm {
  kByInterval,  // not specified: a last version, if the schedule is not kWhenAsked
  kVersion,     // take a last version and end the job
  kDie          // die, as natively
};

struct Schedule {
  enum class Kind { kWhenAsked, kEvery, kAutomatic };
  Kind kind = Kind::kWhenAsked;
  double seconds = 0;                  // kEvery: between versions
  double max_overhead = kMaxOverhead;  // kAutomatic: fraction of the job's time
  double mtbf = 0;                     // kAutomatic: mean time between failures, seconds; 0: unknown
  AtSigterm at_sigterm = AtSigterm::kByInterval;
  bool operator==(const Schedule&) const = default;
};

inline bool last_version_at_sigterm(const Schedule& s) {
  if (s.at_sigterm == AtSigterm::kByInterval) return s.kind != Schedule::Kind::kWhenAsked;
  return s.at_sigterm == AtSigterm::kVersion;
}

// The value of --at-sigterm; "": not specified.
inline const char* name_of(AtSigterm a) {
  return a == AtSigterm::kVersion ? "version" : a == AtSigterm::kDie ? "die" : "";
}
inline AtSigterm at_sigterm_of(std::string_view name) {
  return name == "version" ? AtSigterm::kVersion : name == "die" ? AtSigterm::kDie : AtSigterm::kByInterval;
}

}  // namespace cropdl::coord

// When versions are taken that nobody asks for: what the user said (cropdl-run --interval), as agents are
// configured with it and images keep it.
#pragma once

#include <string_view>

namespace cropdl::coord {

// One percent: a loss that nobody notices beside the noise of a cluster, and a version that costs 0.1 s is
// then taken every 10 s.
inline constexpr double kMaxOverhead = 0.01;

// What SIGTERM does where the program leaves it at its default.
enum class AtSigterm {
  kByInterval,  // nobody said: a last version, unless versions are taken only when asked for
  kVersion,     // a last version is taken, and the job ends
  kDie          // as natively
};

struct Schedule {
  enum class Kind { kWhenAsked, kEvery, kAutomatic };
  Kind kind = Kind::kWhenAsked;
  double seconds = 0;                  // kEvery: between versions
  double max_overhead = kMaxOverhead;  // kAutomatic: of the job's time, a fraction
  double mtbf = 0;                     // kAutomatic: mean time between failures, seconds; 0: unknown
  AtSigterm at_sigterm = AtSigterm::kByInterval;
  bool operator==(const Schedule&) const = default;
};

inline bool last_version_at_sigterm(const Schedule& s) {
  if (s.at_sigterm == AtSigterm::kByInterval) return s.kind != Schedule::Kind::kWhenAsked;
  return s.at_sigterm == AtSigterm::kVersion;
}

// As --at-sigterm has it; "": nobody said.
inline const char* name_of(AtSigterm a) {
  return a == AtSigterm::kVersion ? "version" : a == AtSigterm::kDie ? "die" : "";
}
inline AtSigterm at_sigterm_of(std::string_view name) {
  return name == "version" ? AtSigterm::kVersion : name == "die" ? AtSigterm::kDie : AtSigterm::kByInterval;
}

}  // namespace cropdl::coord

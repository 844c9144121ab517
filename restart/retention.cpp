#include "restart/retention.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>

namespace cropdl::restart {
namespace {

constexpr int64_t kHour = 3600, kDay = 24 * kHour;

// Adds to `kept` the newest version, by number, of each of the last `count` periods that have any.
void keep_newest_of_each(const std::vector<DatedVersion>& versions, int64_t latest, int64_t period,
                         uint64_t count, std::set<uint64_t>& kept) {
  std::map<int64_t, uint64_t, std::greater<>> newest;  // period, the last first -> version
  for (const DatedVersion& version : versions) {
    if (!version.created || *version.created > latest) continue;
    uint64_t& number = newest[*version.created / period];
    number = std::max(number, version.number);
  }
  for (const auto& [when, number] : newest) {
    if (count-- == 0) return;
    kept.insert(number);
  }
}

// Returns the past of the newest version, newest first. Adds to `kept` the newest of the versions that a
// restart has passed over, at most as many as the retention names, unless `count` newer ones replace them.
std::vector<DatedVersion> without_passed_over(std::vector<DatedVersion> versions, uint64_t count,
                                              const Retention& retention, std::set<uint64_t>& kept) {
  const uint64_t most = count + retention.hourly + retention.daily;
  std::ranges::sort(versions, std::greater(), &DatedVersion::number);
  std::vector<DatedVersion> past;
  std::map<std::string, uint64_t> latest;  // by job
  for (const DatedVersion& version : versions) {
    if (const auto its = latest.find(version.job); its != latest.end() && version.number > its->second) {
      if (past.size() < count && kept.size() < most) kept.insert(version.number);
      continue;
    }
    past.push_back(version);
    if (version.restarted_from != 0) latest[version.job] = version.restarted_from;
  }
  return past;
}

}  // namespace

std::set<uint64_t> versions_to_keep(const std::vector<DatedVersion>& versions, const Retention& retention) {
  std::set<uint64_t> kept;
  const uint64_t count = std::max<uint64_t>(retention.keep, 1);
  const std::vector<DatedVersion> newest_first = without_passed_over(versions, count, retention, kept);
  std::optional<int64_t> newest;
  uint64_t counted = 0;
  for (const DatedVersion& version : newest_first) {
    if (counted++ < count) kept.insert(version.number);
    if (!newest) newest = version.created;
  }
  if (retention.hourly == 0 && retention.daily == 0) return kept;
  const int64_t latest = newest.value_or(0);
  for (const DatedVersion& version : newest_first)
    if (!version.created || *version.created > latest) kept.insert(version.number);
  keep_newest_of_each(newest_first, latest, kHour, retention.hourly, kept);
  keep_newest_of_each(newest_first, latest, kDay, retention.daily, kept);
  return kept;
}

std::optional<Retention> parse_retention(const std::string& text) {
  Retention r;
  size_t at = 0;
  const auto number = [&](uint64_t& value) {
    const size_t begin = at;
    for (value = 0; at < text.size() && at - begin < 6 && text[at] >= '0' && text[at] <= '9'; ++at)
      value = value * 10 + static_cast<uint64_t>(text[at] - '0');
    return at > begin && value > 0;
  };
  const auto count_of = [&](char unit, uint64_t& value) {  // true: absent, or valid
    const size_t end = std::min(text.find(',', at + 1), text.size());
    if (at == text.size() || text[end - 1] != unit) return true;
    return text[at++] == ',' && number(value) && at == end - 1 && ++at == end;
  };
  if (number(r.keep) && count_of('h', r.hourly) && count_of('d', r.daily) && at == text.size()) return r;
  return std::nullopt;
}

std::optional<int64_t> seconds_of(const std::string& time) {
  std::tm parts{};
  int end = 0;
  if (std::sscanf(time.c_str(), "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
                  &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &end) != 6 ||
      static_cast<size_t>(end) != time.size())
    return std::nullopt;
  const std::tm read = parts;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  const time_t seconds = ::timegm(&parts);
  // timegm() normalises an invalid date; refuse it.
  if (seconds < 0 || parts.tm_mon + 1 != read.tm_mon || parts.tm_mday != read.tm_mday ||
      parts.tm_hour != read.tm_hour || parts.tm_min != read.tm_min || parts.tm_sec != read.tm_sec)
    return std::nullopt;
  return seconds;
}

}  // namespace cropdl::restart

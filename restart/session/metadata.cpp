#include "restart/session/metadata.h"

#include "base/json.h"
#include "interpose/boundaries/tracker.h"
#include "restart/process/machine.h"

namespace cropdl::session {

using nlohmann::json;

namespace {

using Place = boundaries::PeriodFinder::Place;

template <class Visit>
void list_numbers(Place& p, Visit&& member) {
  member("length", p.pattern.length);
  member("any_order", p.pattern.any_order);
  member("by_site", p.pattern.by_site);
  member("windows", p.pattern.windows);
  member("iterations", p.iterations);
  member("symbols", p.symbols);
  member.since("found_after", p.pattern.found_after);
}

json json_of(Place p) {
  JsonWriter writer;
  list_numbers(p, writer);
  json& last = writer.object["last"] = json::array();
  for (const boundaries::Symbol& s : p.last) last.push_back({s.exact, s.site});
  writer.object["pattern"] = {p.pattern.exact, p.pattern.site};
  return writer.object;
}

Place place_from(const json& j) {
  Place p;
  list_numbers(p, JsonReader{j});
  if (p.pattern.length > boundaries::PeriodFinder::kLongest) return {};
  p.pattern.exact = integer_from_json<uint64_t>(j.at("pattern").at(0));
  p.pattern.site = integer_from_json<uint64_t>(j.at("pattern").at(1));
  for (const json& s : j.at("last"))
    p.last.push_back({integer_from_json<uint64_t>(s.at(0)), integer_from_json<uint64_t>(s.at(1))});
  return p;
}

using Kind = coord::Schedule::Kind;

// Images older than automatic intervals have only a number.
coord::Schedule schedule_from(const json& metadata) {
  coord::Schedule s;
  s.at_sigterm = coord::at_sigterm_of(metadata.value("at_sigterm", ""));
  metadata.at("interval").get_to(s.seconds);
  if (s.seconds > 0) s.kind = Kind::kEvery;
  if (!metadata.contains("automatic") || metadata["automatic"].is_null()) return s;
  s.kind = Kind::kAutomatic;
  metadata["automatic"].at("max_overhead").get_to(s.max_overhead);
  metadata["automatic"].at("mtbf").get_to(s.mtbf);
  return s;
}

}  // namespace

std::string metadata_text(const Metadata& m) {
  json j = m;
  j["cwd_is_mount_root"] = m.cwd_is_mount_root ? json(*m.cwd_is_mount_root) : json();
  j["interval"] = m.schedule.kind == Kind::kEvery ? m.schedule.seconds : 0.0;
  j["automatic"] = nullptr;
  if (m.schedule.kind == Kind::kAutomatic)
    j["automatic"] = {{"max_overhead", m.schedule.max_overhead}, {"mtbf", m.schedule.mtbf}};
  j["at_sigterm"] = coord::name_of(m.schedule.at_sigterm);
  j["iterations"] = json_of(m.iterations);
  j["knows_fsgsbase"] = true;
  return j.dump();
}

Result<Metadata> parse_metadata(const std::string& text, const std::string& where) {
  try {
    const json j = json_from_text(text);
    if (!j.is_object()) return Error{where + ": its metadata is not JSON"};
    Metadata m = j.get<Metadata>();
    if (const json root = j.value("cwd_is_mount_root", json()); !root.is_null())
      m.cwd_is_mount_root = root.get<bool>();
    m.schedule = schedule_from(j);
    if (j.contains("iterations")) m.iterations = place_from(j.at("iterations"));
    if (m.iteration.size() > boundaries::Tracker::kCalls) m.iteration.clear();
    // Older CropDL versions required and used FSGSBASE.
    if (!j.value("knows_fsgsbase", false)) m.cpu_features.push_back(process::kFsGsBase);
    for (const files::OpenFile& f : m.files)
      if (f.content < -1 || f.content >= static_cast<int>(m.contents.size()))
        return Error{where + ": its metadata names a content that is not there"};
    return m;
  } catch (const json::exception& e) {
    return Error{"{}: its metadata lacks a field ({})", where, e.what()};
  } catch (const std::exception& e) {  // out of memory
    return Error{"{}: its metadata cannot be read ({})", where, e.what()};
  }
}

}  // namespace cropdl::session

#include "restart/session/metadata.h"

#include "base/json.h"
#include "interpose/boundaries/tracker.h"
#include "restart/process/machine.h"

namespace cropdl::session {

using nlohmann::json;

namespace {

using Place = boundaries::PeriodFinder::Place;

json json_of(const Place& p) {
  json last = json::array();
  for (const boundaries::Symbol& s : p.last) last.push_back({s.exact, s.site});
  return {{"length", p.pattern.length},   {"any_order", p.pattern.any_order},
          {"by_site", p.pattern.by_site}, {"pattern", {p.pattern.exact, p.pattern.site}},
          {"windows", p.pattern.windows}, {"iterations", p.iterations},
          {"symbols", p.symbols},         {"last", last}};
}

Place place_from(const json& j) {
  Place p;
  p.pattern.length = integer_from_json<uint32_t>(j.at("length"));
  if (p.pattern.length > boundaries::PeriodFinder::kLongest) return {};
  p.pattern.any_order = j.at("any_order").get<bool>();
  p.pattern.by_site = j.at("by_site").get<bool>();
  p.pattern.exact = integer_from_json<uint64_t>(j.at("pattern").at(0));
  p.pattern.site = integer_from_json<uint64_t>(j.at("pattern").at(1));
  p.pattern.windows = integer_from_json<uint64_t>(j.at("windows"));
  p.iterations = integer_from_json<uint64_t>(j.at("iterations"));
  p.symbols = integer_from_json<uint64_t>(j.at("symbols"));
  for (const json& s : j.at("last"))
    p.last.push_back({integer_from_json<uint64_t>(s.at(0)), integer_from_json<uint64_t>(s.at(1))});
  return p;
}

json json_of(const std::vector<LoopCall>& iteration) {
  json all = json::array();
  for (const LoopCall& c : iteration)
    all.push_back(
        {{"call", c.call}, {"function", c.function}, {"communicator", c.communicator}, {"caller", c.caller}});
  return all;
}

std::vector<LoopCall> iteration_from(const json& all) {
  std::vector<LoopCall> iteration;
  if (all.size() > boundaries::Tracker::kCalls) return iteration;
  for (const json& c : all)
    iteration.push_back({integer_from_json<uint64_t>(c.at("call")), c.at("function").get<std::string>(),
                         integer_from_json<uint64_t>(c.at("communicator")),
                         integer_from_json<uint64_t>(c.at("caller"))});
  return iteration;
}

using Kind = coord::Schedule::Kind;

json automatic_of(const coord::Schedule& s) {
  if (s.kind != Kind::kAutomatic) return nullptr;
  return {{"max_overhead", s.max_overhead}, {"mtbf", s.mtbf}};
}

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
  json libraries = json::array();
  for (const SavedLibrary& l : m.libraries)
    libraries.push_back({{"number", l.number},
                         {"functions", l.functions},
                         {"implementation", l.implementation},
                         {"only_functions", l.only_functions},
                         {"recipes", l.recipes}});
  return json{{"rank", m.rank},
              {"ranks", m.ranks},
              {"program", json_bytes(m.program)},
              {"cwd", json_bytes(m.cwd)},
              {"cwd_identity", files::to_json(m.cwd_identity)},
              {"cwd_is_mount_root", m.cwd_is_mount_root ? json(*m.cwd_is_mount_root) : json()},
              {"name", json_bytes(m.name)},
              {"arguments", json_bytes(m.arguments)},
              {"umask", m.umask},
              {"stack_limit", m.stack_limit},
              {"interval", m.schedule.kind == Kind::kEvery ? m.schedule.seconds : 0.0},
              {"automatic", automatic_of(m.schedule)},
              {"at_sigterm", coord::name_of(m.schedule.at_sigterm)},
              {"keep", m.keep},
              {"iterations", json_of(m.iterations)},
              {"iteration", json_of(m.iteration)},
              {"libraries", libraries},
              {"cpu_features", m.cpu_features},
              {"knows_fsgsbase", true},
              {"vector_state", m.vector_state},
              {"pending_signals", m.pending_signals},
              {"clocks", m.clocks},
              {"attributes", m.attributes},
              {"threads", m.threads},
              {"memory", to_json(m.memory)},
              {"contents", m.contents},
              {"save_files", m.save_files},
              {"by_reference", m.by_reference},
              {"software_gpu", m.software_gpu},
              {"software_gpus", m.software_gpus},
              {"files", m.files}}
      .dump();
}

Result<Metadata> parse_metadata(const std::string& text, const std::string& where) {
  try {
    const json j = json_from_text(text);
    if (!j.is_object()) return Error{where + ": its metadata is not JSON"};
    Metadata m;
    m.rank = integer_from_json<uint32_t>(j.at("rank"));
    m.ranks = integer_from_json<uint32_t>(j.at("ranks"));
    m.program = bytes_from_json(j.at("program"));
    m.cwd = bytes_from_json(j.at("cwd"));
    if (j.contains("cwd_identity")) m.cwd_identity = files::file_identity_from(j.at("cwd_identity"));
    if (const json root = j.value("cwd_is_mount_root", json()); !root.is_null())
      m.cwd_is_mount_root = root.get<bool>();
    m.name = bytes_from_json(j.at("name"));
    m.arguments = list_from_json(j.at("arguments"));
    m.umask = integer_from_json<uint32_t>(j.at("umask"));
    if (j.contains("stack_limit")) m.stack_limit = integer_from_json<uint64_t>(j.at("stack_limit"));
    m.schedule = schedule_from(j);
    m.keep = j.value("keep", "");
    if (j.contains("iterations")) m.iterations = place_from(j.at("iterations"));
    if (j.contains("iteration")) m.iteration = iteration_from(j.at("iteration"));
    for (const json& l : j.at("libraries"))
      m.libraries.push_back({integer_from_json<uint32_t>(l.at("number")),
                             integer_from_json<uint32_t>(l.at("functions")),
                             l.at("implementation").get<std::string>(),
                             l.at("only_functions").get<std::vector<std::string>>(), l.value("recipes", 0u)});
    j.at("cpu_features").get_to(m.cpu_features);
    if (j.contains("vector_state")) j.at("vector_state").get_to(m.vector_state);
    // Older CropDL versions required and used FSGSBASE.
    if (!j.value("knows_fsgsbase", false)) m.cpu_features.push_back(process::kFsGsBase);
    j.at("pending_signals").get_to(m.pending_signals);
    m.memory = host_memory::memory_state_from(j.at("memory"));
    j.at("files").get_to(m.files);
    j.at("contents").get_to(m.contents);
    for (const files::OpenFile& f : m.files)
      if (f.content < -1 || f.content >= static_cast<int>(m.contents.size()))
        return Error{where + ": its metadata names a content that is not there"};
    m.save_files = integer_from_json<uint64_t>(j.at("save_files"));
    j.at("by_reference").get_to(m.by_reference);
    m.software_gpu = j.value("software_gpu", false);  // absent in images from before CUDA support
    if (j.contains("software_gpus")) m.software_gpus = integer_from_json<int>(j.at("software_gpus"));
    j.at("clocks").get_to(m.clocks);
    j.at("attributes").get_to(m.attributes);
    j.at("threads").get_to(m.threads);
    return m;
  } catch (const json::exception& e) {
    return Error{"{}: its metadata lacks a field ({})", where, e.what()};
  } catch (const std::exception& e) {  // out of memory
    return Error{"{}: its metadata cannot be read ({})", where, e.what()};
  }
}

}  // namespace cropdl::session

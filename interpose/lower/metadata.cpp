#include "interpose/lower/metadata.h"

#include "base/format.h"
#include "base/json.h"

namespace cropdl::lower {

using nlohmann::json;

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
              {"name", json_bytes(m.name)},
              {"arguments", json_bytes(m.arguments)},
              {"umask", m.umask},
              {"stack_limit", m.stack_limit},
              {"interval", m.interval},
              {"libraries", libraries},
              {"cpu_features", m.cpu_features},
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
    m.name = bytes_from_json(j.at("name"));
    m.arguments = list_from_json(j.at("arguments"));
    m.umask = integer_from_json<uint32_t>(j.at("umask"));
    if (j.contains("stack_limit")) m.stack_limit = integer_from_json<uint64_t>(j.at("stack_limit"));
    j.at("interval").get_to(m.interval);
    for (const json& l : j.at("libraries"))
      m.libraries.push_back({integer_from_json<uint32_t>(l.at("number")),
                             integer_from_json<uint32_t>(l.at("functions")),
                             l.at("implementation").get<std::string>(),
                             l.at("only_functions").get<std::vector<std::string>>(), l.value("recipes", 0u)});
    j.at("cpu_features").get_to(m.cpu_features);
    j.at("pending_signals").get_to(m.pending_signals);
    m.memory = memory_state_from(j.at("memory"));
    j.at("files").get_to(m.files);
    j.at("contents").get_to(m.contents);
    for (const OpenFile& f : m.files)
      if (f.content < -1 || f.content >= static_cast<int>(m.contents.size()))
        return Error{where + ": its metadata names a content that is not there"};
    m.save_files = integer_from_json<uint64_t>(j.at("save_files"));
    j.at("by_reference").get_to(m.by_reference);
    m.software_gpu = j.value("software_gpu", false);  // images of before CUDA programs were saved have none
    if (j.contains("software_gpus")) m.software_gpus = integer_from_json<int>(j.at("software_gpus"));
    j.at("clocks").get_to(m.clocks);
    j.at("attributes").get_to(m.attributes);
    j.at("threads").get_to(m.threads);
    return m;
  } catch (const json::exception& e) {
    return Error{formatted("{}: its metadata lacks a field ({})", where, e.what())};
  } catch (const std::exception& e) {  // no memory
    return Error{formatted("{}: its metadata cannot be read ({})", where, e.what())};
  }
}

}  // namespace cropdl::lower

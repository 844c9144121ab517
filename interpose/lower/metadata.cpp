#include "interpose/lower/metadata.h"

#include "base/format.h"
#include "base/json.h"

namespace cropdl::lower {

using nlohmann::json;

std::string metadata_text(const Metadata& m) {
  json pending = json::array();
  for (const PendingSignal& s : m.pending_signals)
    pending.push_back({{"process", s.process}, {"info", s.info}});
  json files = json::array();
  for (const OpenFile& f : m.files)
    files.push_back({{"fd", f.fd},
                     {"standard", f.standard},
                     {"same_as", f.same_as},
                     {"path", json_bytes(f.path)},
                     {"flags", f.flags},
                     {"descriptor_flags", f.descriptor_flags},
                     {"offset", f.offset},
                     {"size", f.size},
                     {"ended", f.ended},
                     {"identity", to_json(f.identity)},
                     {"content", f.content}});
  json contents = json::array();
  for (const FileContent& c : m.contents)
    contents.push_back({{"path", json_bytes(c.path)},
                        {"identity", to_json(c.identity)},
                        {"stored", c.stored},
                        {"checksum", hex_text(c.checksum)}});
  json libraries = json::array();
  for (const SavedLibrary& l : m.libraries)
    libraries.push_back(
        {{"number", l.number}, {"implementation", l.implementation}, {"only_functions", l.only_functions}});
  return json{{"rank", m.rank},
              {"ranks", m.ranks},
              {"program", json_bytes(m.program)},
              {"cwd", json_bytes(m.cwd)},
              {"name", json_bytes(m.name)},
              {"arguments", json_bytes(m.arguments)},
              {"umask", m.umask},
              {"interval", m.interval},
              {"libraries", libraries},
              {"cpu_features", m.cpu_features},
              {"pending_signals", pending},
              {"clocks", m.clocks},
              {"attributes", m.attributes},
              {"threads", m.threads},
              {"memory", to_json(m.memory)},
              {"contents", contents},
              {"save_files", m.save_files},
              {"by_reference", m.by_reference},
              {"files", files}}
      .dump();
}

Result<Metadata> parse_metadata(const std::string& text, const std::string& where) {
  const json j = json::parse(text, nullptr, false);
  if (!j.is_object()) return Error{where + ": its metadata is not JSON"};
  try {
    Metadata m;
    m.rank = integer_from_json<uint32_t>(j.at("rank"));
    m.ranks = integer_from_json<uint32_t>(j.at("ranks"));
    m.program = bytes_from_json(j.at("program"));
    m.cwd = bytes_from_json(j.at("cwd"));
    m.name = bytes_from_json(j.at("name"));
    m.arguments = list_from_json(j.at("arguments"));
    m.umask = integer_from_json<uint32_t>(j.at("umask"));
    j.at("interval").get_to(m.interval);
    for (const json& l : j.at("libraries"))
      m.libraries.push_back({integer_from_json<uint32_t>(l.at("number")),
                             l.at("implementation").get<std::string>(),
                             l.at("only_functions").get<std::vector<std::string>>()});
    j.at("cpu_features").get_to(m.cpu_features);
    for (const json& s : j.at("pending_signals"))
      m.pending_signals.push_back({s.at("process").get<bool>(), s.at("info").get<std::string>()});
    m.memory = memory_state_from(j.at("memory"));
    for (const json& f : j.at("files")) {
      OpenFile file;
      file.fd = integer_from_json<int>(f.at("fd"));
      file.standard = integer_from_json<int>(f.at("standard"));
      file.same_as = integer_from_json<int>(f.at("same_as"));
      file.path = bytes_from_json(f.at("path"));
      file.flags = integer_from_json<int>(f.at("flags"));
      file.descriptor_flags = integer_from_json<int>(f.at("descriptor_flags"));
      file.offset = integer_from_json<int64_t>(f.at("offset"));
      file.size = integer_from_json<int64_t>(f.at("size"));
      file.ended = f.at("ended").get<bool>();
      file.identity = file_identity_from(f.at("identity"));
      file.content = integer_from_json<int>(f.at("content"));
      m.files.push_back(std::move(file));
    }
    for (const json& c : j.at("contents"))
      m.contents.push_back({bytes_from_json(c.at("path")), file_identity_from(c.at("identity")),
                            c.at("stored").get<std::string>(), hex_from_json(c.at("checksum"))});
    for (const OpenFile& f : m.files)
      if (f.content < -1 || f.content >= static_cast<int>(m.contents.size()))
        return Error{where + ": its metadata names a content that is not there"};
    m.save_files = integer_from_json<uint64_t>(j.at("save_files"));
    j.at("by_reference").get_to(m.by_reference);
    j.at("clocks").get_to(m.clocks);
    j.at("attributes").get_to(m.attributes);
    j.at("threads").get_to(m.threads);
    return m;
  } catch (const json::exception& e) {
    return Error{formatted("{}: its metadata lacks a field ({})", where, e.what())};
  }
}

}  // namespace cropdl::lower

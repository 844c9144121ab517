#include "interpose/lower/metadata.h"

#include <nlohmann/json.hpp>

namespace cropdl::lower {

using nlohmann::json;

std::string metadata_text(const Metadata& m) {
  json files = json::array();
  for (const OpenFile& f : m.files)
    files.push_back({{"fd", f.fd},
                     {"standard", f.standard},
                     {"same_as", f.same_as},
                     {"path", f.path},
                     {"flags", f.flags},
                     {"descriptor_flags", f.descriptor_flags},
                     {"offset", f.offset},
                     {"size", f.size}});
  return json{{"rank", m.rank},
              {"ranks", m.ranks},
              {"program", m.program},
              {"cwd", m.cwd},
              {"name", m.name},
              {"arguments", m.arguments},
              {"umask", m.umask},
              {"interval", m.interval},
              {"mpi", m.mpi_name},
              {"only_functions", m.only_functions},
              {"cpu_features", m.cpu_features},
              {"pending_signals", m.pending_signals},
              {"files", files}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Metadata> parse_metadata(const std::string& text, const std::string& where) {
  const json j = json::parse(text, nullptr, false);
  if (!j.is_object()) return Error{where + ": its metadata is not JSON"};
  try {
    Metadata m;
    j.at("rank").get_to(m.rank);
    j.at("ranks").get_to(m.ranks);
    j.at("program").get_to(m.program);
    j.at("cwd").get_to(m.cwd);
    j.at("name").get_to(m.name);
    j.at("arguments").get_to(m.arguments);
    j.at("umask").get_to(m.umask);
    j.at("interval").get_to(m.interval);
    j.at("mpi").get_to(m.mpi_name);
    j.at("only_functions").get_to(m.only_functions);
    j.at("cpu_features").get_to(m.cpu_features);
    j.at("pending_signals").get_to(m.pending_signals);
    for (const json& f : j.at("files")) {
      OpenFile file;
      f.at("fd").get_to(file.fd);
      f.at("standard").get_to(file.standard);
      f.at("same_as").get_to(file.same_as);
      f.at("path").get_to(file.path);
      f.at("flags").get_to(file.flags);
      f.at("descriptor_flags").get_to(file.descriptor_flags);
      f.at("offset").get_to(file.offset);
      f.at("size").get_to(file.size);
      m.files.push_back(std::move(file));
    }
    return m;
  } catch (const json::exception& e) {
    return Error{where + ": its metadata lacks a field (" + e.what() + ")"};
  }
}

}  // namespace cropdl::lower

// What all commands of commands.h share: their output.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "base/file.h"
#include "base/say.h"
#include "restart/cli/commands.h"

namespace cropdl::cli {

using nlohmann::json;

void print(const std::string& line) { std::printf("%s\n", shown(line).c_str()); }

void print(const json& object) {
  // Escapes what is not ASCII: it may be terminal commands. Replaces invalid UTF-8: errors quote anything.
  std::printf("%s\n", object.dump(-1, ' ', true, json::error_handler_t::replace).c_str());
}

int fail(bool json_wanted, const Error& error, int status) {
  if (json_wanted)
    print(json{{"error", error.message}});
  else
    say("cropdl: " + error.message);
  return status;
}

int answer(bool json_wanted, const json& object, const std::string& line) {
  if (json_wanted)
    print(object);
  else
    print(line);
  return kDone;
}

std::string named_files(const std::vector<std::string>& paths) {
  const size_t more = paths.size() - 1;
  return more == 0 ? paths.front() : formatted("{} and {}", paths.front(), counted(more, "more file"));
}

std::string under_mpi(const restart::Manifest& manifest) {
  if (manifest.mpi_name == "none") return "without MPI";
  return formatted("under {} {}", manifest.mpi_name, manifest.mpi_version);
}

json text_or_null(const std::string& text) { return text.empty() ? json() : json_bytes(text); }

double writing_seconds(const restart::Manifest& m) {
  return std::max(0.0, m.stall_seconds - m.stages.stopping - m.stages.draining);
}

json version_json(const restart::Version& version) {
  const restart::Manifest& m = version.manifest;
  json object{{"version", version.number},
              {"complete", version.damage.empty()},
              {"damage", text_or_null(version.damage)}};
  const bool known = !m.images.empty();  // the manifest could be read
  const auto add = [&](const char* key, json value) { object[key] = known ? std::move(value) : json(); };
  add("created", json_bytes(m.created));
  add("job", json_bytes(m.job));
  add("parent", m.parent == 0 ? json() : json(m.parent));
  add("program", json_bytes(m.program));
  add("arguments", json_bytes(m.args));
  add("ranks", m.ranks);
  add("mpi", json_bytes(m.mpi_name));
  add("mpi_version", json_bytes(m.mpi_version));
  add("bytes", m.bytes());
  add("memory", m.memory());
  add("device_memory", m.device_memory());
  add("devices", text_or_null(m.devices()));
  add("stall_seconds", m.stall_seconds);
  add("wait_seconds", m.wait_seconds);
  const restart::Manifest::Stages& stages = m.stages;
  add("stages", stages == restart::Manifest::Stages() ? json()
                                                      : json{{"stopping", stages.stopping},
                                                             {"draining", stages.draining},
                                                             {"writing", writing_seconds(m)},
                                                             {"syncing", stages.syncing}});
  add("iteration", m.iteration() == 0 ? json() : json(m.iteration()));
  return object;
}

Status check_outside(const std::string& file, const std::string& store) {
  if (file == "-") return {};
  const std::string inside = resolved_path(store) + "/";
  if (inside == "/") return Error{"{}: {}", store, errno_text(errno)};
  struct stat info;
  if (::lstat(file.c_str(), &info) == 0 && S_ISLNK(info.st_mode) && resolved_path(file).empty())
    return Error{"{}: is a link to nothing; name a file with --output", file};
  // A link may lead into the store, too.
  for (const std::string& place : {resolved_path(folder_of(file)) + "/", resolved_path(file)})
    if (place.starts_with(inside))
      return Error{"{}: lies in the store; name a file elsewhere with --output", file};
  return {};
}

}  // namespace cropdl::cli

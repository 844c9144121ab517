#include "interpose/lower/boot.h"

#include <unistd.h>

#include <cstdlib>

#include "base/json.h"

namespace cropdl::lower {

std::string boot_text(const Boot& b) {
  return nlohmann::json{{"restart", b.restart},
                        {"directory", json_bytes(b.directory)},
                        {"interval", b.interval},
                        {"program", json_bytes(b.program)},
                        {"preload", json_bytes(b.preload)},
                        {"version", b.version},
                        {"installation", json_bytes(b.installation)},
                        {"sanitizer", b.sanitizer},
                        {"layout", b.layout},
                        {"personality", b.personality},
                        {"save_files", b.save_files},
                        {"by_reference", b.by_reference},
                        {"moved_variables", b.moved_variables},
                        {"files", b.files},
                        {"software_gpu", b.software_gpu},
                        {"software_gpus", b.software_gpus}}
      .dump();
}

Result<Boot> parse_boot(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    Boot b;
    b.restart = json.at("restart").get<bool>();
    b.directory = bytes_from_json(json.at("directory"));
    b.interval = json.at("interval").get<double>();
    b.program = bytes_from_json(json.at("program"));
    b.preload = bytes_from_json(json.at("preload"));
    b.version = integer_from_json<uint64_t>(json.at("version"));
    b.installation = bytes_from_json(json.at("installation"));
    b.sanitizer = json.at("sanitizer").get<std::string>();
    b.layout = integer_from_json<int>(json.at("layout"));
    b.personality = integer_from_json<unsigned long>(json.at("personality"));
    b.save_files = integer_from_json<uint64_t>(json.at("save_files"));
    b.by_reference = json.at("by_reference").get<bool>();
    b.moved_variables = json.at("moved_variables").get<bool>();
    b.files = json.at("files").get<std::string>();
    b.software_gpu = json.at("software_gpu").get<bool>();
    b.software_gpus = integer_from_json<int>(json.at("software_gpus"));
    return b;
  } catch (const nlohmann::json::exception&) {
    return Error{"this program is started by cropdl-run or cropdl-restart, not by hand"};
  }
}

std::string software_gpu_directory(const std::string& installation) {
  for (const char* place : {"/software-gpu", "/../software-gpu"})  // installed, and in a build folder
    if (access((installation + place + "/libcuda.so.1").c_str(), R_OK) == 0) return installation + place;
  return "";
}

void set_software_devices(Boot* boot) {
  constexpr const char* kDevices = "CROPDL_SOFTWARE_GPUS";
  if (!boot->software_gpu) return;
  if (boot->software_gpus != 0)
    setenv(kDevices, std::to_string(boot->software_gpus).c_str(), boot->restart ? 0 : 1);
  if (const char* said = getenv(kDevices)) boot->software_gpus = atoi(said);  // for the image
}

std::string software_library(const Boot& boot, const std::string& soname) {
  if (!boot.software_gpu) return "";
  const std::string path = software_gpu_directory(boot.installation) + "/" + soname;
  return access(path.c_str(), R_OK) == 0 ? path : "";
}

}  // namespace cropdl::lower

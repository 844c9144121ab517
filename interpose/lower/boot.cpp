#include "interpose/lower/boot.h"

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
                        {"files", b.files}}
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
    b.files = json.at("files").get<std::string>();
    return b;
  } catch (const nlohmann::json::exception&) {
    return Error{"this program is started by cropdl-run or cropdl-restart, not by hand"};
  }
}

}  // namespace cropdl::lower

#include "interpose/lower/boot.h"

#include <nlohmann/json.hpp>

namespace cropdl::lower {

std::string boot_text(const Boot& b) {
  return nlohmann::json{{"restart", b.restart},          {"directory", b.directory}, {"interval", b.interval},
                        {"program", b.program},          {"preload", b.preload},     {"version", b.version},
                        {"installation", b.installation}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<Boot> parse_boot(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return Error{"this program is started by cropdl-run or cropdl-restart, not by hand"};
  Boot b;
  b.restart = json.value("restart", false);
  b.directory = json.value("directory", "");
  b.interval = json.value("interval", 0.0);
  b.program = json.value("program", "");
  b.preload = json.value("preload", "");
  b.version = json.value("version", uint64_t{0});
  b.installation = json.value("installation", "");
  return b;
}

}  // namespace cropdl::lower

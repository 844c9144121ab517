#include "interpose/entry/options.h"

#include <cmath>
#include <cstdlib>

#include "base/format.h"
#include "base/say.h"

namespace cropdl::entry {
namespace {

constexpr double kShortest = 0.001, kLongest = 10 * 365.25 * 86400;  // seconds

std::string in_quotes(const std::string& text) {
  return formatted("`{}{}`", text.substr(0, 40), text.size() > 40 ? "..." : "");
}

}  // namespace

CLI::Validator seconds_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        char* end = nullptr;
        const double value = strtod(text.c_str(), &end);
        if (end == text.c_str() || *end != 0 || !std::isfinite(value))
          return in_quotes(text) + " is not a number of seconds";
        if (value < kShortest || value > kLongest)
          return in_quotes(text) + " is not between 0.001 seconds and ten years";
        return "";
      },
      "");
}

CLI::Validator version_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const bool digits =
            !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
        if (!digits || text.find_first_not_of('0') == std::string::npos)
          return in_quotes(text) + " is not a version's number";
        return "";
      },
      "");
}

CLI::Validator device_count_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        constexpr int kMost = 16;  // gpu_state/software/settings
        const bool digits =
            !text.empty() && text.size() < 3 && text.find_first_not_of("0123456789") == std::string::npos;
        if (text != "true" && (!digits || atoi(text.c_str()) < 1 || atoi(text.c_str()) > kMost))
          return in_quotes(text) + " is not a number of devices from 1 to 16";
        return "";
      },
      "");
}

bool parse_options(CLI::App& app, int argc, char** argv, std::vector<std::string>* program, int* status) {
  const auto wrong = [&](const std::string& line) {
    say(formatted("{}: {} (see {} --help)", app.get_name(), line, app.get_name()));
    *status = 1;
    return false;
  };
  if (program != nullptr) app.prefix_command();  // the first word that is no option ends the parsing
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    *status = app.exit(e);
    return false;
  } catch (const CLI::ParseError& e) {
    return wrong(e.what());
  }
  if (program == nullptr) return true;
  // In order: options that nobody knows, `--`, and the program with its words.
  *program = app.remaining();
  if (!program->empty() && program->front() == "--")
    program->erase(program->begin());
  else if (!program->empty() && program->front().size() > 1 && program->front()[0] == '-')
    return wrong("unknown option " + in_quotes(program->front()));
  if (program->empty()) return wrong("no program given");
  return true;
}

}  // namespace cropdl::entry

#include "interpose/entry/options.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/format.h"

namespace cropdl::entry {
namespace {

constexpr double kShortest = 0.001, kLongest = 10 * 365.25 * 86400;  // seconds

// As it can stand in a line for people.
std::string shown(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  if (text.size() > 40) text = text.substr(0, 40) + "...";
  return formatted("`{}`", text);
}

}  // namespace

CLI::Validator seconds_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        char* end = nullptr;
        const double value = strtod(text.c_str(), &end);
        if (end == text.c_str() || *end != 0 || !std::isfinite(value))
          return shown(text) + " is not a number of seconds";
        if (value < kShortest || value > kLongest)
          return shown(text) + " is not between 0.001 seconds and ten years";
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
          return shown(text) + " is not a version's number";
        return "";
      },
      "");
}

bool parse_options(CLI::App& app, int argc, char** argv, std::vector<std::string>* program, int* status) {
  const auto wrong = [&](const std::string& line) {
    fprintf(stderr, "%s: %s (see %s --help)\n", app.get_name().c_str(), line.c_str(), app.get_name().c_str());
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
    return wrong("unknown option " + shown(program->front()));
  if (program->empty()) return wrong("no program given");
  return true;
}

}  // namespace cropdl::entry

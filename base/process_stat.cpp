#include "base/process_stat.h"

#include <sstream>

#include "base/file.h"
#include "base/format.h"

namespace cropdl {

std::vector<std::string> process_stat(const std::string& process) {
  const std::string text = kernel_text(formatted("/proc/{}/stat", process));
  const size_t end = text.rfind(')');  // the name in parentheses may contain anything
  if (end == std::string::npos) return {};
  std::istringstream words(text.substr(end + 1));
  std::vector<std::string> fields(3);
  for (std::string word; words >> word;) fields.push_back(std::move(word));
  return fields;
}

std::string process_stat(const std::string& process, size_t n) {
  const std::vector<std::string> fields = process_stat(process);
  return n < fields.size() ? fields[n] : "";
}

std::string seccomp_in(const std::string& status) {
  std::istringstream in(status);
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("Seccomp")) out += (out.empty() ? "" : " ") + line.substr(line.find(':') + 2);
  return out;
}

}  // namespace cropdl

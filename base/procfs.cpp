#include "base/procfs.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/caught.h"
#include "base/file.h"
#include "base/format.h"

namespace cropdl {

std::vector<std::string> process_stat(const std::string& process) {
  const std::string text = kernel_text(formatted("/proc/{}/stat", process));
  const size_t end = text.rfind(')');  // the name in parentheses may contain anything
  if (end == std::string::npos) return {};
  std::istringstream words(text.substr(end + 1));
  let_exceptions_through(words);
  std::vector<std::string> fields(3);
  for (std::string word; words >> word;) fields.push_back(std::move(word));
  return fields;
}

std::string process_stat(const std::string& process, size_t n) {
  const std::vector<std::string> fields = process_stat(process);
  return n < fields.size() ? fields[n] : "";
}

std::vector<std::string> process_words(const std::string& process) {
  const std::string line = kernel_text(formatted("/proc/{}/cmdline", process));
  std::vector<std::string> words;
  for (size_t at = 0; at < line.size(); at += words.back().size() + 1) words.emplace_back(line.c_str() + at);
  return words;
}

std::string status_field(const std::string& status, const std::string& name) {
  std::istringstream in(status);
  let_exceptions_through(in);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":"))
      return line.substr(std::min(line.find_first_not_of(" \t", name.size() + 1), line.size()));
  return "";
}

uint64_t status_bits(const std::string& status, const std::string& name) {
  return strtoull(status_field(status, name).c_str(), nullptr, 16);
}

std::string seccomp_in(const std::string& status) {
  const std::string filters = status_field(status, "Seccomp_filters");
  return status_field(status, "Seccomp") + (filters.empty() ? "" : " " + filters);
}

}  // namespace cropdl

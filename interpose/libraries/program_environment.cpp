#include "interpose/libraries/program_environment.h"

#include <elf.h>

#include <cstdlib>
#include <span>

#include "interpose/seam/state.h"

namespace cropdl::libraries {

void keep_variable(std::string_view entry, Reads* reads, Variables* variables) {
  const size_t at = entry.find('=');
  if (at != entry.npos && reads(entry.substr(0, at)))
    variables->emplace(entry.substr(0, at), entry.substr(at + 1));
}

void keep_variables(const char* const* environment, Reads* reads, Variables* variables) {
  for (; environment != nullptr && *environment != nullptr; ++environment)
    keep_variable(*environment, reads, variables);
}

uint64_t auxiliary_value(uint64_t type) {
  const seam::ProcessView& view = seam::state()->view;
  for (const Elf64_auxv_t& one : std::span(reinterpret_cast<const Elf64_auxv_t*>(view.auxiliary),
                                           view.auxiliary_bytes / sizeof(Elf64_auxv_t)))
    if (one.a_type == type) return one.a_un.a_val;
  return 0;
}

// The strings are below that of AT_PLATFORM (interpose/host/initial_stack.cpp).
void each_variable_at_start(const std::function<void(std::string_view entry)>& each) {
  const uint64_t end = auxiliary_value(AT_PLATFORM);
  for (uint64_t at = seam::state()->view.environment; at < end;) {
    const std::string_view entry = reinterpret_cast<const char*>(at);
    each(entry);
    at += entry.size() + 1;
  }
}

Variables variables_at_start(Reads* reads) {
  Variables variables;
  each_variable_at_start([&](std::string_view entry) { keep_variable(entry, reads, &variables); });
  return variables;
}

const std::string* value_of(const Variables& variables, std::string_view name) {
  const auto at = variables.find(name);
  return at == variables.end() ? nullptr : &at->second;
}

bool same_value(const std::string* a, const std::string* b) { return a && b ? *a == *b : a == b; }

std::set<std::string> changed_between(const Variables& before, const Variables& after) {
  std::set<std::string> names;
  for (const Variables* some : {&before, &after})
    for (const auto& [name, value] : *some)
      if (!same_value(value_of(before, name), value_of(after, name))) names.insert(name);
  return names;
}

void set_in_lower_half(const std::string& name, const std::string* value) {
  if (value)
    setenv(name.c_str(), value->c_str(), 1);
  else
    unsetenv(name.c_str());
}

}  // namespace cropdl::libraries

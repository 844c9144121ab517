#include "interpose/cuda/lower/environment.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/format.h"
#include "base/say.h"
#include "interpose/host/loaded_objects.h"
#include "interpose/seam/state.h"

namespace cropdl::cuda {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

void keep(std::string_view entry, Variables* variables) {
  bool wanted = false;
  for (const std::string_view begins :
       {"CUDA_", "NCCL_", "NVIDIA_", "CUBLAS", "CUDNN_", "CUFFT_", "CUSPARSE_", "CUSOLVER_", "CURAND_"})
    wanted |= entry.starts_with(begins);
  const size_t at = entry.find('=');
  if (wanted && at != entry.npos) variables->emplace(entry.substr(0, at), entry.substr(at + 1));
}

// Visits the environment with which the program was started: its strings are below that of AT_PLATFORM
// (interpose/host/initial_stack.cpp).
template <class Each>
void each_at_start(Each each) {
  const seam::ProcessView& view = seam::state()->view;
  const auto* auxiliary = reinterpret_cast<const Elf64_auxv_t*>(view.auxiliary);
  uint64_t end = 0;
  for (size_t i = 0; i < view.auxiliary_bytes / sizeof *auxiliary; ++i)
    if (auxiliary[i].a_type == AT_PLATFORM) end = auxiliary[i].a_un.a_val;
  for (uint64_t at = view.environment; at < end;) {
    const std::string_view entry = reinterpret_cast<const char*>(at);
    each(entry);
    at += entry.size() + 1;
  }
}

Variables at_start() {
  Variables variables;
  each_at_start([&](std::string_view entry) { keep(entry, &variables); });
  return variables;
}

// The variables as the program's getenv() finds them. Like getenv(), this assumes that no thread changes them
// meanwhile.
bool now(Variables* variables) {
  static uint64_t address = 0;  // in the program's C library, which stays
  if (address == 0) address = host::program_symbol("environ");
  if (address == 0) return false;
  for (char* const* one = *reinterpret_cast<char* const* const*>(address); one != nullptr && *one != nullptr;
       ++one)
    keep(*one, variables);
  return true;
}

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
std::string& kept_visible() {
  static auto& its = *new std::string;
  return its;
}

struct ProgramVariables {
  std::mutex mutex;
  bool read = false;
  Variables variables;  // the program's, when last read
};
ProgramVariables& program_variables() {
  static ProgramVariables* its = new ProgramVariables;
  return *its;
}

const std::string* find(const Variables& variables, const std::string& name) {
  const auto at = variables.find(name);
  return at == variables.end() ? nullptr : &at->second;
}
bool same(const std::string* a, const std::string* b) { return a && b ? *a == *b : a == b; }

void take() {
  std::lock_guard lock(program_variables().mutex);
  if (!program_variables().read) program_variables().variables = at_start(), program_variables().read = true;
  Variables variables;
  if (!now(&variables) || variables == program_variables().variables) return;
  for (const auto& [name, value] : variables)
    if (const std::string* before = find(program_variables().variables, name); !before || *before != value)
      setenv(name.c_str(), value.c_str(), 1);
  for (const auto& [name, value] : program_variables().variables)
    if (!variables.contains(name)) unsetenv(name.c_str());
  program_variables().variables = std::move(variables);
}

// The launcher sets some variables anew for every process. A value equal to the first start's says nothing:
// the program's own holds. Another value comes from the user or the machine, and counts.
void restore() {
  std::lock_guard lock(program_variables().mutex);
  const Variables start = at_start();
  Variables program, here, all;
  if (!now(&program)) program = start;
  for (char* const* one = environ; one && *one; ++one) keep(*one, &here);
  for (const Variables* some :
       {&start, static_cast<const Variables*>(&program), static_cast<const Variables*>(&here)})
    all.insert(some->begin(), some->end());
  for (const auto& [name, value] : all) {
    const std::string *wanted = find(program, name), *given = find(here, name);
    if (given && !same(given, find(start, name))) {
      // The devices are compared one by one elsewhere.
      if (!same(given, wanted) && name != kVisible)
        say(formatted("cropdl-restart: {}={} counts, which the program had {}", name, *given,
                      wanted ? "as " + *wanted : std::string("not set")));
    } else if (wanted) {
      setenv(name.c_str(), wanted->c_str(), 1);
      if (!given && name == kVisible) kept_visible() = *wanted;
    } else {
      unsetenv(name.c_str());
    }
  }
  program_variables().variables = std::move(program);
  program_variables().read = true;
}

}  // namespace

std::vector<std::string> program_search_path() {
  constexpr std::string_view kVariable = "LD_LIBRARY_PATH=";
  std::string list;
  each_at_start([&](std::string_view entry) {
    if (entry.starts_with(kVariable)) list = entry.substr(kVariable.size());
  });
  std::vector<std::string> folders;
  while (!list.empty()) {
    const size_t end = std::min(list.find_first_of(":;"), list.size());
    if (end != 0) folders.push_back(list.substr(0, end));
    list.erase(0, end + 1);
  }
  return folders;
}

void restore_program_environment() { restore(); }
void take_program_environment() { take(); }

std::string visible_devices_of_program() { return kept_visible(); }

}  // namespace cropdl::cuda

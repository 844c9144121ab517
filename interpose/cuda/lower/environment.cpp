#include "interpose/cuda/lower/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/readable.h"
#include "base/say.h"
#include "interpose/cuda/lower/kept.h"
#include "interpose/host/loaded_objects.h"
#include "interpose/libraries/program_environment.h"

namespace cropdl::cuda {
namespace {

using libraries::changed_between;
using libraries::same_value;
using libraries::set_in_lower_half;
using libraries::value_of;
using libraries::Variables;

bool is_of_nvidia(std::string_view name) {
  for (const std::string_view begins :
       {"CUDA_", "NCCL_", "NVIDIA_", "CUBLAS", "CUDNN_", "CUFFT_", "CUSPARSE_", "CUSOLVER_", "CURAND_"})
    if (name.starts_with(begins)) return true;
  return false;
}

void keep(std::string_view entry, Variables* variables) {
  libraries::keep_variable(entry, is_of_nvidia, variables);
}

Variables at_start() { return libraries::variables_at_start(is_of_nvidia); }

// 0: the program has no C library yet.
uint64_t address_of_environment() {
  static uint64_t address = 0;  // in the program's C library, which stays
  if (address == 0) address = host::program_symbol("environ");
  return address;
}

// The variables as the program's getenv() finds them.
bool now(Variables* variables) {
  const uint64_t address = address_of_environment();
  if (address == 0) return false;
  libraries::keep_variables(*reinterpret_cast<char* const* const*>(address), is_of_nvidia, variables);
  return true;
}

std::optional<std::string> text_at(const ReadableMemory& memory, uint64_t at) {
  constexpr size_t kLongest = 1 << 20, kPiece = 256;  // pieces end with a page
  std::string text;
  while (text.size() < kLongest) {
    const uint64_t bytes = kPiece - at % kPiece;
    const char* piece = memory.copy(at, bytes);
    if (!piece) return std::nullopt;
    const size_t length = strnlen(piece, bytes);
    text.append(piece, length);
    if (length < bytes) return text;
    at += bytes;
  }
  return std::nullopt;
}

// The same while the program is stopped, perhaps in the middle of setenv(). False: in the middle.
bool at_cut(Variables* variables) {
  const ReadableMemory memory;
  if (!memory) return now(variables);
  constexpr int kMost = 1 << 20;
  uint64_t one = *reinterpret_cast<const uint64_t*>(address_of_environment()), text = 0;
  for (int i = 0; one != 0 && i < kMost; ++i, one += sizeof text) {
    const char* pointer = memory.copy(one, sizeof text);
    if (!pointer) return false;
    memcpy(&text, pointer, sizeof text);
    if (text == 0) return true;
    const std::optional<std::string> entry = text_at(memory, text);
    if (!entry) return false;
    keep(*entry, variables);
  }
  return one == 0;
}

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

// Who reads a variable. The driver reads once; the others read some for each object.
constexpr std::pair<std::string_view, Reader> kRead[] = {{"CUDA_", Reader::kDriver},
                                                         {"CUBLAS", Reader::kBlas},
                                                         {"NVIDIA_TF32_OVERRIDE", Reader::kBlas},
                                                         {"CURAND_", Reader::kRand},
                                                         {"NCCL_", Reader::kNccl}};
constexpr const char* kReaderNames[] = {"CUDA", "cuBLAS", "cuRAND", "NCCL"};
// Read for something else: to print, or by CropDL and programs to find libraries.
constexpr std::string_view kOthers[] = {"NCCL_DEBUG", "CUBLAS_LOG", "CUBLASLT_LOG", "CUDA_HOME", "CUDA_PATH"};

// NCCL uses CollNet on two nodes or more, unless the threshold says otherwise, and tells nodes apart by their
// id (src/init.cc). A job here has one node. Megatron-LM sets this variable for some communicators.
bool has_no_effect(std::string_view name) {
  return name == "NCCL_COLLNET_ENABLE" && !getenv("NCCL_COLLNET_NODE_THRESHOLD") && !getenv("NCCL_HOSTID");
}

std::optional<Reader> reader_of(std::string_view name) {
  for (const std::string_view begins : kOthers)
    if (name.starts_with(begins)) return std::nullopt;
  for (const auto& [begins, reader] : kRead)
    if (name.starts_with(begins)) return reader;
  return std::nullopt;
}

struct ProgramVariables {
  std::mutex mutex;
  bool read = false;
  Variables variables;  // the program's, when last read
  // For each reader that has begun, the values at that time. An image has the driver's; a cut is refused
  // unless the others' are those that a restart takes from the program.
  std::array<std::optional<Variables>, std::size(kReaderNames)> begun_with;
  std::string changed;  // the refusal for a change that a reader may have seen
  std::string visible;  // visible_devices_of_program()
  // In a restart: what the program has set since the driver began; empty: unset.
  std::map<std::string, std::optional<std::string>> set_since;
};
ProgramVariables& program_variables() {
  static ProgramVariables* its = new ProgramVariables;
  return *its;
}

std::string line_of_change(const std::string& name, Reader reader) {
  return formatted(
      "the environment variable {} was changed after {} was first used, and a restart would set only its "
      "last value; set it before",
      name, kReaderNames[static_cast<size_t>(reader)]);
}

// "", or a line: a variable differs from its value when its reader began, which was not the driver.
std::string difference(const Variables& variables) {
  for (const Reader reader : {Reader::kBlas, Reader::kRand, Reader::kNccl}) {
    const auto& before = program_variables().begun_with[static_cast<size_t>(reader)];
    if (!before) continue;
    for (const std::string& name : changed_between(*before, variables))
      if (reader_of(name) == reader && !has_no_effect(name)) return line_of_change(name, reader);
  }
  return "";
}

// The driver's variables in the heap: "NAME=value" each with its zero, the last one empty.
uint64_t& kept_variables() { return one_abi::family->members[one_abi::kMemberEnvironment]; }
std::optional<Variables> variables_of_image() {
  if (!one_abi::family || !kept_variables()) return std::nullopt;
  Variables all;
  for (const char* one = reinterpret_cast<const char*>(kept_variables()); *one; one += strlen(one) + 1)
    keep(one, &all);
  return all;
}

}  // namespace

// The launcher sets some variables anew for every process. A value equal to the first start's says nothing:
// the program's own holds. Another value comes from the user or the machine, and counts.
void restore_program_environment() {
  std::lock_guard lock(program_variables().mutex);
  const Variables start = at_start();
  Variables program, here, all;
  if (!now(&program)) program = start;
  libraries::keep_variables(environ, is_of_nvidia, &here);
  const std::optional<Variables> of_driver = variables_of_image();
  program_variables().begun_with[static_cast<size_t>(Reader::kDriver)] = of_driver;
  if (of_driver) all = *of_driver;
  for (const Variables& some : {start, program, here}) all.insert(some.begin(), some.end());
  for (const auto& [name, value] : all) {
    const bool has_begun = of_driver && reader_of(name) == Reader::kDriver;
    const std::string *wanted = value_of(has_begun ? *of_driver : program, name),
                      *given = value_of(here, name);
    if (given && !same_value(given, value_of(start, name))) {
      // The devices are compared one by one elsewhere.
      if (!same_value(given, wanted) && name != kVisible)
        say(formatted("cropdl-restart: {}={} counts, which the program had {}", name, *given,
                      wanted ? "as " + *wanted : std::string("not set")));
    } else {
      set_in_lower_half(name, wanted);
      if (wanted && !given && name == kVisible) program_variables().visible = *wanted;
      if (const std::string* last = value_of(program, name); has_begun && !same_value(last, wanted))
        program_variables().set_since[name] = last ? std::optional(*last) : std::nullopt;
    }
  }
  program_variables().variables = std::move(program);
  program_variables().read = true;
}

void take_program_environment() {
  ProgramVariables& its = program_variables();
  std::lock_guard lock(its.mutex);
  if (!its.read) its.variables = at_start();
  its.read = true;
  Variables variables;
  if (!now(&variables) || variables == its.variables) return;
  if (its.changed.empty()) its.changed = difference(variables);
  for (const std::string& name : changed_between(its.variables, variables))
    set_in_lower_half(name, value_of(variables, name));
  its.variables = std::move(variables);
}

std::vector<std::string> program_search_path() {
  constexpr std::string_view kVariable = "LD_LIBRARY_PATH=";
  std::string list;
  libraries::each_variable_at_start([&](std::string_view entry) {
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

void end_restore_of_environment() {
  std::lock_guard lock(program_variables().mutex);
  for (const auto& [name, value] : program_variables().set_since)
    set_in_lower_half(name, value ? &*value : nullptr);
}

void note_reading_of_environment(Reader reader) {
  std::lock_guard lock(program_variables().mutex);
  auto& its = program_variables().begun_with[static_cast<size_t>(reader)];
  if (!its) its = program_variables().variables;
}

Status keep_environment_of_driver() {
  std::lock_guard lock(program_variables().mutex);
  const auto& its = program_variables().begun_with[static_cast<size_t>(Reader::kDriver)];
  if (!its) return {};
  std::string text;
  for (const auto& [name, value] : *its)
    if (reader_of(name) == Reader::kDriver) text += name + '=' + value + '\0';
  handles::heap_free(reinterpret_cast<void*>(kept_variables()));
  kept_variables() = reinterpret_cast<uint64_t>(heap_text(text));
  if (!kept_variables()) return Error{"no memory was left for what CropDL keeps of CUDA's objects"};
  return {};
}

std::string environment_refusal() {
  std::lock_guard lock(program_variables().mutex);
  Variables variables;
  if (!program_variables().changed.empty()) return program_variables().changed;
  if (address_of_environment() == 0) return "";
  if (!at_cut(&variables)) return "the program is in the middle of changing its environment; try again";
  return difference(variables);
}

std::string visible_devices_of_program() { return program_variables().visible; }

}  // namespace cropdl::cuda

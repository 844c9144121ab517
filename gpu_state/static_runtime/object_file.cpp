#include "gpu_state/static_runtime/object_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "gpu_state/static_runtime/elf_view.h"

namespace cropdl::static_runtime {
namespace {

// NVIDIA's build gives this prefix to all hidden symbols in its archive; seen in CUDA 11 to 13.
constexpr std::string_view kHiddenPrefix = "libcudart_static_";
constexpr std::string_view kRegister = "__cudaRegisterFatBinary";

bool contains(std::string_view bytes, std::string_view what) {
  return memmem(bytes.data(), bytes.size(), what.data(), what.size()) != nullptr;
}

// Looks for nvcc's registration of device code: its section, or, without section headers, the magic number of
// its wrappers in writable segments (fatbinary_section.h).
bool has_device_code(const ObjectFile& object) {
  if (!object.sections().empty()) return object.section(".nvFatBinSegment") != nullptr;
  for (const Elf64_Phdr& segment : object.segments()) {
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_W)) continue;
    std::string_view bytes = object.part(segment.p_offset, segment.p_filesz);
    constexpr uint32_t kMagic = 0x466243b1;
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      uint32_t words[2];
      std::memcpy(words, bytes.data() + at, sizeof words);
      if (words[0] == kMagic && (words[1] == 1 || words[1] == 2)) return true;
    }
  }
  return false;
}

// Whether the object uses a shared runtime: its dynamic symbols then name the registration function.
bool asks_for_shared_runtime(const ObjectFile& object, std::string_view file) {
  const Elf64_Shdr* symbols = object.section(SHT_DYNSYM);
  std::string_view strings = symbols ? object.strings_of(*symbols) : file;
  return contains(strings, std::string("\0", 1) + std::string(kRegister) + std::string("\0", 1));
}

// These names of source files are only in the runtime's error reports.
bool has_runtime_texts(std::string_view file) {
  return contains(file, "cudart_context_mgr.cpp") && contains(file, "cudart_tls.cpp");
}

}  // namespace

MappedFile::MappedFile(const char* path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  struct stat status;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    auto size = static_cast<size_t>(status.st_size);
    void* at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (at != MAP_FAILED) bytes_ = {static_cast<const char*>(at), size};
  }
  close(file);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

bool may_have_static_runtime(std::string_view file) {
  ObjectFile object(file);
  const Elf64_Shdr* symbols = object.section(SHT_SYMTAB);
  return symbols && contains(object.strings_of(*symbols), kRegister);
}

StaticRuntime static_runtime_of(std::string_view file, const std::vector<std::string>& names,
                                bool is_program) {
  StaticRuntime found;
  ObjectFile object(file);
  const Elf64_Shdr* symbols = object.section(SHT_SYMTAB);
  std::multimap<std::string_view, Elf64_Sym> functions;
  bool has_hidden = false;
  if (symbols) {
    has_hidden = contains(object.strings_of(*symbols), kHiddenPrefix);
    object.each_function(*symbols, [&](std::string_view name, const Elf64_Sym& symbol) {
      if (name.starts_with("cuda") || name.starts_with("__cuda")) functions.emplace(name, symbol);
    });
  }
  if (!has_hidden || !functions.contains(kRegister)) {
    bool is_static = has_device_code(object) || (is_program && has_runtime_texts(file));
    if (is_static && !asks_for_shared_runtime(object, file)) found.state = StaticRuntime::State::kStripped;
    return found;
  }

  // The runtime is one object file of NVIDIA's with its functions side by side. The functions whose names
  // occur once show the range of its addresses. A program's own function of the same name is outside of it.
  uint64_t first = UINT64_MAX, last = 0;
  for (const std::string& name : names) {
    if (functions.count(name) != 1) continue;
    uint64_t address = functions.find(name)->second.st_value;
    first = std::min(first, address);
    last = std::max(last, address);
  }
  for (const auto& [name, symbol] : functions)
    if (symbol.st_value >= first && symbol.st_value <= last &&
        (found.functions.empty() || found.functions.back().name != name))
      found.functions.push_back(
          {std::string(name), symbol.st_value, symbol.st_size, object.code(symbol.st_value, kEntryBytes)});
  found.compare(names);
  return found;
}

void StaticRuntime::compare(const std::vector<std::string>& names) {
  std::set<std::string_view> there;
  for (const RuntimeFunction& function : functions) there.insert(function.name);
  const auto lacks =
      std::ranges::find_if(names, [&](const std::string& name) { return !there.contains(name); });
  state = lacks == names.end() ? State::kThere : State::kOtherVersion;
  if (lacks != names.end()) missing = *lacks;
}

std::vector<std::string> exported_functions(std::string_view file) {
  ObjectFile object(file);
  std::vector<std::string> names;
  if (const Elf64_Shdr* symbols = object.section(SHT_DYNSYM))
    object.each_function(*symbols,
                         [&](std::string_view name, const Elf64_Sym&) { names.emplace_back(name); });
  return names;
}

}  // namespace cropdl::static_runtime

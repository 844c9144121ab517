// Finds NVIDIA's static runtime (nvcc's default) in the file of a loaded object: its functions' addresses, or
// that it is stripped. Any thread, also before libc's own constructors: uses no environment and no streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cropdl::static_runtime {

inline constexpr size_t kEntryBytes = 16;  // the number of bytes of a function's code that are examined

// A file mapped for reading while the object exists. Empty if the file cannot be read.
class MappedFile {
 public:
  explicit MappedFile(const char* path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

struct RuntimeFunction {
  std::string name;
  uint64_t address = 0;       // as linked: add the object's base
  uint64_t size = 0;          // bytes of code
  std::string_view original;  // the first bytes of its code in the file; empty: not in the file
};

struct StaticRuntime {
  enum class State { kAbsent, kThere, kStripped, kOtherVersion };
  State state = State::kAbsent;
  std::vector<RuntimeFunction> functions;
  std::string missing;  // kOtherVersion: a function that this runtime lacks

  void compare(const std::vector<std::string>& names);  // sets `state` and `missing` by `functions`
};

// `names`: the functions of libcudart.so.13; the result also has those of a later version. `is_program`:
// looks for a stripped runtime even without device code in the file.
StaticRuntime static_runtime_of(std::string_view file, const std::vector<std::string>& names,
                                bool is_program);

// The same by the runtime's code, in a file without symbols: all of it is one section of libcudart_static.a
// (`archive`: its contents), which linkers copy unchanged except for relocations. It must be in exactly one
// place, with every byte that no relocation may change equal. kAbsent: it is not, or `archive` is no archive.
StaticRuntime static_runtime_by_code(std::string_view file, std::string_view archive,
                                     const std::vector<std::string>& names);

// A cheap test whether static_runtime_of(), which needs `names`, can find symbols of the runtime.
bool may_have_static_runtime(std::string_view file);

// The names of the functions that a shared library exports.
std::vector<std::string> exported_functions(std::string_view file);

}  // namespace cropdl::static_runtime

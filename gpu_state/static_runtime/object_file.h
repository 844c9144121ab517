// What the file of a loaded object says of NVIDIA's static runtime (libcudart_static.a, nvcc's default):
// where its functions are, or that it is there and stripped. Any thread, also before libc's own constructors:
// no environment, no streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cropdl::static_runtime {

inline constexpr size_t kEntryBytes = 16;  // of a function's code that are looked at

// A file mapped for reading, unmapped with its owner. Empty if it cannot be read.
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
  uint64_t address = 0;       // as linked: the object's base is to be added
  uint64_t size = 0;          // bytes of its code
  std::string_view original;  // the first bytes of its code in the file; empty: the file has none there
};

struct StaticRuntime {
  enum class State { kAbsent, kThere, kStripped, kOtherVersion };
  State state = State::kAbsent;
  std::vector<RuntimeFunction> functions;
  std::string missing;  // kOtherVersion: a function that this runtime has not
};

// `names` are the functions that libcudart.so.13 has. What of the runtime is found beside them, of a later
// version, is among the functions too. `is_program`: also a program without device code of its own is looked
// through for a stripped runtime.
StaticRuntime static_runtime_of(std::string_view file, const std::vector<std::string>& names,
                                bool is_program);

// Whether there is anything to look for, for which `names` are needed: a cheap question.
bool may_have_static_runtime(std::string_view file);

// The functions that a shared library exports.
std::vector<std::string> exported_functions(std::string_view file);

// The address of one of them, as linked: the object's base is to be added. 0: there is none.
uint64_t exported_function(std::string_view file, std::string_view name);

}  // namespace cropdl::static_runtime

// The names that a function's body declares, scope by scope. PTX allows { } to redeclare names, and inline
// assembly does so. A flat body needs unique names, so names of inner scopes get a dot and the scope's
// number, which no name in a text can have. One thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cropdl::ptx {

class Names {
 public:
  enum class Kind { kRegister, kVectorRegister, kSymbol };
  struct Name {
    Kind kind;
    std::string unique;
    int vector = 1;  // elements of a vector register
  };

  void open();
  void close() { scopes_.pop_back(); }
  size_t depth() const { return scopes_.size(); }

  // The name for the flat body; empty if the scope has it already, by name or in a range.
  std::string declare(std::string_view name, Kind kind, int vector = 1);
  // %r<35>: %r0 … %r34.
  std::string declare_range(std::string_view prefix, int count);

  // Finds the innermost declaration; false: none.
  bool find(std::string_view name, Name* found) const;

 private:
  struct Range {
    std::string unique;
    int count;
  };
  struct Scope {
    int number;
    std::map<std::string, Name, std::less<>> names;
    std::map<std::string, Range, std::less<>> ranges;
  };
  static bool in_range(const Scope& scope, std::string_view name, Name* found);
  static bool overlaps(const Scope& scope, std::string_view prefix, int count);
  std::string unique_of(std::string_view name) const;
  std::vector<Scope> scopes_;
  int opened_ = 0;
};

// Whether the name is a special register's (%tid, %laneid), without .x.
bool is_special_register(std::string_view name);

}  // namespace cropdl::ptx

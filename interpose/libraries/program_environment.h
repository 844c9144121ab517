// The program's environment variables, for libraries of the LH that read some. The LH's own environment is a
// copy from before the program began, which may set variables before a library reads them. LH FS base.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace cropdl::libraries {

using Variables = std::map<std::string, std::string, std::less<>>;
using Reads = bool(std::string_view name);  // whether a library reads the variable

// Adds the variables that the library reads: of one "NAME=value"; of an environment (man 7 environ). The
// second does as getenv() does: it assumes that no thread changes the environment meanwhile.
void keep_variable(std::string_view entry, Reads* reads, Variables* variables);
void keep_variables(const char* const* environment, Reads* reads, Variables* variables);

uint64_t auxiliary_value(uint64_t type);  // as getauxval(3) in the program; 0: there is no such entry

// The environment with which the program was started, on its stack.
void each_variable_at_start(const std::function<void(std::string_view entry)>& each);
Variables variables_at_start(Reads* reads);

const std::string* value_of(const Variables& variables, std::string_view name);  // nullptr: not set
bool same_value(const std::string* a, const std::string* b);
std::set<std::string> changed_between(const Variables& before, const Variables& after);

// Sets the LH's variable; nullptr unsets it.
void set_in_lower_half(const std::string& name, const std::string* value);

}  // namespace cropdl::libraries

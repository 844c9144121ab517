// Finds out which kind of program cropdl-run was given and which lower half it needs. Tools.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interpose/launch/boot.h"

namespace cropdl::entry {

struct FoundProgram {
  std::string name;  // for execve(2): `name` itself, or a directory of PATH and `name`
  std::string path;  // absolute, without links
};

Result<FoundProgram> find_program(const std::string& name);  // looks `name` up in PATH as execvp does

enum class ProgramKind {
  kDynamic,  // runs in the window
  kStarter,  // a shell, a shell script, or a tool like nice: runs natively, execs protected programs
  kNative    // runs natively, as do the programs that it starts
};

struct ProgramFacts {
  std::string path;
  ProgramKind kind = ProgramKind::kDynamic;
  std::string why;                  // reason for kNative
  std::vector<std::string> before;  // for a script: `path` is its interpreter, called by these words
  std::string mpi;        // "openmpi", "mpich" or "none": by the libraries that it is linked with or may load
  std::string sanitizer;  // "AddressSanitizer", ... or ""
};

// Refuses statically linked programs, and what is no program. `depth`: of scripts as interpreters of scripts.
Result<ProgramFacts> inspect_program(const std::string& path, int depth = 0);

// The directory of this executable, and the directory of CropDL's libraries.
std::string own_directory();
Result<std::string> library_directory();

// Returns `list`, the value of LD_PRELOAD, without libcropdl.so of any folder.
std::string without_entrance(const std::string& list);

// Execs the program at `path` with `words` as its arguments; returns only on failure, with the reason.
Error become(const std::string& path, std::vector<std::string> words);

// Execs the lower half with `boot`; returns only on failure, with the reason.
Error become_lower_half(const launching::Boot& boot, const std::string& launcher_flavour,
                        const std::string& mpi, std::vector<std::string> words);

}  // namespace cropdl::entry

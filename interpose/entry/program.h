// What kind of program cropdl-run was given, and which lower half it needs. Tools.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interpose/launch/boot.h"

namespace cropdl::entry {

// The absolute path of `name`, looked up in PATH as execvp would.
Result<std::string> find_program(const std::string& name);

enum class ProgramKind {
  kDynamic,  // runs in a window of ours
  kStarter,  // a shell, a script of one, or a tool like nice: runs natively; what it execs is protected
  kNative    // runs natively, and so does what it starts
};

struct ProgramFacts {
  std::string path;
  ProgramKind kind = ProgramKind::kDynamic;
  std::string why;                  // it is kNative
  std::vector<std::string> before;  // of a script: `path` is its interpreter, called by these words
  std::string mpi;  // "openmpi", "mpich" or "none": by the libraries it is linked with, or what it may load
  std::string sanitizer;  // "AddressSanitizer", ... or ""
};

// Refuses statically linked programs and what is not a program.
Result<ProgramFacts> inspect_program(const std::string& path);

// The directory that this executable is in, and that of our libraries.
std::string own_directory();
std::string library_directory();

// A list as LD_PRELOAD's, without one of its files.
std::string without(const std::string& list, const std::string& file);

// Replaces this process by the program at `path` with these words as its arguments; returns why it could not.
Error become(const std::string& path, std::vector<std::string> words);

// Replaces this process by the lower half that `boot` is for; returns why it could not.
Error become_lower_half(const launching::Boot& boot, const std::string& launcher_flavour,
                        const std::string& mpi, std::vector<std::string> words);

}  // namespace cropdl::entry

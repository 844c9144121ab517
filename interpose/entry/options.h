// Command lines of cropdl-run and cropdl-restart. Tools. Without CLI11, which takes eight seconds to compile.
#pragma once

#include <string>
#include <vector>

#include "interpose/launch/boot.h"

namespace cropdl::entry {

// An option as it was given, for other command lines of this job. A time limit is a point in time.
struct GivenOption {
  std::string name, value;  // "--quiet", "true"
  bool is_flag;
};

struct Options {
  // What the options say. `directory`: absolute for cropdl-run, as given for cropdl-restart.
  launching::Boot boot;
  std::vector<GivenOption> given;    // without false flags and empty values
  std::string argv0;                 // the program's own, if PROGRAM is only its file; "": PROGRAM
  std::vector<std::string> program;  // of cropdl-run: PROGRAM ARGS...

  std::vector<std::string> given_words() const;  // the given options as words of another command line
};

// Return false if the process must exit with `*status`: help was shown, or one line has named the error.
// Parsing --log also switches this process's own lines.
bool parse_run(int argc, char** argv, Options* options, int* status);
bool parse_restart(int argc, char** argv, Options* options, int* status);

}  // namespace cropdl::entry

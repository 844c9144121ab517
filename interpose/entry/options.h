// What the command lines of cropdl-run and cropdl-restart have in common. Tools.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cropdl::entry {

// Values that are checked before anything converts them, so that the line names what was given and never a
// type's limits.
CLI::Validator seconds_value();       // an interval: from 1 ms to ten years
CLI::Validator version_value();       // a version's number
CLI::Validator device_count_value();  // of software devices; "true": a flag without a value

// Options are ours until `--` or the first word that is none. `program` gets the words from there on; without
// it there must be none. False: the process ends with `*status` (help was shown, or one line by `name` says
// what is wrong).
bool parse_options(CLI::App& app, int argc, char** argv, std::vector<std::string>* program, int* status);

}  // namespace cropdl::entry

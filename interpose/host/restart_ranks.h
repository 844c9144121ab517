// Ranks of a restart agree on each step, and end together if one cannot take it. LH, MAIN, START of it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "interpose/host/process.h"

namespace cropdl::host {

// What a rank says of a version. The first letter of a verdict that is not kFine is its kind.
inline constexpr const char* kFine = "fine";
inline constexpr char kDamaged = 'D';  // an older version may do
inline constexpr char kRefused = 'R';  // no version can be restarted here

// Ends this process with a line that every rank has found by itself. Rank 0 prints it; the others wait until
// the launcher ends them, because it ends rank 0, and with it the line, as soon as another rank exits. A rank
// that nobody has ended was the only one with its reason, and prints it, too.
[[noreturn]] void die_together(const Process& p, const std::string& line);

// All ranks' verdicts: "" if all are kFine with one text, else the first other. A lost rank ends the process.
std::string agree(Process& p, const std::string& mine);

// Returns when the step has succeeded on all ranks; ends all of them with the first failure otherwise.
void agree_or_die(Process& p, const Status& step);

// What the ranks have to say, as one line, each text once ("rank 0 and 127 more: ..."); "": nothing.
std::string gather(Process& p, const std::string& mine);

// `mine` of every rank, by rank. Ends the process when a rank is lost; or with `if_too_long`, when all of
// them together are too long to be exchanged.
std::vector<std::string> all_gather(Process& p, const std::string& mine);
std::vector<std::string> all_gather(Process& p, const std::string& mine, const std::string& if_too_long);

}  // namespace cropdl::host

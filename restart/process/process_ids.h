// Ids that the program got in its first run, and their values now (interpose/upper/ids.cpp); the job's other
// ranks. LH, MAIN.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace cropdl::process {

void note_ids();  // while an image is written: the program's ids of its parent, group and session

// --- In a process that continues an image, with its memory loaded.

void take_place_of_ids();  // records its own ids as those of the saved process
std::string told_ids();    // what this rank tells the others of its ids
// Records the ids of the other ranks in the control page. `all`: told_ids() of every rank; `own`: this rank.
void know_other_ranks(const std::vector<std::string>& all, size_t own);

// While the program is stopped: the kernel's ids of the other ranks on this node, found in /proc. None where
// the launcher is unknown (launching::launchers_process()).
std::vector<pid_t> other_ranks();

// Whether `path` leads to that file.
bool is_file(const std::string& path, const struct stat& file);

}  // namespace cropdl::process

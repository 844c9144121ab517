// The job's other ranks on this node, found in /proc. LH; the main thread, while the program is stopped.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace cropdl::process {

// Whether `path` leads to that file.
bool is_file(const std::string& path, const struct stat& file);

// By the kernel's ids. None where the launcher is unknown (launching::launchers_process()).
std::vector<pid_t> other_ranks();

}  // namespace cropdl::process

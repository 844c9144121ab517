// Files that several ranks were started with, as `5< FILE` before a launcher gives them: all ranks move one
// offset. LH; the main thread, while the program is stopped.
#pragma once

#include <sys/stat.h>

namespace cropdl::files {

// Whether another rank of this job has the description of this descriptor open, too. Where kcmp(2) is
// forbidden: whether it has the file open by the same number, at the same offset.
bool is_shared_by_ranks(int fd, const struct stat& st);

}  // namespace cropdl::files

// The program's descriptors come back, in three steps: look (nothing is changed), place (descriptors have
// their numbers, no file is changed), apply (files get the contents of the checkpoint). Between them the
// ranks agree. LH, START of a restart.
#pragma once

#include <string>
#include <vector>

#include "restart/files/file_contents.h"

namespace cropdl::files {

// Keeps the numbers that the program will need free of ours: `highest` is the highest of them. What the
// launcher or a shell left open moves out of the way, and so does `ours`.
Status make_room_for(int highest, const std::vector<int>& inherited, Descriptor& ours);

// What the three steps are about.
struct SavedFiles {
  const std::vector<OpenFile>& files;
  const std::vector<FileContent>& contents;
  const Folder& version;
  FilesPolicy policy = FilesPolicy::kTruncate;
};

// Whether all can be opened again, and be as they were.
FileVerdict check_files(const SavedFiles& saved);

Status place_files(const SavedFiles& saved);

// The standard input is O_NONBLOCK if it was: the program counts on EAGAIN. Of a terminal everybody who has
// it sees that, so it is done last.
void keep_input_from_waiting(const std::vector<OpenFile>& files);

// Says in `done` what was changed.
Status apply_files(const SavedFiles& saved, std::string* done);

// "", or which files are not as they were and are not made so: what is only read, and all with
// FilesPolicy::kKeep. When all ranks have applied theirs, which may be the same files.
std::string files_left_alone(const SavedFiles& saved);

}  // namespace cropdl::files

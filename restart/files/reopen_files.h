// Restores the program's descriptors in four steps, between which the ranks agree: check (changes nothing),
// place (descriptors get their numbers, no file changes), apply (files get the contents of the checkpoint),
// finish (descriptors of files that were made again). LH, START of a restart.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "restart/files/file_contents.h"
#include "restart/process/raised_limit.h"

namespace cropdl::files {

// What a step leaves to a later one.
struct Reopening {
  std::optional<process::RaisedLimit> raised;  // RLIMIT_NOFILE, until the program's descriptors are in place
  std::vector<const OpenFile*> postponed;      // until apply_files() has made their files again
  // By index of SavedFiles::contents: the file that apply_files() has checked or written.
  std::map<int, FileIdentity> applied;
};

// Moves `ours`, and what the launcher or a shell left open (`inherited`), above the program's (`highest`).
Status make_room_for(int highest, const std::vector<int>& inherited, Descriptor& ours, Reopening& reopening);

// Input of the four steps.
struct SavedFiles {
  const std::vector<OpenFile>& files;
  const std::vector<FileContent>& contents;
  const Folder& version;
  FilesPolicy policy = FilesPolicy::kTruncate;
  FilesPutBack put_back;  // by any rank
};

// Whether all files can be opened again and restored.
FileVerdict check_files(const SavedFiles& saved);

Status place_files(const SavedFiles& saved, Reopening& reopening);

// Sets O_NONBLOCK on the standard input if it was set (for EAGAIN). Last, since all of the terminal see it.
void keep_input_from_waiting(const std::vector<OpenFile>& files);

Status apply_files(const SavedFiles& saved, Reopening& reopening, std::string* done);  // appends to `done`

// When all ranks have applied theirs: this rank may have open what another one has made again.
Status finish_files(const SavedFiles& saved, const Reopening& reopening);

// "" or the files that differ from the checkpoint and stay so: those only read, all with FilesPolicy::kKeep.
// When all ranks have applied theirs, perhaps the same files.
std::string files_left_alone(const SavedFiles& saved);

}  // namespace cropdl::files

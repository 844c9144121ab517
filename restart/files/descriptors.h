// Which descriptors belong to the program (the core saw them made), CropDL, the MPI or unknown owners, and
// which share a description. LH, MAIN, START or stopped.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

namespace cropdl::files {

std::string descriptor_link(int fd);  // in /proc: a path, "pipe:[7]", ...; "" if it is not open
bool is_pipe_at_its_end(int fd);      // empty, and without a writer

inline constexpr int kOwnDescriptors = 124;  // the LH needs this many, above the program's
int choose_first_descriptor();               // of the LH's own, from the limit of the process. START, first

// Descriptors that the process was started with. Under a launcher, pipes and sockets beyond the standard
// streams may be its. START; `given`: the descriptors open before CropDL opened any.
struct InheritedDescriptors {
  std::vector<int> programs;
  std::vector<int> launchers;
};
InheritedDescriptors inherited_descriptors(const std::vector<int>& given, bool under_launcher);

// "; the program was started with it, ..." if `fd` still is what was given at the start; else "".
std::string advice_on_given(int fd);
bool descriptor_was_given(int fd);           // `fd`, or an earlier descriptor of that number
bool file_was_given(const struct stat& st);  // by some number

// Just before the program runs: records the open descriptors that are CropDL's or the launcher's.
void remember_our_descriptors();

// "" or a refusal that names a descriptor of an unknown owner. `libraries` of the LH open some at any time.
std::string unknown_descriptor(bool libraries);

// The descriptor in `known` that shares its description (offset and flags) with `fd`. -1: none, and `fd` is
// inserted. `known`: descriptors of one file without a common description, in the order of kcmp(2). Where
// that is forbidden, the comparison changes and restores a property of it that nothing else reads.
int find_description(std::vector<int>& known, int fd);

// A standard stream when the process began.
struct StandardStream {
  bool open = false;
  struct stat is {};
  bool locked = false, owned = false;  // it had a file lock, a receiver of SIGIO
};
const StandardStream& stream_at_start(int s);
void remember_standard_streams();

bool input_is_a_stream();  // the standard input is a pipe or a socket: data read from it is lost

bool has_file_lock(int fd);     // or a lease
bool has_signal_owner(int fd);  // a receiver of SIGIO

}  // namespace cropdl::files

// Whose each descriptor of this process is: the program's (the core saw it made), ours, the MPI's, or
// unknown; and which of them share one description. LH; the main thread, before the program runs or while it
// is stopped.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

namespace cropdl::files {

// What the link in /proc says: a path, "pipe:[7]", ...; "" if it is not open.
std::string descriptor_link(int fd);

inline constexpr int kOwnDescriptors = 124;  // that the LH needs for itself above the program's

// Chooses where the LH's own descriptors begin, by the limit of the process. START, first.
int choose_first_descriptor();

// What came with the process at its start. Under a launcher, pipes and sockets beyond the standard streams
// may be between it and us. START; `given` is what was open before we opened any.
struct InheritedDescriptors {
  std::vector<int> programs;
  std::vector<int> launchers;
};
InheritedDescriptors inherited_descriptors(const std::vector<int>& given, bool under_launcher);

// "; the program was started with it, ..." for what was given to it and is still that; else "".
std::string advice_on_given(int fd);
bool descriptor_was_given(int fd);  // or a former descriptor of that number

// All that is open now and is not the program's is ours or the launcher's. Just before the program runs.
void remember_our_descriptors();

// "" or a line that names a descriptor which is nobody's, as far as can be known. `libraries`: some are at
// work in the LH, and open sockets and the like when they want to.
std::string unknown_descriptor(bool libraries);

// Which of `known`, descriptors of one file that share none, shares its description (offset and flags) with
// `fd`; -1: none, and `fd` is one of them now. By kcmp(2), in whose order they stand, or where a sandbox
// forbids that, by a property of the description that nothing else looks at, and that is put back.
int find_description(std::vector<int>& known, int fd);

// What a standard stream was when the process began.
struct StandardStream {
  bool open = false;
  struct stat is {};
  bool locked = false, owned = false;  // already then: has a file lock, a receiver of SIGIO
};
const StandardStream& stream_at_start(int s);
void remember_standard_streams();

// The standard input is a pipe or a socket: what is read from it is gone.
bool input_is_a_stream();

// The description has a lock or lease, or one who is told by SIGIO.
bool has_file_lock(int fd);
bool has_signal_owner(int fd);

}  // namespace cropdl::files

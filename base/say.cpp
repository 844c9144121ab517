#include "base/say.h"

#include <fcntl.h>
#include <unistd.h>
#include <atomic>

namespace cropdl {

namespace {
std::atomic<int> stream{2};
}

void keep_error_stream(int first) {
  const int former = stream;
  int copy = ::fcntl(2, F_DUPFD_CLOEXEC, first);
  if (copy < 0) copy = ::fcntl(2, F_DUPFD_CLOEXEC, 3);
  if (former != 2 && former >= 0) ::close(former);
  stream = copy;  // -1: there is none, and lines go nowhere
}

int error_stream() { return stream; }

void say(const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t written = ::write(stream, text.data(), text.size());
}

}  // namespace cropdl

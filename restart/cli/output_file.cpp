#include "restart/cli/output_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>

#include "base/file.h"
#include "base/format.h"

namespace cropdl::cli {

std::string resolved(const std::string& path) {
  char* const real = ::realpath(path.c_str(), nullptr);
  const std::string text = real != nullptr ? real : "";
  ::free(real);
  return text;
}

Status check_outside(const std::string& file, const std::string& store) {
  const std::string inside = resolved(store) + "/";
  if (inside == "/") return Error{"{}: {}", store, errno_text(errno)};
  struct stat info;
  if (::lstat(file.c_str(), &info) == 0 && S_ISLNK(info.st_mode) && resolved(file).empty())
    return Error{"{}: is a link to nothing; name a file with --output", file};
  // A link may lead into the store, too.
  for (const std::string& place : {resolved(folder_of(file)) + "/", resolved(file)})
    if (place.starts_with(inside))
      return Error{"{}: lies in the store; name a file elsewhere with --output", file};
  return {};
}

}  // namespace cropdl::cli

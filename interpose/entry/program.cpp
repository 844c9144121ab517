#include "interpose/entry/program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "interpose/lower/elf_file.h"

namespace cropdl::entry {
namespace {

std::string base(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

// Programs whose only business is to start others.
bool is_shell(const std::string& path) {
  for (const char* name :
       {"sh", "bash", "dash", "zsh", "ksh", "env", "nice", "taskset", "numactl", "time", "timeout", "nohup"})
    if (base(path) == name) return true;
  return false;
}

}  // namespace

Result<std::string> find_program(const std::string& name) {
  const auto usable = [](const std::string& path) {
    struct stat st {};
    return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && access(path.c_str(), X_OK) == 0;
  };
  std::string found;
  if (name.find('/') != std::string::npos) {
    struct stat st {};
    if (stat(name.c_str(), &st) != 0) return Error{name + ": " + errno_text(errno)};
    if (!usable(name)) return Error{name + ": not an executable file"};
    found = name;
  } else {
    const char* path = getenv("PATH");
    const std::string list = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
    for (size_t at = 0; found.empty() && at <= list.size();) {
      const size_t end = std::min(list.find(':', at), list.size());
      std::string directory = end == at ? "." : list.substr(at, end - at);
      directory += "/" + name;
      if (usable(directory)) found = directory;
      at = end + 1;
    }
    if (found.empty()) return Error{name + ": no such program in PATH"};
  }
  char* absolute = realpath(found.c_str(), nullptr);
  if (absolute == nullptr) return Error{found + ": " + errno_text(errno)};
  std::string result = absolute;
  free(absolute);
  return result;
}

Result<ProgramFacts> inspect_program(const std::string& path) {
  ProgramFacts facts;
  facts.path = path;
  facts.mpi = "none";
  char magic[2] = {};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Error{path + ": cannot open: " + errno_text(errno)};
  const ssize_t n = read(fd, magic, 2);
  close(fd);
  if ((n == 2 && magic[0] == '#' && magic[1] == '!') || is_shell(path)) {
    facts.kind = ProgramKind::kScript;
    return facts;
  }
  const auto elf = lower::read_elf(path);
  if (!elf) return elf.error();
  if (elf->interpreter.empty())
    return Error{path +
                 ": is statically linked, and a static program has no libraries to stand between; link it "
                 "dynamically"};
  for (const std::string& library : elf->needed) {
    if (library.rfind("libmpi.so", 0) == 0 || library.rfind("libmpi_", 0) == 0) facts.mpi = "openmpi";
    if (library.rfind("libmpich", 0) == 0) facts.mpi = "mpich";
  }
  return facts;
}

std::string own_directory() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  const std::string self(path, n > 0 ? static_cast<size_t>(n) : 0);
  return self.substr(0, self.rfind('/'));
}

std::string library_directory() {
  const std::string bin = own_directory();
  for (const char* candidate : {"/../lib", "/../lib/x86_64-linux-gnu/cropdl", "/../lib/cropdl"})
    if (exists(bin + candidate + "/cropdl-core.so")) {
      char* absolute = realpath((bin + candidate).c_str(), nullptr);
      std::string result = absolute != nullptr ? absolute : bin + candidate;
      free(absolute);
      return result;
    }
  return "";
}

Error become(const std::string& path, std::vector<std::string> words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (auto& w : words) pointers.push_back(w.data());
  pointers.push_back(nullptr);
  execv(path.c_str(), pointers.data());
  return {path + ": cannot run it: " + errno_text(errno)};
}

// What the launcher provides wins over what the program is linked with: the shims translate.
Error become_lower_half(const lower::Boot& boot, const std::string& launcher_flavour, const std::string& mpi,
                        std::vector<std::string> words) {
  const std::string flavour = launcher_flavour != "none" ? launcher_flavour : mpi;
  unsetenv("LD_PRELOAD");  // the program's, not the lower half's
  setenv(lower::kBootVariable, lower::boot_text(boot).c_str(), 1);
  Error error = become(own_directory() + "/cropdl-lower-" + flavour, std::move(words));
  if (flavour != "none") error.message += " (was CropDL built with this MPI?)";
  return error;
}

}  // namespace cropdl::entry

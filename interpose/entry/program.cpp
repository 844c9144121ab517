#include "interpose/entry/program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>

#include "base/file.h"
#include "base/format.h"
#include "interpose/launch/elf_file.h"
#include "interpose/launch/launchers.h"
#include "interpose/seam/layout.h"

namespace cropdl::entry {
namespace {

using launching::is_one_of;

// Whether the path is a tool of the system: in a system directory, and only root can write to it. A user's
// own program may have the same name.
bool of_the_system(const std::string& path) {
  struct stat st {};
  return is_one_of({"/bin", "/usr/bin", "/usr/sbin", "/sbin", "/usr/local/bin"}, folder_of(path).c_str()) &&
         stat(path.c_str(), &st) == 0 && st.st_uid == 0 && (st.st_mode & S_IWOTH) == 0 &&
         ((st.st_mode & S_IWGRP) == 0 || st.st_gid == 0);
}

template <size_t N>
bool is_tool(const std::string& path, const char* const (&names)[N]) {
  return of_the_system(path) && is_one_of(names, file_name_of(path).c_str());
}

constexpr const char* kShells[] = {"sh",   "bash",    "dash", "zsh",  "ksh", "ksh93",
                                   "mksh", "busybox", "fish", "tcsh", "csh"};

// Starters only start other programs, which are protected. Launchers may be installed anywhere.
bool is_starter(const std::string& path) {
  return is_one_of(launching::kLauncherExecutables, file_name_of(path).c_str()) || is_tool(path, kShells) ||
         is_tool(path, {"env", "nice", "time", "timeout", "nohup", "setsid", "stdbuf", "taskset", "numactl",
                        "chrt", "ionice", "xargs", "prlimit", "setarch", "flock", "hwloc-bind"});
}

// Debuggers and similar tools: they control another process by ptrace, or run it on an emulated processor.
bool is_debugger(const std::string& path) {
  return is_tool(path, {"gdb", "gdbserver", "lldb", "strace", "ltrace", "valgrind", "perf", "rr"}) ||
         (of_the_system(path) &&
          (file_name_of(path).starts_with("lldb-") || file_name_of(path).starts_with("valgrind.")));
}

bool needs(const launching::ElfFile& elf, const char* library) {
  return std::ranges::any_of(elf.needed, [&](const std::string& name) { return name.starts_with(library); });
}

std::vector<std::string> words_of_preload(const std::string& list) {
  std::vector<std::string> words;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find_first_of(": ", at), list.size());  // man 8 ld.so: spaces or colons
    if (end > at) words.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

bool is_preloaded(const char* library) {
  const char* list = getenv("LD_PRELOAD");
  return std::ranges::any_of(words_of_preload(list != nullptr ? list : ""), [&](const std::string& file) {
    return file_name_of(file).starts_with(library);
  });
}

// Whether the program is an interpreter that may load an MPI later.
bool may_load_mpi(const launching::ElfFile& elf) {
  return elf.knows("Py_BytesMain") || needs(elf, "libpython") || needs(elf, "libR.so") ||
         needs(elf, "libjulia");
}

// Returns the ABI of the MPI that the program is linked with, or "" without MPI. libmpi.so.12 is the name in
// MPICH's own builds, Intel MPI and MVAPICH (Debian: libmpich.so.12), with MPICH's ABI (www.mpich.org/abi).
// Open MPI's is libmpi.so.40 since version 3. Two MPIs are an error: the program would load the real library
// of one beside the shim of the other.
Result<std::string> mpi_of(const launching::ElfFile& elf, const std::string& path) {
  const auto begins = [](const std::string& name, std::initializer_list<const char*> with) {
    return std::ranges::any_of(with, [&](const char* one) { return name.starts_with(one); });
  };
  std::string found, library;
  for (const std::string& name : elf.needed) {
    std::string abi;
    if (begins(name, {"libmpich", "libmpi.so.12", "libmpicxx.so.12", "libmpifort.so.12"}))
      abi = "mpich";
    else if (begins(name, {"libmpi.so.40", "libmpi_cxx.", "libmpi_mpifh.", "libmpi_usempi"}))
      abi = "openmpi";
    else if (begins(name, {"libmpi.so"}) || (found.empty() && begins(name, {"libmpi_"})))
      return Error{
          "{}: is linked with {}, and CropDL knows libmpi.so.40 (Open MPI 3 and later) and libmpich.so.12 or "
          "libmpi.so.12 (MPICH and what has its ABI); link it with one of these",
          path, name};
    if (abi.empty() || abi == found) continue;
    if (!found.empty())
      return Error{"{}: is linked with {} and {}, which are two MPIs; link it with one of them", path,
                   library, name};
    found = abi, library = name;
  }
  return found;
}

// The sanitizer that the program, or a library that it loads later, was built with. Its runtime is a library
// (of GCC or of Clang; preloaded, as for an extension of Python), or linked into the program.
std::string sanitizer_of(const launching::ElfFile& elf) {
  const auto has = [&elf](const char* gccs, const char* clangs, const char* symbol) {
    return needs(elf, gccs) || needs(elf, clangs) || elf.knows(symbol) || is_preloaded(gccs) ||
           is_preloaded(clangs);
  };
  if (has("libtsan.so", "libclang_rt.tsan", "__tsan_init")) return "ThreadSanitizer";
  if (elf.knows("__msan_init")) return "MemorySanitizer";
  if (has("libasan.so", "libclang_rt.asan", "__asan_init")) return "AddressSanitizer";
  return "";
}

// Returns "" or why CropDL has no place for the program: static arrays of gigabytes (-mcmodel=medium) in a
// program that is not position-independent reach the addresses that belong to the lower half.
std::string why_no_place(const launching::ElfFile& elf) {
  uint64_t end = 0;
  for (const auto& s : elf.segments)
    if (s.p_type == PT_LOAD) end = std::max(end, s.p_vaddr + s.p_memsz);
  if (elf.position_independent() || end <= seam::kLowBegin) return "";
  return formatted(
      "is linked for fixed addresses up to {:x}, and CropDL needs those from {:x} on; build it "
      "with -fPIE -pie",
      end, seam::kLowBegin);
}

// Returns the interpreter of a script with this first line, and the words before the script's name: as in
// execve(2), and for `env NAME`. Empty: unknown.
std::vector<std::string> interpreter_of(std::string line) {
  line.erase(0, line.find_first_not_of(" \t"));
  line.erase(line.find_last_not_of(" \t") + 1);
  const size_t end = line.find_first_of(" \t");
  std::vector<std::string> words{line.substr(0, end)};
  if (end != std::string::npos) words.push_back(line.substr(line.find_first_not_of(" \t", end)));
  if (words.size() == 2 && is_tool(words[0], {"env"}) &&
      words[1].find_first_of(" \t=") == std::string::npos && words[1][0] != '-')
    words.erase(words.begin());
  return words;
}

// The default MPI on this machine: by Debian's alternatives, else the MPI that CropDL is built with.
std::string default_mpi() {
  const auto built = [](const char* mpi) {
    return access((own_directory() + "/cropdl-lower-" + mpi).c_str(), X_OK) == 0;
  };
  for (const char* link :
       {"/etc/alternatives/mpi-x86_64-linux-gnu", "/etc/alternatives/mpirun", "/etc/alternatives/mpi"}) {
    const std::string path = link_text(link);
    for (const char* mpi : {"openmpi", "mpich"})
      if (path.find(mpi) != std::string::npos && built(mpi)) return mpi;
  }
  for (const char* mpi : {"openmpi", "mpich"})
    if (built(mpi)) return mpi;
  return "none";
}

}  // namespace

Result<FoundProgram> find_program(const std::string& name) {
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
    const char* set = getenv("PATH");
    const std::string list = set != nullptr ? set : "/usr/local/bin:/usr/bin:/bin";
    for (size_t at = 0; found.empty() && at <= list.size();) {
      const size_t end = std::min(list.find(':', at), list.size());
      const std::string path = (end == at ? "." : list.substr(at, end - at)) + "/" + name;
      if (usable(path)) found = path;
      at = end + 1;
    }
    if (found.empty()) return Error{name + ": no such program in PATH"};
  }
  const std::string absolute = resolved_path(found);
  if (absolute.empty()) return Error{found + ": " + errno_text(errno)};
  return FoundProgram{found, absolute};
}

constexpr int kMostInterpreters = 5;  // nested interpreters, as in execve(2)

Result<ProgramFacts> inspect_program(const std::string& path, int depth) {
  if (depth > kMostInterpreters) return Error{path + ": " + errno_text(ELOOP)};
  ProgramFacts facts;
  facts.path = path;
  facts.mpi = "none";
  char head[256] = {};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Error{"{}: cannot open: {}", path, errno_text(errno)};
  const ssize_t n = read(fd, head, sizeof head - 1);
  close(fd);
  if (is_debugger(path)) {
    facts.kind = ProgramKind::kNative;
    facts.why = "it controls the program that it runs, as CropDL does";
    return facts;
  }
  if (is_starter(path)) {
    facts.kind = ProgramKind::kStarter;
    return facts;
  }
  if (n > 2 && head[0] == '#' && head[1] == '!') {
    const std::string text = head + 2;
    const std::vector<std::string> words = interpreter_of(text.substr(0, text.find('\n')));
    const auto interpreter = find_program(words[0]);
    if (!interpreter) return Error{"{}: its interpreter: {}", path, interpreter.error().message};
    auto inner = inspect_program(interpreter->path, depth + 1);
    if (!inner) return Error{"{}: its interpreter: {}", path, inner.error().message};
    // A shell that runs a script is one in any folder (Nix, Guix, Conda).
    if (inner->kind == ProgramKind::kStarter || is_one_of(kShells, file_name_of(interpreter->path).c_str()) ||
        !inner->before.empty()) {  // execve finds the interpreter itself
      facts.kind = ProgramKind::kStarter;
      return facts;
    }
    inner->before = words;
    return inner;
  }
  const auto elf = launching::read_elf(path);
  if (!elf) return elf.error();
  if (elf->interpreter.empty())
    return Error{path +
                 ": is statically linked, and a static program has no libraries to stand between; link it "
                 "dynamically"};
  if (const std::string why = why_no_place(*elf); !why.empty()) return Error{"{}: {}", path, why};
  facts.sanitizer = sanitizer_of(*elf);
  if (facts.sanitizer == "ThreadSanitizer" || facts.sanitizer == "MemorySanitizer") {
    facts.kind = ProgramKind::kNative;
    facts.why =
        formatted("it was built with {}, which wants the addresses that CropDL needs", facts.sanitizer);
  }
  const auto linked = mpi_of(*elf, path);
  if (!linked) return linked.error();
  if (!linked->empty())
    facts.mpi = *linked;
  else if (may_load_mpi(*elf))
    facts.mpi = default_mpi();
  return facts;
}

std::string own_directory() {
  const std::string self = link_text("/proc/self/exe");
  return self.substr(0, self.rfind('/'));
}

Result<std::string> library_directory() {
  const std::string bin = own_directory();
  for (const char* candidate :
       {"/../lib", "/../lib/x86_64-linux-gnu/cropdl", "/../lib/cropdl", "/../lib64/cropdl"})
    if (access((bin + candidate + "/cropdl-core.so").c_str(), R_OK) == 0)
      return resolved_or_same(bin + candidate);
  return Error{"its libraries are not beside it (lib/cropdl-core.so); install CropDL again"};
}

std::string without_entrance(const std::string& list) {
  constexpr const char* kEntrance = "libcropdl.so";
  if (list.find(kEntrance) == list.npos) return list;
  std::string out;
  for (const std::string& file : words_of_preload(list))
    if (file_name_of(file) != kEntrance) out += (out.empty() ? "" : ":") + file;
  return out;
}

Error become(const std::string& path, std::vector<std::string> words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (auto& w : words) pointers.push_back(w.data());
  pointers.push_back(nullptr);
  execv(path.c_str(), pointers.data());
  return {"{}: cannot run it: {}", path, errno_text(errno)};
}

// The launcher's MPI takes precedence over the MPI that the program is linked with: the shims translate.
Error become_lower_half(const launching::Boot& boot, const std::string& launcher_flavour,
                        const std::string& mpi, std::vector<std::string> words) {
  const std::string flavour = launcher_flavour != "none" ? launcher_flavour : mpi;
  unsetenv("LD_PRELOAD");  // the program's, not the lower half's
  setenv(launching::kBootVariable, launching::boot_text(boot).c_str(), 1);
  Error error = become(own_directory() + "/cropdl-lower-" + flavour, std::move(words));
  if (flavour != "none") error.message += " (was CropDL built with this MPI?)";
  return error;
}

}  // namespace cropdl::entry

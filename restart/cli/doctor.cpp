// `cropdl doctor`: finds what would prevent checkpoints of a program on this machine, or make them slow,
// before the program runs. Does not run the program. Writes one file into the store's place and removes it.
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/file.h"
#include "coord/interval_policy.h"
#include "interpose/entry/program.h"
#include "restart/cli/commands.h"
#include "restart/files/descriptors.h"
#include "restart/process/machine.h"

namespace cropdl::cli {
namespace {

using nlohmann::json;

enum class Verdict { kOk, kSlow, kPrevents };
using enum Verdict;

const char* verdict_name(Verdict verdict) {
  return verdict == kOk ? "ok" : verdict == kSlow ? "slow" : "prevents";
}

struct Finding {
  Verdict verdict;
  std::string about;
  std::string text;
};
using Findings = std::vector<Finding>;

void add(Findings& found, const char* about, bool good, const std::string& what, Verdict otherwise,
         const std::string& why) {
  found.push_back({good ? kOk : otherwise, about, good ? what : why});
}

// --- The program

void examine_mpi(const entry::ProgramFacts& facts, Findings& found) {
  const std::string lower = entry::own_directory() + "/cropdl-lower-" + facts.mpi;
  add(found, "MPI", ::access(lower.c_str(), X_OK) == 0,
      facts.mpi == "none" ? "the program is linked with none" : facts.mpi, kPrevents,
      formatted("the program is for {}, and CropDL was built without it", facts.mpi));
}

// Returns the path by which a store knows the program; "" if it is not saved, or is a script.
std::string examine_program(const std::string& name, Findings& found) {
  const auto say = [&](Verdict verdict, std::string text) {
    found.push_back({verdict, "program", std::move(text)});
    return "";
  };
  const Result<entry::FoundProgram> found_program = entry::find_program(name);
  if (!found_program) return say(kPrevents, found_program.error().message);
  const Result<entry::ProgramFacts> facts = entry::inspect_program(found_program->path);
  if (!facts) return say(kPrevents, facts.error().message);
  if (facts->kind == entry::ProgramKind::kNative)
    return say(kPrevents, formatted("{} would run unprotected: {}", facts->path, facts->why));
  if (facts->kind == entry::ProgramKind::kStarter)
    return say(kOk, formatted("{} itself is not saved, an MPI program that it starts is: ask about that one",
                              facts->path));
  if (!facts->sanitizer.empty())
    return say(kPrevents,
               formatted("{} was built with {}: it starts, and is not saved", facts->path, facts->sanitizer));
  say(kOk, facts->path);
  examine_mpi(*facts, found);
  return facts->before.empty() ? facts->path : "";
}

// --- The machine

void examine_kernel(Findings& found) {
  add(found, "CPU", process::has_fsgsbase(), "FSGSBASE", kSlow,
      "no FSGSBASE (a CPU that has it and Linux >= 5.9): where threads have no segments either, each call of "
      "MPI or CUDA takes two system calls");
  uint32_t action = SECCOMP_RET_TRAP;
  const bool filters = ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
  add(found, "seccomp", filters, "filters can be set", kPrevents,
      "filters: " + errno_text(errno) + " (containers may forbid it)");
  char table[64];
  const bool segments = ::syscall(SYS_modify_ldt, 0, table, sizeof table) >= 0;  // reads the table
  add(found, "modify_ldt", segments, "threads can have segments", kSlow,
      errno_text(errno) + ": each call of MPI or CUDA takes longer");
  const bool flags = kernel_text("/proc/self/smaps").find("\nVmFlags:") != std::string::npos;
  add(found, "/proc", flags, "tells the flags of mappings", kPrevents,
      "/proc/self/smaps does not tell the flags of mappings (VmFlags)");
}

// Examines hard limits; CropDL raises soft limits itself.
void examine_limits(Findings& found) {
  constexpr rlim_t kNoImage = 16 << 20, kSmallImages = 1 << 30;
  constexpr rlim_t kOpenFiles = files::kOwnDescriptors + 16;  // and a few for the program
  rlimit sizes{}, files{};
  const bool known = ::getrlimit(RLIMIT_FSIZE, &sizes) == 0 && ::getrlimit(RLIMIT_NOFILE, &files) == 0;
  if (known && sizes.rlim_max < kSmallImages)
    found.push_back({sizes.rlim_max < kNoImage ? kPrevents : kOk, "limits",
                     formatted("no file may be larger than {}, and a rank's image is one (ulimit -Hf)",
                               amount(sizes.rlim_max))});
  if (known && files.rlim_max < kOpenFiles)
    found.push_back({kPrevents, "limits",
                     formatted("only {} files may be open, and a restart needs {} (ulimit -Hn)",
                               files.rlim_max, kOpenFiles)});
  if (known && sizes.rlim_max >= kSmallImages && files.rlim_max >= kOpenFiles)
    found.push_back({kOk, "limits", "file sizes, open files"});
}

// CropDL's own in a rank: its agent; rank 0's that holds the store's lock; one that writes the image, in
// whose place the main thread writes it more slowly.
constexpr size_t kNeededThreads = 2, kOwnThreads = 3;

// Tries it: limits of the user (not of root), of the container and of the machine count.
void examine_threads(Findings& found) {
  std::mutex until_all_are_there;
  std::vector<std::thread> threads;
  std::string why;
  {
    const std::lock_guard lock(until_all_are_there);
    try {
      while (threads.size() < kOwnThreads)
        threads.emplace_back([&] { const std::lock_guard wait(until_all_are_there); });
    } catch (const std::system_error& error) {
      why = errno_text(error.code().value());
    }
  }
  for (std::thread& thread : threads) thread.join();
  add(found, "threads", why.empty(), formatted("{} more can be started", kOwnThreads),
      threads.size() < kNeededThreads ? kPrevents : kSlow,
      formatted(
          "only {} more can be started, and a rank needs {} for CropDL: {} (ulimit -Hu, or the container's "
          "limit)",
          threads.size(), kOwnThreads, why));
}

// A restart begins in the directory in which the program was.
void examine_directory(Findings& found) {
  char name[4096];
  const bool is_there = ::getcwd(name, sizeof name) != nullptr && ::access(name, X_OK) == 0;
  const std::string why = is_there ? "" : errno_text(errno);
  add(found, "directory", is_there, is_there ? name : "", kPrevents,
      formatted("the present one cannot be entered by its name, as a restart would: {}", why));
}

// --- The store

// Returns "" if the existing directory can be the program's store, else why not. `program` is its path, "" if
// not known. Arguments are compared only if there are any.
std::string not_usable(const std::string& directory, const std::string& program,
                       const std::vector<std::string>& command, Findings& found) {
  const Result<bool> is_store = restart::check_directory(directory);
  if (!is_store) return is_store.error().message;
  if (!*is_store) return "";
  const auto identity = restart::identity_of(directory);
  if (!identity) return identity.error().message;
  const Result<restart::StoreReader> store = restart::StoreReader::open(directory);
  if (!store) return store.error().message;
  const auto job = store->live_job();
  if (!job) return job.error().message;
  if (job->pid != 0)
    return formatted("{}: is used by a running job (pid {} on {})", directory, job->pid, job->host);
  const Result<std::vector<restart::Version>> versions = store->all_versions();
  if (!versions) return versions.error().message;
  const std::vector<std::string> arguments(command.begin() + 1, command.end());
  const auto is_others = [&](const restart::StoreIdentity& job) {
    return !program.empty() && (job.program != program || (command.size() > 1 && job.args != arguments));
  };
  if (*identity && !versions->empty() && is_others(**identity))
    return restart::of_another_job(directory, **identity).message;
  size_t complete = 0;
  for (const restart::Version& version : *versions) {
    if (!version.damage.empty()) continue;
    ++complete;
    if (const auto its = restart::identity_of(version.manifest); is_others(its))
      return restart::of_another_job(directory, its).message;
  }
  found.push_back({kOk, "store", formatted("{} has {} complete versions", directory, complete)});
  return "";
}

// Returns bytes per second.
Result<double> write_speed(const std::string& directory, uint64_t bytes) {
  // No soft limit on file sizes applies to images (restart/process/raised_limit.h); a hard one is an error.
  ::signal(SIGXFSZ, SIG_IGN);
  if (rlimit limit{}; ::getrlimit(RLIMIT_FSIZE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  return restart::measure_disk(directory, bytes);
}

void examine_disk(const std::string& directory, Findings& found) {
  constexpr uint64_t kWritten = 64 << 20, kLittle = 1 << 30;
  constexpr double kSlowDisk = 200e6;  // bytes per second: 5 s for a GB
  struct statvfs disk;
  if (::statvfs(directory.c_str(), &disk) != 0)
    return found.push_back({kPrevents, "disk", formatted("{}: {}", directory, errno_text(errno))});
  const uint64_t room = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (room < kWritten)
    return found.push_back({kPrevents, "disk", formatted("{}: only {} are free", directory, amount(room))});
  const Result<double> speed = write_speed(directory, kWritten);
  if (!speed)
    return found.push_back(
        {kPrevents, "disk", formatted("{}: cannot be written: {}", directory, speed.error().message)});
  const double cost = 1e9 / *speed;
  found.push_back({*speed < kSlowDisk ? kSlow : kOk, "disk",
                   formatted("{}: {} a second, so {:.1f} s for 1 GB of the job's memory, which allows a "
                             "version every {} (--max-overhead); {} are free{}",
                             directory, amount(static_cast<uint64_t>(*speed)), cost,
                             in_words(coord::IntervalPolicy({}, 0, cost).interval()), amount(room),
                             room < kLittle ? ", which is little" : "")});
}

void examine_store(const std::string& directory, const std::string& program,
                   const std::vector<std::string>& command, Findings& found) {
  struct stat info;
  const bool there = ::stat(directory.c_str(), &info) == 0;
  std::string place = directory;
  if (!there) {
    int why = errno;
    place = folder_of(directory);
    if (why == ENOENT && ::lstat(directory.c_str(), &info) == 0)
      return found.push_back({kPrevents, "store", directory + ": is a link to nothing"});
    if (why == ENOENT && !directory.empty())
      why = ::access(place.c_str(), R_OK | W_OK | X_OK) == 0 ? 0 : errno;
    if (why != 0)
      return found.push_back(
          {kPrevents, "store", formatted("{}: cannot be made: {}", directory, errno_text(why))});
    found.push_back({kOk, "store", directory + " can be made"});
  } else if (const std::string why = not_usable(directory, program, command, found); !why.empty()) {
    return found.push_back({kPrevents, "store", why});
  }
  examine_disk(place, found);
}

}  // namespace

int doctor(const std::vector<std::string>& command, const std::string& directory, bool json_wanted) {
  Findings found;
  const std::string program = examine_program(command.front(), found);
  examine_kernel(found);
  examine_limits(found);
  examine_threads(found);
  examine_directory(found);
  examine_store(directory, program, command, found);
  const auto bad = std::ranges::find(found, kPrevents, &Finding::verdict);
  const bool good = bad == found.end();
  if (json_wanted) {
    const auto as_json = [](const Finding& one) -> json {
      return {{"verdict", verdict_name(one.verdict)}, {"about", one.about}, {"text", json_bytes(one.text)}};
    };
    print(json{{"findings", json_list(found, as_json)}, {"error", good ? json() : json(bad->text)}});
  } else {
    for (const Finding& one : found) print("{:<9} {:<11} {}", verdict_name(one.verdict), one.about, one.text);
  }
  return good ? kDone : kFailed;
}

}  // namespace cropdl::cli

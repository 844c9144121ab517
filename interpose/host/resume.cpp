// A program goes on from an image: the newest version that every rank finds whole.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/file.h"
#include "base/format.h"
#include "base/say.h"
#include "coord/link.h"
#include "interpose/host/address_reservation.h"
#include "interpose/host/process.h"
#include "interpose/host/tls_block_pool.h"
#include "interpose/host/window.h"
#include "interpose/upper/raw.h"
#include "restart/files/reopen_files.h"
#include "restart/image.h"
#include "restart/memory/memory_map.h"
#include "restart/process/machine.h"
#include "restart/process/process_ids.h"
#include "restart/session/metadata.h"

namespace cropdl::host {
namespace {

// What a rank says of a version: it is usable, damaged (an older one may do), or nothing here can be
// restarted.
constexpr const char* kFine = "fine";
constexpr char kDamaged = 'D', kRefused = 'R';

// A version, and what this rank's image of it says.
struct Candidate {
  restart::Version version;
  session::Metadata metadata;
  std::string damage;  // or why there is no metadata
};

// "" or why the libraries of this process are not enough for the program.
std::string missing_library(const Process& p, const session::Metadata& m) {
  for (const session::SavedLibrary& saved : m.libraries) {
    const auto here = p.libraries.table(saved.number);
    if (!here && saved.number == seam::kLibraryMpi)
      return "the program needs an MPI; start cropdl-restart with mpirun";
    if (!here)
      return formatted("the program needs {}, which this lower half does not have", saved.implementation);
    if (saved.functions > here->functions)
      return formatted(
          "the image was written by a newer CropDL (its {} has {} functions, this one's {}); restart it "
          "with that one",
          saved.implementation, saved.functions, here->functions);
    if (saved.implementation != here->name && !saved.only_functions.empty())
      return formatted("the program uses {}, which only {} has; restart it under that one",
                       saved.only_functions.front(), saved.implementation);
  }
  return "";
}

// The program's stack must be able to grow as far as before. "" or why it cannot.
std::string small_stack(const session::Metadata& m) {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= m.stack_limit) return "";
  const rlimit as_before = {m.stack_limit, std::max<rlim_t>(limit.rlim_max, m.stack_limit)};
  if (setrlimit(RLIMIT_STACK, &as_before) == 0) return "";
  return formatted("the program's stack may not grow here as far as before; raise the limit (ulimit -Hs {})",
                   m.stack_limit == RLIM_INFINITY ? "unlimited" : std::to_string(m.stack_limit / 1024));
}

// "" or which library had more, or fewer, recipes when the image was written.
std::string lost_recipes(const Process& p, const session::Metadata& m) {
  for (const session::SavedLibrary& saved : m.libraries)
    if (libraries::Library* here = p.libraries.by_number(saved.number);
        here && here->recipes() != saved.recipes)
      return formatted(
          "cannot restart: {} has {} recipes of what it made for the program, and had {} when the image was "
          "written",
          here->implementation(), here->recipes(), saved.recipes);
  return "";
}

// Refuses for reasons that no older version would heal.
std::string why_not_here(const Process& p, const session::Metadata& m) {
  if (m.ranks != p.launch.ranks)
    return formatted("the version has {} ranks, but {} were started; use mpirun -n {}", m.ranks,
                     p.launch.ranks, m.ranks);
  if (m.rank != p.launch.rank) return formatted("its image is of rank {}", m.rank);
  if (auto missing = process::missing_features(m.cpu_features); !missing.empty())
    return formatted("this CPU lacks {}, which the program was started with", missing.front());
  if (auto line = process::vector_state_refusal(m.vector_state); !line.empty()) return line;
  if (auto line = missing_library(p, m); !line.empty()) return line;
  return small_stack(m);
}

// Each image's metadata is read once, and the image not kept open: descriptors are still to be arranged.
std::vector<Candidate> read_candidates(const Process& p, std::vector<restart::Version> versions) {
  std::vector<Candidate> all;
  for (auto& version : versions) {
    if (p.boot.version != 0 && version.number != p.boot.version) continue;
    Candidate& c = all.emplace_back(Candidate{std::move(version), {}, {}});
    c.damage = c.version.damage;
    if (!c.damage.empty() || c.version.manifest.seam > seam::kSeamVersion ||
        c.version.manifest.seam < seam::kOldestSeam || c.version.manifest.ranks != p.launch.ranks)
      continue;  // load() says it
    const auto folder = c.version.folder();
    const auto image = folder ? restart::ImageReader::open(*folder, restart::image_name(p.launch.rank))
                              : Result<restart::ImageReader>(folder.error());
    auto metadata = image ? session::parse_metadata(image->metadata(), image->path())
                          : Result<session::Metadata>(image.error());
    if (metadata)
      c.metadata = std::move(*metadata);
    else
      c.damage = metadata.error().message;
  }
  return all;
}

std::string load(Process& p, const Candidate& candidate, files::FilesPolicy policy,
                 std::unique_ptr<restart::ImageReader>* loaded) {
  const restart::Version& version = candidate.version;
  const session::Metadata& metadata = candidate.metadata;
  if (!version.damage.empty()) return (version.not_mine ? kRefused : kDamaged) + version.damage;
  if (version.manifest.ranks != p.launch.ranks)
    return kRefused +
           (formatted("version {} has {} ranks, but {} were started; use mpirun -n {}", version.number,
                      version.manifest.ranks, p.launch.ranks, version.manifest.ranks));
  if (version.manifest.seam > seam::kSeamVersion)
    return kRefused + (formatted("version {} was written by a newer CropDL (seam {}, this one knows {}); "
                                 "restart it with that one",
                                 version.number, version.manifest.seam, seam::kSeamVersion));
  if (version.manifest.seam < seam::kOldestSeam)
    return kRefused + (formatted("version {} was written by an older CropDL (seam {}, this one needs at "
                                 "least {}); restart it with that one",
                                 version.number, version.manifest.seam, seam::kOldestSeam));
  if (!candidate.damage.empty()) return kDamaged + candidate.damage;
  const auto folder = version.folder();
  if (!folder) return kDamaged + folder.error().message;
  auto image = restart::ImageReader::open(*folder, restart::image_name(p.launch.rank));
  if (!image) return kDamaged + image.error().message;
  if (image->totals().checksum != version.manifest.images[p.launch.rank].checksum)
    return formatted("{}{}: is not the image that the manifest names", kDamaged, image->path());
  if (auto line = why_not_here(p, metadata); !line.empty()) return kRefused + line;
  const files::SavedFiles saved{metadata.files, metadata.contents, *folder, policy};
  // A file that is gone may not have been open when an older version was taken.
  if (const files::FileVerdict v = files::check_files(saved); v.kind != files::FileVerdict::kFine)
    return (v.kind == files::FileVerdict::kRefused ||
                    (v.kind == files::FileVerdict::kMissing && policy == files::FilesPolicy::kFail)
                ? kRefused
                : kDamaged) +
           v.line;
  if (auto s = host_memory::map_memory(*image, metadata.memory); !s) return kRefused + s.error().message;
  if (auto s = host_memory::load_memory(*image, metadata.memory); !s) return kDamaged + s.error().message;
  // An older version most likely names the same file: nothing is lost before somebody has looked.
  if (auto s = host_memory::load_references(*image, metadata.memory, policy == files::FilesPolicy::kKeep); !s)
    return kRefused + s.error().message;
  *loaded = std::make_unique<restart::ImageReader>(std::move(*image));
  return formatted("{}, version {}", kFine, version.number);
}

constexpr unsigned kLauncherEndsAll = 3;  // seconds within which a launcher has ended all when one has ended
constexpr unsigned kSurelyEndedAll = 10;  // likewise, on a machine that is busy

// For what every rank finds out by itself: rank 0 says it, and the others stay until the launcher ends them,
// because it ends rank 0, and its line, as soon as any other exits. One that nobody has ended was alone with
// it.
[[noreturn]] void die_together(const Process& p, const std::string& line) {
  if (p.launch.rank == 0) {
    say("cropdl-restart: " + line);
  } else if (p.agent) {  // the ranks have agreed on it
    sleep(kLauncherEndsAll);
  } else {
    sleep(kSurelyEndedAll);
    say(formatted("cropdl-restart: rank {}: {}", p.launch.rank, line));
  }
  _exit(1);
}

// A rank has died, or did not come. Rank 0 says so; that it is gone itself may be because it has just said
// so, or its launcher says it: only where none ends the others the next one does.
[[noreturn]] void die_of_loss(const Process& p, const std::string& why) {
  const std::string line = "the ranks of this restart did not find each other: " + why;
  if (why.starts_with("rank " + std::to_string(p.launch.rank) + ": ")) die(line);
  if (why != coord::kHubIsGone) die_together(p, line);
  sleep(kLauncherEndsAll);
  if (p.launch.rank == 1) say("cropdl-restart: " + line);
  _exit(1);
}

// All ranks' verdicts; "" if all are fine in the same way, else the first other one.
std::string agree(Process& p, const std::string& mine) {
  auto all = p.agent->exchange(mine);
  if (!all) die_of_loss(p, all.error().message);
  for (size_t r = 0; r < all->size(); ++r)
    if (!(*all)[r].starts_with(kFine))
      return formatted("{}rank {}: {}", (*all)[r].substr(0, 1), r, (*all)[r].substr(1));
  for (size_t r = 1; r < all->size(); ++r)
    if ((*all)[r] != all->front())
      return kRefused + formatted(
                            "{} changed while the ranks read it (rank 0 is {}, rank {} is {}); start "
                            "the restart again",
                            p.boot.directory, all->front(), r, (*all)[r]);
  return "";
}

// What the ranks have to say, as one line.
std::string gather(Process& p, const std::string& mine) {
  const auto all = p.agent->exchange(mine);
  if (!all) die_of_loss(p, all.error().message);
  std::string line;
  for (size_t r = 0; r < all->size(); ++r)
    if (!(*all)[r].empty())
      line += (line.empty() ? "" : "; ") + (all->size() > 1 ? formatted("rank {}: ", r) : "") + (*all)[r];
  return line;
}

// With what all ranks have to tell. Another rank may already wait for this one where nothing ends its wait.
void finish(Process& p, libraries::Library& library) {
  const std::string mine = library.told_at_restart();
  if (!mine.empty()) p.agent->note_phase("joining");
  const auto told = p.agent->exchange(mine);
  if (!told) die_of_loss(p, told.error().message);
  if (auto s = library.finish_restart(*told); !s) die("cropdl-restart: " + s.error().message);
}

void say_once(const Process& p, const std::string& line) {
  if (p.launch.rank == 0) say("cropdl-restart: " + line);
}

// Versions are taken when they were before, and as many stay, unless the user says otherwise now.
void go_on_as_before(Process& p, const std::vector<Candidate>& candidates) {
  const auto whole =
      std::find_if(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.damage.empty(); });
  const bool is_known = whole != candidates.end();
  p.schedule = launching::wanted_schedule(p.boot, is_known ? whole->metadata.schedule : coord::Schedule());
  if (p.keep.empty() && is_known) p.keep = whole->metadata.keep;
}

// The highest descriptor that the program has in any version that may be taken.
int highest_descriptor(const std::vector<Candidate>& candidates) {
  int highest = 2;
  for (const Candidate& c : candidates)
    for (const files::OpenFile& f : c.metadata.files) highest = std::max(highest, f.fd);
  return highest;
}

// "" or why the program would not find the barriers that it has registered for (man 2 membarrier).
std::string register_for_membarriers(uint32_t commands) {
  for (uint32_t command = 1; command != 0; command <<= 1)
    if ((commands & command) != 0 && syscall(SYS_membarrier, command, 0, 0) != 0)
      return formatted(
          "the program had registered for barriers (membarrier, command {}), which this kernel does not do: "
          "{}",
          command, errno_text(errno));
  return "";
}

// Returns what went wrong, or "".
std::string restore_process(const session::Metadata& m) {
  umask(m.umask);
  prctl(PR_SET_NAME, m.name.c_str());
  auto* state = seam::state();
  process::take_place_of_ids();
  process::continue_clocks(m.clocks);
  // None was there at the cut; on this machine, or boot, their numbers are other people's.
  state->segments.entries = state->system_v.semaphores = state->system_v.queues = 0;
  if (auto line = register_for_membarriers(state->membarriers); !line.empty()) return line;
  auto& main = state->threads[0];
  main.tid = static_cast<int32_t>(syscall(SYS_gettid));
  if (main.clear_tid != 0) syscall(SYS_set_tid_address, main.clear_tid);
  if (main.robust_list != 0) syscall(SYS_set_robust_list, main.robust_list, main.robust_size);
  for (auto& record : state->threads) {
    record.asked = 0;
    record.parked = 0;
    record.task = nullptr;
    if (&record != &main) record.lower_fs = record.lower_sp = 0;
  }
  // Signals that were pending, blocked by the program. All are blocked here, and in the threads that are
  // made, until a frame's mask takes over: not by sigfillset(), which leaves out 32 and 33, and with 32 the
  // program's C library cancels threads.
  const uint64_t all = ~0ull;
  upper::raw(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&all), 0, 8);
  if (const Status queued = program_threads::queue_again(m.pending_signals); !queued)
    return queued.error().message;
  const Status threads = program_threads::try_threads(m.threads);
  return threads ? "" : threads.error().message;
}

}  // namespace

void restart_program(Process& p) {
  // What is in it will run: cropdl-restart has looked whose it is, and what is opened here may be another
  // one.
  auto reader = restart::StoreReader::open(p.boot.directory, Folder::Whose::kMine);
  if (!reader) die_together(p, reader.error().message);
  const auto policy = files::files_policy(p.boot.files);
  if (!policy) die_together(p, policy.error().message);
  std::vector<Candidate> candidates = read_candidates(p, reader->all_versions());
  if (candidates.empty())
    die_together(p,
                 p.boot.directory + (p.boot.version == 0 ? ": holds no version to restart from"
                                                         : formatted(": has no version {}", p.boot.version)));
  const auto newest = std::find_if(candidates.begin(), candidates.end(), [](const Candidate& c) {
    return c.version.damage.empty() || c.version.not_mine;
  });
  if (newest != candidates.end() && newest->version.not_mine)
    die_together(p,
                 formatted("version {} cannot be used: {}", newest->version.number, newest->version.damage));
  if (newest == candidates.end())
    die_together(p, formatted("{}: no version is whole: {}", p.boot.directory, candidates.front().damage));
  const restart::Manifest known = newest->version.manifest;
  if (known.ranks != p.launch.ranks)
    die_together(p, formatted("the versions in {} have {} ranks, but {} were started; use mpirun -n {}",
                              p.boot.directory, known.ranks, p.launch.ranks, known.ranks));
  p.program = known.program;
  p.arguments = known.args;
  if (auto s = settle_addresses(p, newest->version); !s) die(s.error().message);

  std::vector<int> given = p.inherited.programs;
  given.insert(given.end(), p.inherited.launchers.begin(), p.inherited.launchers.end());
  const int highest = highest_descriptor(candidates);
  if (auto s = files::make_room_for(highest, given, reader->descriptor()); !s) die(s.error().message);

  go_on_as_before(p, candidates);
  if (p.launch.rank == 0) {
    const restart::StoreIdentity identity{known.job, known.program, known.args, known.ranks};
    if (auto s = open_versions(p, identity); !s) die(s.error().message);
  }
  fill_control_page(p);
  p.former_cost = known.stall_seconds;
  if (auto s = start_tls_block_pool(); !s) die(s.error().message);
  if (auto s = start_agent(p); !s) die(s.error().message);
  p.agent->note_phase("restarting");
  // The job that was killed may have ended only now, and have published a version meanwhile. Where rank 0
  // comes to this it has the store: nobody else writes there any more, and all ranks read the same.
  std::string verdict = agree(p, kFine);
  if (!verdict.empty()) die_together(p, verdict.substr(1));
  candidates = read_candidates(p, reader->all_versions());
  const std::string more =
      p.boot.directory +
      ": the killed job took another version while it ended, with more files open; start "
      "the restart again";
  verdict = agree(p, highest_descriptor(candidates) > highest ? kRefused + more : kFine);
  if (!verdict.empty()) die_together(p, verdict.substr(1));

  std::unique_ptr<restart::ImageReader> image;
  const Candidate* chosen = nullptr;
  for (const Candidate& candidate : candidates) {
    verdict = agree(p, load(p, candidate, *policy, &image));
    if (verdict.empty()) {
      chosen = &candidate;
      break;
    }
    if (image)
      host_memory::unmap_memory(*image), image.reset();
    else
      host_memory::release_addresses();
    if (verdict[0] == kRefused) die_together(p, verdict.substr(1));
    say_once(p, formatted("version {} cannot be used: {}", candidate.version.number, verdict.substr(1)));
  }
  if (chosen == nullptr) die_together(p, formatted("no version in {} could be loaded", p.boot.directory));
  if (p.versions) p.versions->set_parent(chosen->version.number);

  const session::Metadata& m = chosen->metadata;
  auto folder = chosen->version.folder();
  if (!folder) die(folder.error().message);
  const files::SavedFiles saved{m.files, m.contents, *folder, *policy};
  if (p.boot.save_files == 0) p.boot.save_files = m.save_files;
  p.boot.by_reference = m.by_reference;
  p.boot.software_gpu = m.software_gpu;
  p.boot.software_gpus = m.software_gpus;
  choose_stand_ins(p.boot);
  launching::set_software_devices(&p.boot);
  p.libraries.prepare(p.boot);
  std::string trouble;
  if (m.software_gpu && launching::software_gpu_directory(p.boot.installation).empty())
    trouble = "the job ran on the software GPU, and here it is not installed";
  if (trouble.empty() && chdir(m.cwd.c_str()) != 0)
    trouble = formatted("the program's directory {} is gone", m.cwd);
  if (trouble.empty())
    if (auto s = files::place_files(saved); !s) trouble = s.error().message;
  std::string note;
  if (trouble.empty())
    if (auto s = host_memory::finish_memory(*image, m.memory, *policy == files::FilesPolicy::kKeep, &note);
        !s)
      trouble = s.error().message;
  if (std::string line = restore_process(m); trouble.empty()) trouble = line;
  verdict = agree(p, trouble.empty() ? kFine : kRefused + trouble);
  if (!verdict.empty()) die_together(p, verdict.substr(1));
  if (auto s = p.libraries.restart(); !s) trouble = s.error().message;
  if (trouble.empty()) trouble = lost_recipes(p, m);
  if (trouble.empty())
    if (auto s = p.libraries.load_contents(*image); !s) trouble = s.error().message;
  image.reset();  // its version will be removed some day, and an open file would keep the disk's space
  verdict = agree(p, trouble.empty() ? kFine : kRefused + trouble);
  if (!verdict.empty()) die_together(p, verdict.substr(1));
  for (libraries::Library* library : p.libraries.all()) finish(p, *library);
  // Last: from here on this process has no more rights than the program had.
  if (trouble.empty())
    if (auto s = process::restore_attributes(m.attributes); !s) trouble = s.error().message;
  verdict = agree(p, trouble.empty() ? kFine : kRefused + trouble);
  if (!verdict.empty()) die_together(p, verdict.substr(1));

  // Only now, with all ranks and the MPI there, the world outside is changed.
  std::string done;
  if (auto s = files::apply_files(saved, &done); !s) trouble = s.error().message;
  files::keep_input_from_waiting(saved.files);
  folder->descriptor().close(), reader->descriptor().close();  // as the image's
  verdict = agree(p, trouble.empty() ? kFine : kRefused + trouble);
  if (!verdict.empty()) die_together(p, verdict.substr(1));
  const std::string what_was_done = gather(p, done);
  if (!p.boot.quiet && !what_was_done.empty()) say_once(p, what_was_done);
  for (const std::string& mine : {files::files_left_alone(saved), note})
    if (const std::string line = gather(p, mine); !line.empty()) say_once(p, line);
  if (!p.boot.quiet) say_once(p, formatted("continues from version {}", chosen->version.number));
  for (const session::SavedLibrary& saved : m.libraries) {
    const std::string here = p.libraries.table(saved.number)->name;
    if (saved.implementation != here)
      say_once(p, formatted("saved under {}, continued under {}: the state is the same bit for bit, but "
                            "floating-point reductions may now add in another order",
                            saved.implementation, here));
  }
  std::vector<boundaries::Call> iteration;
  for (const session::LoopCall& c : m.iteration) iteration.push_back({c.call, c.communicator, c.caller});
  p.rank->tracker().resume(m.iterations, std::move(iteration));
  continue_program(m.threads);
}

}  // namespace cropdl::host

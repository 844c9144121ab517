// A restart: the program continues from the newest version that every rank can load. RestoreSession::run()
// tells the way from the store to the program's first instruction. LH, MAIN.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "base/format.h"
#include "base/say.h"
#include "coord/interval_policy.h"
#include "interpose/host/process.h"
#include "interpose/host/restart_candidates.h"
#include "interpose/host/restart_ranks.h"
#include "restart/files/directories.h"
#include "restart/files/reopen_files.h"
#include "restart/process/machine.h"
#include "restart/process/process_ids.h"
#include "restart/process/raised_limit.h"
#include "restart/session/process_state.h"

namespace cropdl::host {
namespace {

// cropdl-restart has checked the owner of the store, but this open may find another one under its name.
restart::StoreReader open_store(const Process& p) {
  auto reader = restart::StoreReader::open(p.boot.directory, Folder::Whose::kMine);
  if (!reader) die_together(p, reader.error().message);
  return std::move(*reader);
}

files::FilesPolicy files_policy(const Process& p) {
  const auto policy = files::files_policy(p.boot.files);
  if (!policy) die_together(p, policy.error().message);
  return *policy;
}

// The highest descriptor that the program has in any of the versions, at least 2.
int highest_descriptor(const std::vector<Candidate>& candidates) {
  int highest = 2;
  for (const Candidate& c : candidates)
    for (const files::OpenFile& f : c.metadata.files) highest = std::max(highest, f.fd);
  return highest;
}

// The last step of a library's restart, with what the libraries of all ranks have to tell.
void finish_library(Process& p, libraries::Library& library) {
  const std::string mine = library.told_at_restart();
  if (!mine.empty()) p.agent->note_phase("joining");
  const std::vector<std::string> all = all_gather(p, mine);
  // die(), not die_together(): another rank may be inside a call that waits for this one without end.
  if (auto s = library.finish_restart(all); !s) die("cropdl-restart: " + s.error().message);
}

// Prints the line on rank 0.
void say_once(const Process& p, const std::string& line) {
  if (p.launch.rank == 0) say("cropdl-restart: " + line);
}

class RestoreSession {
 public:
  explicit RestoreSession(Process& p) : p_(p), reader_(open_store(p)), policy_(files_policy(p)) {}

  [[noreturn]] void run() {
    reserve_addresses_and_descriptors(read_versions());
    open_versions_for_writing();
    fill_control_page(p_);
    if (auto s = start_tls_block_pool(); !s) die(s.error().message);
    if (auto s = start_agent_of_restart(); !s) die(s.error().message);
    p_.agent->note_phase("restarting");
    read_versions_again();
    load_newest_version();
    prepare_libraries();
    process::know_other_ranks(all_gather(p_, process::told_ids()), p_.launch.rank);
    agree_or_die(p_, place_files_memory_and_process());
    agree_or_die(p_, restart_libraries());
    for (libraries::Library* library : p_.libraries.all()) finish_library(p_, *library);
    // From here on this process has no more rights than the program had.
    agree_or_die(p_, process::restore_attributes(metadata().attributes));
    // Files are changed last, when all ranks and the MPI are there.
    agree_or_die(p_, change_files());
    agree_or_die(p_, files::finish_files(saved_files(), reopening_));
    agree_or_die(p_, host_memory::finish_late_mappings(late_));
    report();
    resume_iterations();
    continue_program(metadata());
  }

 private:
  // Returns the newest whole version.
  const restart::Version& read_versions() {
    const auto versions = reader_.all_versions();
    if (!versions) die_together(p_, versions.error().message);
    candidates_ = read_candidates(p_, *versions);
    if (candidates_.empty())
      die_together(
          p_, p_.boot.directory + (p_.boot.version == 0 ? ": holds no version to restart from"
                                                        : formatted(": has no version {}", p_.boot.version)));
    const auto newest = std::find_if(candidates_.begin(), candidates_.end(), [](const Candidate& c) {
      return c.version.damage.empty() || c.version.not_mine;
    });
    if (newest != candidates_.end() && newest->version.not_mine)
      die_together(
          p_, formatted("version {} cannot be used: {}", newest->version.number, newest->version.damage));
    if (newest == candidates_.end())
      die_together(p_,
                   formatted("{}: no version is whole: {}", p_.boot.directory, candidates_.front().damage));
    known_ = newest->version.manifest;
    if (known_.ranks != p_.launch.ranks)
      die_together(p_, formatted("the versions in {} have {} ranks, but {} were started; use mpirun -n {}",
                                 p_.boot.directory, known_.ranks, p_.launch.ranks, known_.ranks));
    p_.program = known_.program;
    p_.arguments = known_.args;
    return newest->version;
  }

  void reserve_addresses_and_descriptors(const restart::Version& newest) {
    // Starts this process over by exec if its own memory lies on an address of the program.
    if (auto s = settle_addresses(p_, newest, reserved_); !s) die(s.error().message);
    std::vector<int> given = p_.inherited.programs;
    given.insert(given.end(), p_.inherited.launchers.begin(), p_.inherited.launchers.end());
    highest_ = highest_descriptor(candidates_);
    if (auto s = files::make_room_for(highest_, given, reader_.descriptor(), reopening_); !s)
      die(s.error().message);
  }

  // The schedule and the retention are those of the killed job, unless the user says otherwise now.
  void open_versions_for_writing() {
    const auto whole = std::find_if(candidates_.begin(), candidates_.end(),
                                    [](const Candidate& c) { return c.damage.empty(); });
    const bool is_known = whole != candidates_.end();
    p_.schedule =
        launching::wanted_schedule(p_.boot, is_known ? whole->metadata.schedule : coord::Schedule());
    if (p_.keep.empty() && is_known) p_.keep = whole->metadata.keep;
    if (p_.launch.rank != 0) return;
    if (auto s = open_versions(p_, restart::identity_of(known_)); !s) die(s.error().message);
  }

  // Of the last whole versions: a single slow one must not decide on this run's schedule.
  Status start_agent_of_restart() {
    // Versions may have been slow for a reason that is gone (a file server hung, the job was suspended). Such
    // a cost must not keep this run from versions: as much is plausible as a slow disk explains. A last
    // version counts on all of it.
    constexpr double kSlowDisk = 25e6, kLeast = 10;  // bytes/s, s
    std::vector<double> costs, plausible;
    for (const Candidate& c : candidates_) {
      const restart::Manifest& m = c.version.manifest;
      if (!c.version.damage.empty() || m.stall_seconds <= 0) continue;
      costs.push_back(m.stall_seconds);
      plausible.push_back(std::min(m.stall_seconds, kLeast + static_cast<double>(m.memory()) / kSlowDisk));
    }
    return start_agent(p_, coord::typical_cost(costs), coord::typical_cost(plausible));
  }

  // The killed job may have ended only now, and have published a version meanwhile. Rank 0 agrees with the
  // store's lock in its hands: nobody else writes there any more, and all ranks read the same.
  void read_versions_again() {
    agree_or_die(p_, {});
    const auto versions = reader_.all_versions();
    Status fits = versions ? Status() : Status(versions.error());
    candidates_ = read_candidates(p_, versions ? *versions : std::vector<restart::Version>());
    if (highest_descriptor(candidates_) > highest_)
      fits = Error{p_.boot.directory +
                   ": the killed job took another version while it ended, with more files open; start the "
                   "restart again"};
    agree_or_die(p_, fits);
  }

  void load_newest_version() {
    for (const Candidate& candidate : candidates_) {
      put_back_ = files_put_back(candidate);
      const std::string verdict =
          agree(p_, load_candidate(p_, candidate, policy_, put_back_, reserved_, &image_));
      if (verdict.empty()) {
        chosen_ = &candidate;
        break;
      }
      if (image_)
        host_memory::unmap_memory(*image_, reserved_), image_.reset();
      else
        reserved_.release();
      if (verdict[0] == kRefused) die_together(p_, verdict.substr(1));
      say_once(p_, formatted("version {} cannot be used: {}", candidate.version.number, verdict.substr(1)));
    }
    if (chosen_ == nullptr)
      die_together(p_, formatted("no version in {} could be loaded", p_.boot.directory));
    if (p_.versions) p_.versions->set_parent(chosen_->version.number);
    auto folder = chosen_->version.folder();
    if (!folder) die(folder.error().message);
    folder_ = std::move(*folder);
  }

  // A rank may have mapped, or append to, a file that another one has open for writing and puts back later.
  files::FilesPutBack files_put_back(const Candidate& candidate) {
    std::string mine;
    if (!keeps_files())
      for (const files::FileContent& c : candidate.metadata.contents)
        mine += formatted("{} {} {:d} {} {}", c.identity.device, c.identity.inode, !c.stored.empty(),
                          c.path.size(), c.path);
    files::FilesPutBack files;
    const std::string if_too_long = formatted(
        "version {} cannot be used: the names of the files that its ranks have open for writing are longer "
        "than 64 MiB together; go on with these files as they are (cropdl-restart --files=keep)",
        candidate.version.number);
    for (const std::string& ranks : all_gather(p_, mine, if_too_long)) {
      std::istringstream words(ranks);
      bool whole = false;
      for (uint64_t device, inode, length; words >> device >> inode >> whole >> length;) {
        std::string path(length, 0);
        words.ignore().read(path.data(), static_cast<std::streamsize>(length));
        files::PutBack& file = files[{device, inode}];
        if (whole && !file.whole) file = {true, {}};
        if (whole == file.whole) file.paths.insert(path);
      }
    }
    return files;
  }

  void prepare_libraries() {
    const session::Metadata& m = metadata();
    if (p_.boot.save_files == 0) p_.boot.save_files = m.save_files;
    p_.boot.by_reference = m.by_reference;
    p_.boot.compress = m.compress;
    p_.boot.software_gpu = m.software_gpu;
    p_.boot.software_nccl |= m.software_nccl;
    p_.processors = m.processors;
    choose_stand_ins(p_.boot);
    launching::set_software_devices(&p_.boot, m.software_gpus);
    p_.libraries.prepare(p_.boot);
  }

  // All that can be made without the libraries, and without a change of the contents of files.
  Status place_files_memory_and_process() {
    const session::Metadata& m = metadata();
    if (m.software_gpu && launching::software_gpu_directory(p_.boot.installation).empty())
      return Error{"the job ran on the software GPU, and here it is not installed"};
    if (p_.boot.software_nccl && launching::software_nccl_directory(p_.boot.installation).empty())
      return Error{"the job needs the software NCCL, and here it is not installed"};
    if (chdir(m.cwd.c_str()) != 0)
      return errno == ENOENT
                 ? Error{"the program's directory {} is gone", m.cwd}
                 : Error{"the program's directory {} cannot be entered: {}", m.cwd, errno_text(errno)};
    if (auto s = files::place_files(saved_files(), reopening_); !s) return s;
    // The program may have raised it itself, and is given its own limits later.
    const process::RaisedLimit locked_memory(RLIMIT_MEMLOCK, RLIM_INFINITY);
    if (auto s =
            host_memory::finish_memory(*image_, m.memory, keeps_files(), put_back_, &late_, &memory_note_);
        !s)
      return s;
    // Before the libraries start: their threads may run functions of the program.
    std::string narrowed;
    if (auto s = process::keep_to_processors_below(m.processors, &narrowed); !s) return s;
    if (m.attributes.count(process::kAffinity) == 0) processors_note_ = narrowed;
    return session::restore_process(m);
  }

  Status restart_libraries() {
    if (auto s = p_.libraries.restart(); !s) return s;
    for (const session::SavedLibrary& saved : metadata().libraries)
      if (libraries::Library* here = p_.libraries.by_number(saved.number);
          here && here->recipes() != saved.recipes)
        return Error{
            "cannot restart: {} has {} recipes of what it made for the program, and had {} when the "
            "image was written",
            here->implementation(), here->recipes(), saved.recipes};
    if (auto s = p_.libraries.load_contents(*image_); !s) return s;
    image_.reset();  // an open file would keep its space on the disk when the version is removed some day
    return {};
  }

  Status change_files() {
    Status changed = files::apply_files(saved_files(), reopening_, &files_note_);
    files::keep_input_from_waiting(metadata().files);
    folder_->descriptor().close(), reader_.descriptor().close();  // for the reason of image_
    return changed;
  }

  // Once for all ranks: what was changed, what was left as it is now, and from where the program continues.
  void report() {
    const std::string changed = gather(p_, files_note_);
    if (!p_.boot.quiet && !changed.empty()) say_once(p_, changed);
    const std::string elsewhere = files::directory_left_alone(-1, metadata().cwd, metadata().cwd_identity);
    for (const std::string& mine :
         {elsewhere, files::files_left_alone(saved_files()), memory_note_, processors_note_,
          process::line_of_more_features(metadata().cpu_features)})
      if (const std::string line = gather(p_, mine); !line.empty()) say_once(p_, line);
    if (!p_.boot.quiet) say_once(p_, formatted("continues from version {}", chosen_->version.number));
    for (const session::SavedLibrary& saved : metadata().libraries) {
      const std::string here = p_.libraries.table(saved.number)->name;
      if (saved.implementation != here)
        say_once(p_, formatted("saved under {}, continued under {}: the state is the same bit for bit, but "
                               "floating-point reductions may now add in another order",
                               saved.implementation, here));
    }
  }

  void resume_iterations() {
    std::vector<boundaries::Call> iteration;
    for (const session::LoopCall& c : metadata().iteration)
      iteration.push_back({c.call, c.communicator, c.caller, c.outer});
    p_.rank->tracker().resume(metadata().iterations, std::move(iteration));
  }

  bool keeps_files() const { return policy_ == files::FilesPolicy::kKeep; }
  const session::Metadata& metadata() const { return chosen_->metadata; }
  files::SavedFiles saved_files() const {
    return {metadata().files, metadata().contents, *folder_, policy_, put_back_};
  }

  Process& p_;
  restart::StoreReader reader_;
  const files::FilesPolicy policy_;
  std::vector<Candidate> candidates_;        // newest first
  restart::Manifest known_;                  // of the newest whole version: what all versions have in common
  host_memory::ReservedAddresses reserved_;  // of the newest version, until a version's memory is mapped
  int highest_ = 2;                          // descriptor of the program in any candidate
  const Candidate* chosen_ = nullptr;        // one of candidates_, from load_newest_version() on
  std::optional<Folder> folder_;             // its directory
  std::unique_ptr<restart::ImageReader> image_;  // this rank's, until its contents are loaded
  files::Reopening reopening_;
  files::FilesPutBack put_back_;                // of the chosen version
  std::vector<host_memory::LateMapping> late_;  // made when files are put back
  // For people: what was left, changed or narrowed.
  std::string memory_note_, files_note_, processors_note_;
};

}  // namespace

void restart_program(Process& p) { RestoreSession(p).run(); }

}  // namespace cropdl::host

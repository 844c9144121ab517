#include "restart/session/checkpoint_session.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "base/json.h"
#include "interpose/boundaries/token_ring.h"
#include "restart/files/directories.h"
#include "restart/image.h"
#include "restart/manifest.h"
#include "restart/process/attributes.h"
#include "restart/process/machine.h"
#include "restart/process/process_ids.h"
#include "restart/process/raised_limit.h"
#include "restart/threads/pending_signals.h"

namespace cropdl::session {
namespace {

// Records the program's directory, attributes and files.
Status look_at(const libraries::Libraries& libraries, Metadata& m) {
  char cwd[4096];
  if (getcwd(cwd, sizeof cwd) == nullptr)
    return Error{"the program's directory is gone: " + errno_text(errno)};
  m.cwd = cwd;
  auto identity = files::identify_file(-1, "");
  if (!identity) return Error{"the program's directory {}: {}", cwd, identity.error().message};
  m.cwd_identity = std::move(*identity);
  m.cwd_is_mount_root = files::is_mount_root("");
  if (Status s = process::changed_attributes().move_to(m.attributes); !s) return s;
  if (access(cwd, X_OK) != 0)
    return Error{"the program's directory {} cannot be entered by its name: {}", cwd, errno_text(errno)};
  return files::list_open_files(libraries.open_descriptors()).move_to(m.files);
}

// True if the version saves this file's contents: a restart may have to restore them first.
bool is_written(const host_memory::MappedFile& file, const std::vector<files::FileContent>& written) {
  return std::ranges::any_of(written, [&its = file.identity](const files::FileContent& content) {
    return files::is_same_file(content.identity, its) || files::is_same_inode(content.identity, its);
  });
}

}  // namespace

Status CheckpointSession::look() {
  Metadata seen;
  if (Status looked = look_at(job_.libraries, seen); !looked) return looked;
  if (Status s = program_threads::saved_threads().move_to(threads_); !s) return s;
  if (const auto state = process::vector_state_of_threads(); !state) return state.error();
  return host_memory::look_at_stopped_memory().move_to(memory_);
}

Status CheckpointSession::take_snapshot(const std::string& directory, const boundaries::Tracker& tracker,
                                        Metadata& m, host_memory::ProgramMemory& memory) {
  // Again: others ran after this rank had stopped, and may have written to shared files or sent signals.
  if (Status looked = look_at(job_.libraries, m); !looked) return looked;
  process::note_ids();
  m.rank = job_.launch.rank;
  m.ranks = job_.launch.ranks;
  m.program = job_.program;
  m.arguments = job_.arguments;
  char name[17] = {};
  prctl(PR_GET_NAME, name);
  m.name = name;
  m.umask = umask(0);
  umask(m.umask);
  if (rlimit stack{}; getrlimit(RLIMIT_STACK, &stack) == 0) m.stack_limit = stack.rlim_cur;
  m.schedule = job_.schedule;
  m.keep = job_.keep;
  m.iterations = tracker.place();
  for (const boundaries::Call& c : tracker.iteration())
    m.iteration.push_back(
        {c.call,
         job_.libraries.function_name(boundaries::library_of(c.call), boundaries::function_of(c.call)),
         c.identity, c.caller, c.outer});
  for (libraries::Library* l : job_.libraries.all())
    if (l->used())
      for (const libraries::Library::Table& t : l->seam_tables())
        m.libraries.push_back({t.number, t.functions, t.name, l->functions_of_this_implementation_only(),
                               t.number == l->number() ? l->recipes() : 0});
  m.cpu_features = process::cpu_features();
  m.processors = job_.processors;
  if (Status s = process::vector_state_of_threads().move_to(m.vector_state); !s) return s;
  // All signals are blocked while the program is stopped; its own mask is in the frame that it resumes from.
  m.pending_signals = program_threads::pending_signals(program_threads::blocked_everywhere());
  m.interval_timers = process::StoppedTimers::list();
  m.threads = std::move(threads_);
  if (Status read = program_threads::read_pending_signals(m.threads); !read) return read;
  m.clocks = process::read_clocks();
  m.save_files = job_.boot.save_files != 0 ? job_.boot.save_files : files::kSaveFilesDefault;
  // The program's file size limit, recorded by now, must not apply to its image and saved files.
  const process::RaisedLimit file_size(RLIMIT_FSIZE, RLIM_INFINITY);
  auto contents = files::save_contents(m.files, directory, job_.launch.rank, m.save_files);
  if (Status s = contents.move_to(m.contents); !s) return s;
  m.by_reference = job_.boot.by_reference;
  m.compress = job_.boot.compress;
  m.software_gpu = job_.boot.software_gpu;
  m.software_gpus = job_.boot.software_gpus;
  m.software_nccl = job_.boot.software_nccl;

  const auto may_leave = [&](const host_memory::MappedFile& file) { return !is_written(file, m.contents); };
  return host_memory::examine_memory(std::exchange(memory_, {}), may_leave).move_to(memory);
}

Result<restart::ImageTotals> CheckpointSession::persist(Metadata& m, host_memory::ProgramMemory& memory,
                                                        restart::ChunkSink& sink) {
  std::set<std::string> code;  // the files whose code the program runs: itself and its libraries
  for (const host_memory::RegionState& s : memory.state.regions)
    if (s.file && s.file->executable) code.insert(s.file->path);
  // Memory may reference a file instead of being saved if the program executes its code, no descriptor of the
  // program can write to it, and it is not part of CropDL's installation.
  const auto may_refer = [&](const host_memory::MappedFile& file) {
    return m.by_reference && !file.shared && file.identity.inode != 0 && code.count(file.path) != 0 &&
           !file.path.starts_with(job_.boot.installation + "/") && !is_written(file, m.contents);
  };
  if (Status cut = host_memory::cut_memory(memory, may_refer, sink); !cut) return cut.error();
  if (Status cut = job_.libraries.save_contents(sink); !cut) return cut.error();
  m.memory = std::move(memory.state);
  const std::string metadata = metadata_text(m);
  if (exceeds_json_limits(metadata))
    return Error{
        "the list of the program's mappings takes {} bytes, more than can be stored; map fewer, larger areas",
        metadata.size()};
  return sink.finish(metadata);
}

Result<coord::ImageSummary> CheckpointSession::save(const std::string& directory,
                                                    const boundaries::Tracker& tracker) {
  Metadata metadata;
  host_memory::ProgramMemory memory;
  if (Status taken = take_snapshot(directory, tracker, metadata, memory); !taken) return taken.error();
  // After the snapshot, which has the program's limit.
  const process::RaisedLimit file_size(RLIMIT_FSIZE, RLIM_INFINITY);
  uint64_t expected = job_.libraries.content_bytes();
  for (const restart::Region& r : memory.regions) expected += restart::bytes_of(r.present);
  const std::string file = restart::image_name(job_.launch.rank);
  auto sink = restart::ImageWriter::create(
      directory + "/" + file, seam::kSeamVersion, expected,
      process::allowed_processors() >= 2 * job_.launch.ranks,  // all ranks are on one node
      job_.boot.compress);
  if (!sink) return sink.error();
  const auto totals = persist(metadata, memory, *sink);
  if (!totals) return totals.error();
  return coord::ImageSummary{.file = file,
                             .bytes = totals->bytes,
                             .memory = totals->memory,
                             .checksum = totals->checksum,
                             .device_memory = totals->device_memory,
                             .devices = job_.libraries.devices(),
                             .iteration = metadata.iterations.iterations,
                             .sync_seconds = totals->sync_seconds};
}

}  // namespace cropdl::session

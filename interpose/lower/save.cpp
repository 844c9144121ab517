#include "interpose/lower/save.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "interpose/boundaries/token_ring.h"
#include "interpose/lower/attributes.h"
#include "interpose/lower/machine.h"
#include "interpose/lower/pending_signals.h"
#include "interpose/lower/process.h"
#include "interpose/lower/process_ids.h"
#include "interpose/lower/program_threads.h"
#include "interpose/lower/raised_limit.h"
#include "restart/image.h"

namespace cropdl::lower {
namespace {

struct LookedAt {
  std::string directory;
  AttributeValues attributes;
  std::vector<OpenFile> files;
};

Result<LookedAt> look() {
  LookedAt seen;
  char cwd[4096];
  if (getcwd(cwd, sizeof cwd) == nullptr)
    return Error{"the program's directory is gone: " + errno_text(errno)};
  seen.directory = cwd;
  auto attributes = changed_attributes();
  if (!attributes) return attributes.error();
  seen.attributes = std::move(*attributes);
  auto files = list_open_files(this_process().libraries.open_descriptors());
  if (!files) return files.error();
  seen.files = std::move(*files);
  return seen;
}

// Of this stop, since nothing but a signal comes to a thread that is parked; most of what a look costs.
std::vector<SavedThread> stopped_threads;

// A restart may have to put such a file back first.
bool is_written(const MappedFile& file, const std::vector<FileContent>& written) {
  for (const FileContent& content : written)
    if (is_same_file(content.identity, file.identity) ||
        (content.identity.device == file.identity.device && content.identity.inode == file.identity.inode))
      return true;
  return false;
}

// Whether the memory may name the file instead of being saved: one that the program runs code of, that none
// of its descriptors can write to, and that does not come and go with CropDL's own version.
bool stays_as_it_is(const MappedFile& file, const std::set<std::string>& code,
                    const std::vector<FileContent>& written) {
  if (file.shared || file.identity.inode == 0 || code.count(file.path) == 0) return false;
  if (file.path.starts_with(this_process().boot.installation + "/")) return false;
  return !is_written(file, written);
}

}  // namespace

std::string look_at_stopped_program() {
  if (const auto seen = look(); !seen) return seen.error().message;
  auto threads = saved_threads();
  if (!threads) return threads.error().message;
  stopped_threads = std::move(*threads);
  if (const auto state = vector_state_of_threads(); !state) return state.error().message;
  return refusal_of_stopped_memory();
}

Result<Snapshot> take_snapshot(const std::string& directory) {
  // Once more: when this rank had stopped, others still ran, wrote to files that both have open, and may have
  // sent signals to its threads.
  auto seen = look();
  if (!seen) return seen.error();
  note_ids();
  Process& p = this_process();
  Snapshot snapshot;
  Metadata& m = snapshot.metadata;
  m.rank = p.launch.rank;
  m.ranks = p.launch.ranks;
  m.program = p.program;
  m.arguments = p.arguments;
  m.cwd = seen->directory;
  char name[17] = {};
  prctl(PR_GET_NAME, name);
  m.name = name;
  m.umask = umask(0);
  umask(m.umask);
  if (rlimit stack{}; getrlimit(RLIMIT_STACK, &stack) == 0) m.stack_limit = stack.rlim_cur;
  m.schedule = p.schedule;
  m.keep = p.keep;
  m.iterations = p.rank->tracker().place();
  for (const boundaries::Call& c : p.rank->tracker().iteration())
    m.iteration.push_back(
        {c.call, p.libraries.function_name(boundaries::library_of(c.call), boundaries::function_of(c.call)),
         c.identity, c.caller});
  for (Library* l : p.libraries.all())
    if (l->used())
      for (const Library::Table& t : l->seam_tables())
        m.libraries.push_back({t.number, t.functions, t.name, l->functions_of_this_implementation_only(),
                               t.number == l->number() ? l->recipes() : 0});
  m.cpu_features = cpu_features();
  auto vector_state = vector_state_of_threads();
  if (!vector_state) return vector_state.error();
  m.vector_state = std::move(*vector_state);
  // Everything is blocked while the program is stopped: in the frame that it will be continued from is its
  // own mask.
  m.pending_signals = pending_signals(blocked_everywhere());
  m.threads = std::move(stopped_threads);
  if (Status read = read_pending_signals(m.threads); !read) return read.error();
  m.clocks = read_clocks();
  m.attributes = std::move(seen->attributes);
  m.files = std::move(seen->files);
  m.save_files = p.boot.save_files != 0 ? p.boot.save_files : kSaveFilesDefault;
  // The program's limit of file sizes is meant neither for its image nor for what a version holds of its
  // files; it has been read.
  const RaisedLimit file_size(RLIMIT_FSIZE, RLIM_INFINITY);
  auto contents = save_contents(m.files, directory, p.launch.rank, m.save_files);
  if (!contents) return contents.error();
  m.contents = std::move(*contents);
  m.by_reference = p.boot.by_reference;
  m.software_gpu = p.boot.software_gpu;
  m.software_gpus = p.boot.software_gpus;

  auto memory = examine_memory([&](const MappedFile& file) { return !is_written(file, m.contents); });
  if (!memory) return memory.error();
  snapshot.memory = std::move(*memory);
  return snapshot;
}

Result<restart::ImageTotals> persist(Snapshot& snapshot, restart::ChunkSink& sink) {
  const std::set<std::string> code = files_with_code(snapshot.memory.state);
  const auto may_refer = [&](const MappedFile& file) {
    return snapshot.metadata.by_reference && stays_as_it_is(file, code, snapshot.metadata.contents);
  };
  if (Status cut = cut_memory(snapshot.memory, may_refer, sink); !cut) return cut.error();
  if (Status cut = this_process().libraries.save_contents(sink); !cut) return cut.error();
  snapshot.metadata.memory = std::move(snapshot.memory.state);
  return sink.finish(metadata_text(snapshot.metadata));
}

Result<coord::ImageSummary> save_image(const std::string& directory) {
  auto snapshot = take_snapshot(directory);
  if (!snapshot) return snapshot.error();
  const RaisedLimit file_size(RLIMIT_FSIZE, RLIM_INFINITY);  // only now: the program's own is in the snapshot
  coord::ImageSummary summary;
  summary.file = restart::image_name(this_process().launch.rank);
  auto sink =
      restart::ImageWriter::create(directory + "/" + summary.file, seam::kSeamVersion,
                                   memory_bytes(snapshot->memory) + this_process().libraries.content_bytes());
  if (!sink) return sink.error();
  const auto totals = persist(*snapshot, *sink);
  if (!totals) return totals.error();
  summary.bytes = totals->bytes;
  summary.memory = totals->memory;
  summary.checksum = totals->checksum;
  summary.device_memory = totals->device_memory;
  summary.devices = this_process().libraries.devices();
  summary.iteration = snapshot->metadata.iterations.iterations;
  return summary;
}

}  // namespace cropdl::lower

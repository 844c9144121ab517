// `cropdl inspect`: shows what fills a version's images, and what they say about their processes. Reads only
// the parts of images that describe their contents; `cropdl verify` reads everything. Opens nothing outside
// the store, except programs and libraries for function names if the version is the user's own.
#include <fcntl.h>

#include <map>
#include <utility>

#include "base/file.h"
#include "restart/cli/commands.h"
#include "restart/cli/saved_process.h"
#include "restart/image.h"
#include "restart/image_layout.h"

namespace cropdl::cli {
namespace {

using nlohmann::json;
using restart::ImageReader;
using restart::ManifestImage;
using restart::StoreReader;
using restart::Version;

// One rank's image. The parts of the file add up to its size (docs/image-format.md).
struct Inspected {
  uint32_t rank = 0;
  ManifestImage listed;
  uint64_t memory = 0, in_file = 0, metadata = 0;  // in_file: what the memory takes
  SavedProcess process;
  uint64_t frame() const { return sizeof(restart::ImageHeader) + sizeof(restart::ImageTrailer); }
  uint64_t index() const { return listed.bytes - in_file - metadata - frame(); }
};

Result<Inspected> inspect_image(const Folder& folder, const ManifestImage& listed, uint32_t rank,
                                std::vector<MemoryUse>& uses) {
  const Result<ImageReader> image = ImageReader::open(folder, listed.file);
  if (!image) return image.error();
  const auto& totals = image->totals();
  if (totals.checksum != listed.checksum || totals.bytes != listed.bytes)
    return Error{"rank image {}: is not the one that the manifest lists (its checksum differs)",
                 image->path()};
  Result<SavedProcess> process = saved_process(*image);
  if (!process) return process.error();
  add_memory(uses, image->regions(), process->addresses);
  uint64_t in_file = 0;
  for (const restart::Region& region : image->regions()) in_file += region.in_file;
  return Inspected{rank, listed, totals.memory, in_file, image->metadata().size(), std::move(*process)};
}

json memory_json(const MemoryUse& use) {
  return {{"use", use_name(use.use)}, {"name", text_or_null(use.name)},
          {"regions", use.regions},   {"address_space", use.address_space},
          {"stored", use.stored},     {"in_file", use.in_file},
          {"zero", use.zero()},       {"by_reference", use.by_reference}};
}

const char* access_of(const SavedFile& file) {
  const int mode = file.flags & O_ACCMODE;
  return mode == O_RDONLY ? "r" : mode == O_WRONLY ? "w" : "rw";
}

json file_json(const SavedFile& file) {
  return {{"descriptor", file.fd},
          {"standard", file.standard < 0 ? json() : json(file.standard)},
          {"path", text_or_null(file.path)},
          {"access", access_of(file)},
          {"append", (file.flags & O_APPEND) != 0},
          {"offset", file.offset},
          {"size", file.size < 0 ? json() : json(file.size)},
          {"saved", file.content >= 0}};
}

// Looks up each call site once: a lookup reads a file's whole symbol table, and ranks make the same calls.
std::string symbol_of(const CallSite& site, bool mine) {
  static std::map<std::pair<std::string, uint64_t>, std::string> known;
  if (!mine || site.path.empty()) return "";
  const auto [at, is_new] = known.try_emplace({site.path, site.offset});
  if (is_new) at->second = symbol_of_return(site);
  return at->second;
}

json site_json(const CallSite& site, bool mine) {
  return {{"file", text_or_null(site.path)},
          {"offset", site.path.empty() ? json() : json(site.offset)},
          {"symbol", text_or_null(symbol_of(site, mine))}};
}

json call_json(const SavedCall& call, bool mine) {
  json j = {{"function", text_or_null(call.function)}, {"communicator", call.communicator}};
  j.update(site_json(call.site, mine));
  j["outer"] = site_json(call.outer, mine);
  return j;
}

json image_json(const Inspected& one, bool mine) {
  const auto as_call = [mine](const SavedCall& call) { return call_json(call, mine); };
  return {{"rank", one.rank},
          {"file", json_bytes(one.listed.file)},
          {"host", json_bytes(one.listed.host)},
          {"bytes", one.listed.bytes},
          {"memory", one.memory},
          {"in_file", one.in_file},
          {"index", one.index()},
          {"metadata", one.metadata},
          {"frame", one.frame()},
          {"saved_files", one.process.contents},
          {"program", json_bytes(one.process.program)},
          {"arguments", json_bytes(one.process.arguments)},
          {"directory", json_bytes(one.process.directory)},
          {"threads", json_bytes(one.process.threads)},
          {"files", json_list(one.process.files, file_json)},
          {"iteration", json_list(one.process.iteration, as_call)},
          {"found_after", one.process.found_after == 0 ? json() : json(one.process.found_after)}};
}

void print_memory(const std::vector<MemoryUse>& uses) {
  constexpr fmt::string_view kRow = "{:<10} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10}  {}";
  const auto row = [&](const std::string& use, const MemoryUse& m) {
    print(kRow, use, m.regions, amount(m.address_space), amount(m.stored), amount(m.in_file),
          amount(m.by_reference), amount(m.zero()), m.name);
  };
  print(kRow, "USE", "REGIONS", "ADDRESSES", "STORED", "IN FILE", "REFERENCE", "ZERO", "NAME");
  for (const MemoryUse& use : uses) row(use_name(use.use), use);
  row("sum", sum_of(uses));
}

void print_images(const std::vector<Inspected>& images) {
  uint64_t bytes = 0, memory = 0, in_file = 0, index = 0, metadata = 0, frame = 0, contents = 0;
  for (const Inspected& one : images) {
    bytes += one.listed.bytes;
    memory += one.memory;
    in_file += one.in_file;
    index += one.index();
    metadata += one.metadata;
    frame += one.frame();
    contents += one.process.contents;
  }
  print("images:  {} = {} of memory{} + {} of index + {} of metadata + {} of header and trailer",
        amount(bytes), amount(in_file),
        in_file < memory ? formatted(" (of {}, compressed)", amount(memory)) : "", amount(index),
        amount(metadata), amount(frame));
  if (contents != 0) print("beside:  {} of the program's files", amount(contents));
}

void print_file(const SavedFile& file) {
  std::string text = file.path;
  if (file.standard >= 0)
    text = file.standard == 0 ? "standard input" : file.standard == 1 ? "standard output" : "standard error";
  std::string more = file.size < 0 ? "" : formatted(", at {} of {} bytes", file.offset, file.size);
  if (file.content >= 0) more += ", saved";
  print("{:>8} {:<2} {}{}", file.fd, access_of(file), text, more);
}

std::string site_text(const CallSite& site, bool mine) {
  const std::string symbol = symbol_of(site, mine);
  const std::string file = file_name_of(site.path);
  return symbol.empty() ? formatted("{}+0x{:x}", file, site.offset) : formatted("{} ({})", symbol, file);
}

std::string call_text(const SavedCall& call, bool mine) {
  std::string text = call.function.empty() ? "a collective" : call.function;
  if (call.communicator != 0) text += formatted(" on communicator {}", call.communicator);
  if (call.site.path.empty()) return text;
  text += ", " + site_text(call.site, mine);
  return call.outer.path.empty() ? text : text + ", from " + site_text(call.outer, mine);
}

// Prints equal consecutive calls once.
void print_iteration(const Inspected& one, bool mine) {
  const std::vector<SavedCall>& calls = one.process.iteration;
  if (calls.empty()) return;
  const uint64_t after = one.process.found_after;
  print("iteration of rank {}: {}{}", one.rank, counted(calls.size(), "collective"),
        after == 0 ? "" : ", found after " + counted(after, "iteration"));
  for (size_t i = 0, next = 0; i < calls.size(); i = next) {
    const std::string text = call_text(calls[i], mine);
    for (next = i + 1; next < calls.size() && call_text(calls[next], mine) == text;) ++next;
    print("  {}{}", text, next - i > 1 ? formatted(" ({} times)", next - i) : "");
  }
}

void print_process(const Inspected& one) {
  print("rank {}: {}, on {}, {}", one.rank, amount(one.listed.bytes), one.listed.host,
        command_line(one.process.program, one.process.arguments));
  print("directory: " + one.process.directory);
  std::string threads;
  for (const std::string& name : one.process.threads) threads += (threads.empty() ? "" : ", ") + name;
  print("threads: {}: {}", one.process.threads.size(), threads);
  print("files:   {}", one.process.files.size());
  for (const SavedFile& file : one.process.files) print_file(file);
}

void print_all(const Version& version, const std::vector<MemoryUse>& uses,
               const std::vector<Inspected>& images, bool mine) {
  const restart::Manifest& m = version.manifest;
  print("version {} of {}, {} {}", version.number, m.created, counted(m.ranks, "rank"), under_mpi(m));
  if (m.stages != restart::Manifest::Stages())
    print(
        "stall:   {:.3f} s = {:.3f} s stopping + {:.3f} s draining + {:.3f} s writing (final sync {:.3f} s)",
        m.stall_seconds, m.stages.stopping, m.stages.draining, writing_seconds(m), m.stages.syncing);
  print_memory(uses);
  print_images(images);
  print_iteration(images.front(), mine);
  if (images.size() == 1) return print_process(images.front());
  for (const Inspected& one : images)
    print("rank {}: {}, on {}, {}, {} files (--rank {} names them)", one.rank, amount(one.listed.bytes),
          one.listed.host, counted(one.process.threads.size(), "thread"), one.process.files.size(), one.rank);
}

}  // namespace

Result<int> inspect(const Common& common, uint64_t number, int64_t rank) {
  const Result<StoreReader> store = StoreReader::open(common.directory);
  if (!store) return store.error();
  const Result<Version> version = store->version(number);
  if (!version) return version.error();
  const restart::Manifest& manifest = version->manifest;
  if (rank >= static_cast<int64_t>(manifest.ranks))
    return Error{"version {}: has no rank {}, only {}", version->number, rank,
                 counted(manifest.ranks, "rank")};
  const Result<Folder> folder = version->folder();
  if (!folder) return folder.error();
  std::vector<MemoryUse> uses;
  std::vector<Inspected> images;
  for (uint32_t i = 0; i < manifest.ranks; ++i) {
    if (rank >= 0 && i != static_cast<uint64_t>(rank)) continue;
    const Status good = inspect_image(*folder, manifest.images[i], i, uses).move_to(images.emplace_back());
    if (!good) return Error{"version {}: {}", version->number, good.error().message};
  }
  sort_memory(uses);
  const bool mine = restart::is_mine(*version);
  if (common.json) {
    const auto as_image = [mine](const Inspected& one) { return image_json(one, mine); };
    print(json{{"version", version_json(*version)},
               {"memory", json_list(uses, memory_json)},
               {"images", json_list(images, as_image)}});
  } else {
    print_all(*version, uses, images, mine);
  }
  return kDone;
}

}  // namespace cropdl::cli

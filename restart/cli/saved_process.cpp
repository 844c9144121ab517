#include "restart/cli/saved_process.h"

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/caught.h"
#include "base/json.h"
#include "interpose/seam/state.h"
#include "restart/store.h"

namespace cropdl::cli {
namespace {

using nlohmann::json;
using restart::Extent;
using restart::ImageReader;

// Copies the memory at `begin` to `to`; bytes that are not stored stay as they are there.
class Copy final : public restart::ChunkBuffer {
 public:
  Copy(uint64_t begin, void* to, uint64_t bytes)
      : begin_(begin), end_(begin + bytes), to_(static_cast<char*>(to)) {}

  Status read_from(const ImageReader& image) {
    for (size_t i = 0; i < image.regions().size(); ++i) {
      const restart::Region& region = image.regions()[i];
      if (region.kind != restart::RegionKind::kHostMemory || region.begin >= end_ || region.end <= begin_)
        continue;
      if (Status good = image.load_region(i, *this); !good) return good;
    }
    return {};
  }

  Status put(std::span<const Extent> runs) override {
    const char* at = chunk_.data();
    for (const Extent& run : runs) {
      const uint64_t from = std::max(run.begin, begin_), to = std::min(run.end, end_);
      if (from < to) std::memcpy(to_ + (from - begin_), at + (from - run.begin), to - from);
      at += run.end - run.begin;
    }
    return {};
  }

 private:
  uint64_t begin_, end_;
  char* to_;
};

// Finds the stacks in the core's state. This program knows that state's layout only from seam version
// kOldestSeam on; it finds none in older images.
Status find_stacks(const ImageReader& image, AddressFacts& addresses) {
  if (image.seam_version() < seam::kOldestSeam) return {};
  const auto state = std::make_unique<seam::PersistentState>();
  if (Status good = Copy(seam::kState, state.get(), sizeof *state).read_from(image); !good) return good;
  addresses.main_stack_below = state->map_first;
  // Most threads were stopped by a signal: their registers are on their signal stacks.
  const uint64_t stacks_end = seam::kSignalStacks + seam::kMaxThreads * seam::kSignalStackSize;
  for (const seam::ThreadRecord& thread : state->threads) {
    if (thread.used != seam::kLive) continue;
    uint64_t pointer = thread.context;  // the context may be on the thread's own stack
    if (pointer >= seam::kSignalStacks && pointer < stacks_end) {
      const uint64_t at = pointer + offsetof(ucontext_t, uc_mcontext.gregs) + REG_RSP * sizeof(greg_t);
      pointer = 0;
      if (Status good = Copy(at, &pointer, sizeof pointer).read_from(image); !good) return good;
    }
    addresses.stack_pointers.push_back(pointer);
  }
  return {};
}

constexpr size_t kMostCalls = 256;  // per iteration in an image

// A return address points after the call, and if no code follows, after the region: so `end` is included.
CallSite site_of(const json& regions, uint64_t caller) {
  for (const json& region : regions) {
    const auto begin = integer_from_json<uint64_t>(region.at("begin"));
    if (!region.contains("file") || caller <= begin || caller > integer_from_json<uint64_t>(region.at("end")))
      continue;
    const json& file = region.at("file");
    const json& identity = file.at("identity");
    return {bytes_from_json(file.at("path")), integer_from_json<uint64_t>(identity.at("size")),
            integer_from_json<int64_t>(identity.at("modified")),
            integer_from_json<uint64_t>(file.at("offset")) + (caller - begin)};
  }
  return {};
}

std::vector<SavedCall> iteration_from(const json& metadata) {
  std::vector<SavedCall> calls;
  if (!metadata.contains("iteration")) return calls;
  std::vector<uint64_t> communicators;
  if (metadata.at("iteration").size() > kMostCalls) return calls;
  for (const json& one : metadata.at("iteration")) {
    SavedCall call;
    call.function = one.at("function").get<std::string>();
    if (const auto identity = integer_from_json<uint64_t>(one.at("communicator")); identity != 0) {
      const auto known = std::find(communicators.begin(), communicators.end(), identity);
      call.communicator = static_cast<uint64_t>(known - communicators.begin()) + 1;
      if (known == communicators.end()) communicators.push_back(identity);
    }
    const json& regions = metadata.at("memory").at("regions");
    call.site = site_of(regions, integer_from_json<uint64_t>(one.at("caller")));
    if (one.contains("outer")) call.outer = site_of(regions, integer_from_json<uint64_t>(one.at("outer")));
    calls.push_back(std::move(call));
  }
  return calls;
}

SavedProcess from_json(const json& metadata) {
  SavedProcess process;
  process.program = bytes_from_json(metadata.at("program"));
  process.threads.push_back(bytes_from_json(metadata.at("name")));
  process.directory = bytes_from_json(metadata.at("cwd"));
  process.arguments = list_from_json(metadata.at("arguments"));
  for (const json& thread : metadata.at("threads"))
    process.threads.push_back(bytes_from_json(thread.at("name")));
  std::vector<bool> stored;
  for (const json& content : metadata.at("contents")) {
    stored.push_back(!content.at("stored").get<std::string>().empty());
    if (stored.back()) process.contents += integer_from_json<uint64_t>(content.at("identity").at("size"));
  }
  for (const json& one : metadata.at("files")) {
    auto file = one.get<SavedFile>();
    if (const auto number = static_cast<uint64_t>(file.content); number >= stored.size() || !stored[number])
      file.content = -1;
    process.files.push_back(std::move(file));
  }
  process.iteration = iteration_from(metadata);
  if (metadata.contains("iterations") && metadata.at("iterations").contains("found_after"))
    process.found_after = integer_from_json<uint64_t>(metadata.at("iterations").at("found_after"));
  process.addresses.program = process.program;
  for (const json& region : metadata.at("memory").at("regions")) {
    if (!region.contains("file")) continue;
    const auto begin = integer_from_json<uint64_t>(region.at("begin"));
    process.addresses.files[begin] = bytes_from_json(region.at("file").at("path"));
    if (region.at("file").value("left_in_file", false)) process.addresses.left_in_files.insert(begin);
  }
  return process;
}

}  // namespace

Result<SavedProcess> saved_process(const ImageReader& image) {
  SavedProcess process;
  Status good = restart::read_metadata(image, [&](const json& j) { process = from_json(j); });
  if (good)
    good = within_memory("rank image " + image.path(), [&] { return find_stacks(image, process.addresses); });
  if (!good) return good.error();
  return process;
}

uint64_t bytes_elsewhere(const ImageReader& image, const json& metadata) {
  std::vector<MemoryUse> uses;
  add_memory(uses, image.regions(), from_json(metadata).addresses);
  return sum_of(uses).by_reference;
}

}  // namespace cropdl::cli

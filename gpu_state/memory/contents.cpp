#include "gpu_state/memory/contents.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/format.h"
#include "gpu_state/memory/device_pages.h"

namespace cropdl::memory {

using restart::Extent;
using restart::kImagePage;
using restart::Region;
using restart::RegionKind;

namespace {

constexpr uint64_t kVariablesEach = (kVariablesEnd - kVariablesBegin) / kDevices;
constexpr uint64_t kVariableUnit = 16;  // packed: most variables are small

uint64_t variables_of(int device) { return kVariablesBegin + static_cast<uint64_t>(device) * kVariablesEach; }

const char* text(const SavedVariable& one) { return reinterpret_cast<const char*>(one.name); }

// The pages of blocks within [begin, end).
std::vector<Extent> pages_of_blocks(const Blocks& blocks, uint64_t begin, uint64_t end) {
  std::vector<Extent> pages;
  blocks.each_within(begin, end, [&](const Block* one) {
    if (one->freed) return;  // kept by a pool: nobody needs its contents
    const Extent its{one->begin / kImagePage * kImagePage,
                     std::min(end, rounded_up(one->begin + one->size, kImagePage))};
    if (!pages.empty() && its.begin <= pages.back().end)
      pages.back().end = std::max(pages.back().end, its.end);
    else
      pages.push_back(its);
  });
  return pages;
}

}  // namespace

Status Contents::note_variables(const std::vector<Variable>& variables) {
  std::lock_guard lock(blocks_.lock());
  State& state = blocks_.state();
  state.variables.each([&](SavedVariable* one) {
    handles::heap_free(reinterpret_cast<void*>(one->name));
    state.variables.drop(one);
  });
  uint64_t used[kDevices] = {};
  for (const Variable& one : variables) {
    if (one.device >= kDevices)
      return Error{
          "CUDA: the variable {} is on device {}, and only those of devices 0 to {} can be saved "
          "(CUDA_VISIBLE_DEVICES)",
          one.name, one.device, kDevices - 1};
    auto* name = static_cast<char*>(handles::heap_allocate(one.name.size() + 1));
    SavedVariable* saved = name ? state.variables.make() : nullptr;
    if (!saved) {
      handles::heap_free(name);
      return Error{"CUDA: there is no room to note the devices' variables"};
    }
    std::memcpy(name, one.name.c_str(), one.name.size() + 1);
    saved->name = reinterpret_cast<uint64_t>(name);
    saved->size = one.size;
    saved->device = one.device;
    saved->address = one.address;
    saved->begin = variables_of(one.device) + used[one.device];
    used[one.device] += rounded_up(one.size, kVariableUnit);
  }
  return {};
}

std::vector<Contents::Part> Contents::parts() const {
  std::vector<Part> all;
  State& state = blocks_.state();
  const auto add = [&](const std::string& name, RegionKind kind, int device, uint64_t begin, uint64_t end,
                       std::vector<Extent> present) {
    if (present.empty()) return;
    all.push_back({{begin, end, PROT_READ | PROT_WRITE, name, std::move(present), {}, kind}, device});
  };
  const auto add_blocks = [&](const std::string& name, const auto* one) {
    const uint64_t end = one->begin + one->size;
    add(name, RegionKind::kDeviceMemory, one->device, one->begin, end,
        pages_of_blocks(blocks_, one->begin, end));
  };
  state.chunks.each([&](const Chunk* one) { add_blocks(formatted("[device {}]", one->device), one); });
  state.managed.each([&](const ManagedRegion* one) { add_blocks("[managed]", one); });
  state.own_physical.each([&](const OwnPhysical* one) {
    const uint64_t end = one->contents + one->size;
    add("[made by the program]", RegionKind::kDeviceMemory, one->device, one->contents, end,
        {{one->contents, end}});
  });
  for (int device = 0; device < kDevices; ++device) {
    uint64_t end = 0;
    state.variables.each([&](const SavedVariable* one) {
      if (one->device == device) end = std::max(end, one->begin + one->size);
    });
    if (end == 0) continue;
    end = rounded_up(end, kImagePage);
    add(formatted("[variables of device {}]", device), RegionKind::kDeviceVariables, device,
        variables_of(device), end, {{variables_of(device), end}});
  }
  // Grouped by device: each device has its own staging.
  std::ranges::sort(all, {}, [](const Part& one) { return std::pair(one.device, one.region.begin); });
  return all;
}

std::vector<Region> Contents::regions() const {
  std::lock_guard lock(blocks_.lock());
  std::vector<Region> all;
  for (Part& part : parts()) all.push_back(std::move(part.region));
  return all;
}

Status Contents::save(restart::ChunkSink& sink) const {
  std::lock_guard lock(blocks_.lock());
  const OutsideOfCaptures outside(driver_);
  Staging staging(driver_, context_of_);
  for (const Part& part : parts()) {
    if (Status begun = staging.begin(part.device); !begun) return begun;
    std::vector<Piece> pieces;
    if (part.region.kind == RegionKind::kDeviceVariables) {
      blocks_.state().variables.each([&](const SavedVariable* one) {
        if (one->device == part.device && one->size) pieces.push_back({one->begin, one->size, one->address});
      });
      std::ranges::sort(pieces, {}, &Piece::begin);
    }
    DevicePages pages(staging, part.region.present, std::move(pieces));
    if (Status cut = restart::cut_region(part.region, pages, nullptr, sink); !cut) return cut;
  }
  return {};
}

Status Contents::load(const restart::ImageReader& image,
                      const std::function<CUdeviceptr(const std::string&, int, uint64_t)>& find,
                      bool may_move) const {
  std::lock_guard lock(blocks_.lock());
  const OutsideOfCaptures outside(driver_);
  std::map<uint64_t, int> devices;  // by a region's begin
  for (const Part& part : parts()) devices[part.region.begin] = part.device;
  Staging staging(driver_, context_of_);
  for (size_t i = 0; i < image.regions().size(); ++i) {
    const Region& region = image.regions()[i];
    if (region.kind == RegionKind::kHostMemory) continue;
    const int device = devices[region.begin];
    if (Status begun = staging.begin(device); !begun) return begun;
    std::vector<Piece> pieces;
    if (region.kind == RegionKind::kDeviceVariables) {
      std::string missing, moved;
      blocks_.state().variables.each([&](const SavedVariable* one) {
        if (one->device != device || one->size == 0) return;
        const CUdeviceptr at = find(text(*one), device, one->size);
        if (at)
          pieces.push_back({one->begin, one->size, at});
        else
          missing = text(*one);
        if (at && at != one->address && !may_move) moved = text(*one);
      });
      if (!moved.empty())
        return Error{
            "the variable {} of device {} lies elsewhere in this process, and kernels may have kept its "
            "address; if none does, restart with --moved-variables=accept",
            moved, device};
      if (!missing.empty())
        return Error{"CUDA: the variable {} of device {} is not in the program's device code any more",
                     missing, device};
      std::ranges::sort(pieces, {}, &Piece::begin);
      if (pieces.empty()) continue;
    }
    if (region.kind == RegionKind::kDeviceMemory)  // do not populate managed memory outside of blocks
      for (const Extent& pages : pages_of_blocks(blocks_, region.begin, region.end))
        pieces.push_back({pages.begin, pages.end - pages.begin, pages.begin});
    DeviceTarget target(staging, std::move(pieces));
    Status loaded = target.begin({region.begin, region.end}, region.present);
    if (loaded) loaded = image.load_region(i, target);
    if (!loaded) return Error{"{}: {}", region.name, loaded.error().message};
  }
  return {};
}

}  // namespace cropdl::memory

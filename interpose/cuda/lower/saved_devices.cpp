#include "interpose/cuda/lower/saved_devices.h"

#include <map>
#include <sstream>
#include <utility>

#include "base/format.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/environment.h"
#include "interpose/cuda/lower/kept.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/cuda/lower/real_libraries.h"

namespace cropdl::cuda {
namespace {

// In the persistent heap: append-only.
struct DeviceFacts {
  int32_t used, major, minor, multiprocessors;
  uint64_t memory, in_use;
  char name[64];
};
struct Facts {
  int32_t driver, runtime, count, reserved;
  DeviceFacts devices[kMostDevices];
};

DeviceFacts facts_of_device(int device) {
  DeviceFacts f{};
  f.used = device_used(device);
  f.major = device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  f.minor = device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  f.multiprocessors = device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  CROPDL_DRIVER(cuDeviceGetName)(f.name, sizeof f.name - 1, device);
  size_t total = 0;
  CROPDL_DRIVER(cuDeviceTotalMem_v2)(&total, device);
  f.memory = total;
  if (f.used) {
    const OnDevice on(device);
    size_t free = 0;
    if (on.fine() && CROPDL_DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS) f.in_use = total - free;
  }
  return f;
}

Facts* kept_facts() { return reinterpret_cast<Facts*>(one_abi::family->members[one_abi::kMemberDevices]); }

constexpr auto kHeapIsFull =
    "no memory was left for what CropDL keeps of CUDA's objects (ulimit -v?); start the program again with "
    "more";

std::string model_of(const DeviceFacts& f) {
  return formatted("{} ({} multiprocessors)", f.name, f.multiprocessors);
}

std::string whose_devices() {
  const std::string its = visible_devices_of_program();
  return its.empty() ? ""
                     : formatted(" (CUDA_VISIBLE_DEVICES={} as the program had it; set it for others)", its);
}

}  // namespace

Status note_devices() {
  if (!driver_begun()) return {};
  if (!kept_facts())
    one_abi::family->members[one_abi::kMemberDevices] =
        reinterpret_cast<uint64_t>(handles::heap_allocate(sizeof(Facts)));
  if (!kept_facts()) return Error{kHeapIsFull};
  Facts& f = *kept_facts();
  f = Facts{};
  CROPDL_DRIVER(cuDriverGetVersion)(&f.driver);
  if (opened(kCudart)) CROPDL_CUDART(cudaRuntimeGetVersion)(&f.runtime);
  f.count = device_count();
  for (int d = 0; d < f.count; ++d) f.devices[d] = facts_of_device(d);
  return {};
}

std::string noted_devices() {
  const Facts* f = one_abi::family ? kept_facts() : nullptr;
  std::map<std::string, int> models;
  for (int d = 0; f && d < f->count && d < kMostDevices; ++d)
    if (const DeviceFacts& one = f->devices[d]; one.used)
      ++models[formatted("{} (compute capability {}.{})", one.name, one.major, one.minor)];
  std::string text;
  for (const auto& [model, count] : models)
    text += (text.empty() ? "" : ", ") + (count > 1 ? formatted("{} x {}", count, model) : model);
  return text;
}

Status compare_devices(std::vector<std::string>* other) {
  const Facts* was = kept_facts();
  if (!was) return {};
  int driver = 0, runtime = 0;
  if (CROPDL_DRIVER(cuInit)(0) != CUDA_SUCCESS && was->count > 0)
    return Error{
        "cannot restart: the program uses a GPU, and there is none here (cuInit fails); restart where one "
        "is{}",
        whose_devices()};
  CROPDL_DRIVER(cuDriverGetVersion)(&driver);
  if (was->runtime) CROPDL_CUDART(cudaRuntimeGetVersion)(&runtime);
  constexpr int kMajor = 1000;
  if (runtime / kMajor != was->runtime / kMajor)
    return Error{"cannot restart: the program uses CUDA {}, and libcudart.so.13 here is of CUDA {}",
                 was->runtime / kMajor, runtime / kMajor};
  const int count = device_count();
  std::map<std::pair<std::string, std::string>, std::string> differing;  // devices, by models before and now
  for (int d = 0; d < was->count && d < kMostDevices; ++d) {
    const DeviceFacts& before = was->devices[d];
    if (!before.used) continue;
    if (d >= count)
      return Error{"cannot restart: the program uses device {}, and there are {} devices here{}", d, count,
                   whose_devices().empty() ? " (CUDA_VISIBLE_DEVICES?)" : whose_devices()};
    const DeviceFacts now = facts_of_device(d);
    if (now.major != before.major || now.minor != before.minor)
      return Error(
          "cannot restart: device {} was a {} of compute capability {}.{}, and is a {} of {}.{} here", d,
          before.name, before.major, before.minor, now.name, now.major, now.minor);
    if (before.in_use > now.memory)
      return Error{"cannot restart: the program uses {} MB of device {}, which has {} MB here",
                   before.in_use >> 20, d, now.memory >> 20};
    if (model_of(now) == model_of(before)) continue;
    std::string& devices = differing[{model_of(before), model_of(now)}];
    (devices.empty() ? devices : devices += ", ") += formatted("device {}", d);
  }
  for (const auto& [models, devices] : differing)
    other->push_back(formatted(
        "cropdl-restart: {}: {} before, {} here: the state is the same bit for bit, but libraries may now "
        "choose other kernels, which add in another order",
        devices, models.first, models.second));
  return {};
}

Status note_libraries() {
  std::string text;
  for (const RealLibrary& l : real_libraries())
    text += l.soname + '\n' + l.path + '\n' + l.version + '\n' + (l.software ? "software" : "") + '\n';
  uint64_t& kept = one_abi::family->members[one_abi::kMemberLibraries];
  handles::heap_free(reinterpret_cast<void*>(kept));
  kept = reinterpret_cast<uint64_t>(heap_text(text));
  if (!kept) return Error{kHeapIsFull};
  return {};
}

Status open_libraries(std::vector<std::string>* other) {
  const auto* kept = reinterpret_cast<const char*>(one_abi::family->members[one_abi::kMemberLibraries]);
  if (!kept) return {};
  std::istringstream text(kept);
  std::vector<RealLibrary> before;
  for (RealLibrary l; std::getline(text, l.soname);) {
    std::string software;
    std::getline(text, l.path);
    std::getline(text, l.version);
    std::getline(text, software);
    l.software = !software.empty();
    before.push_back(l);
  }
  prefer_real_libraries(before);
  for (const RealLibrary& l : before) {
    // A program that has not initialised the driver continues without one.
    if (std::string why = why_not_real(l.soname.c_str());
        !why.empty() && (kept_facts() || l.soname != kDriverName))
      return Error{"cannot restart: " + why};
    for (const RealLibrary& now : real_libraries())
      if (now.soname == l.soname && (now.version != l.version || now.software != l.software))
        other->push_back(formatted(
            "cropdl-restart: {} was {}, and is {} here: the state is the same bit for bit, but it may now "
            "compute in another order",
            l.soname, l.version.empty() ? l.path : l.version, now.version.empty() ? now.path : now.version));
  }
  return {};
}

uint64_t devices_of_image() {
  uint64_t mask = 0;
  const Facts* was = kept_facts();
  for (int d = 0; was && d < was->count && d < kMostDevices; ++d)
    if (was->devices[d].used) mask |= uint64_t{1} << d;
  return mask;
}

}  // namespace cropdl::cuda

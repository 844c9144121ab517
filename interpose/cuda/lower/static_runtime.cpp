#include "interpose/cuda/lower/static_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/patched_code.h"
#include "base/say.h"
#include "gpu_state/static_runtime/object_file.h"
#include "interpose/cuda/lower/environment.h"
#include "interpose/cuda/lower/kept.h"
#include "interpose/cuda/lower/real_libraries.h"
#include "interpose/host/loaded_objects.h"
#include "interpose/seam/late_call.h"
#include "interpose/seam/state.h"

namespace cropdl::cuda {
namespace {

using static_runtime::MappedFile;
using static_runtime::RuntimeFunction;
using static_runtime::StaticRuntime;

constexpr int64_t kNotSupported = 801;  // cudaErrorNotSupported

// Of this process. No lock: callers hold ld.so's lock, and START runs alone.
struct Taking {
  std::string shim;
  bool software = false;
  const seam::LateLibrary* library = nullptr;  // in the heap
  std::map<std::string, seam::LateCall*, std::less<>>
      calls;  // in the heap: one for all objects that have the function
};
Taking& taking() {
  static Taking* its = new Taking;
  return *its;
}

template <class Function>
bool find_in_program(Function* function, const char* name, const char* former_name) {
  uint64_t address = host::program_symbol(name);
  if (address == 0) address = host::program_symbol(former_name);
  *function = reinterpret_cast<Function>(address);
  return address != 0;
}

Result<const seam::LateLibrary*> shim_of_program() {
  if (taking().library != nullptr) return taking().library;
  auto* library = static_cast<seam::LateLibrary*>(handles::heap_allocate(sizeof(seam::LateLibrary)));
  if (library == nullptr) return Error{"no memory is left for what CropDL keeps"};
  // Before glibc 2.34 only libdl has dlopen, and it need not be loaded.
  if (!find_in_program(&library->open, "dlopen", "__libc_dlopen_mode") ||
      !find_in_program(&library->find, "dlsym", "__libc_dlsym"))
    return Error{
        "the program's C library has no dlopen, by which its CUDA runtime could be replaced: link it with "
        "nvcc -cudart shared"};
  library->path = heap_text(taking().shim);
  library->cannot = heap_text(formatted(
      "cropdl: {} cannot be loaded into the program, whose CUDA runtime it replaces\n", taking().shim));
  taking().library = library;
  return library;
}

// A cheap check: might ld.so's search find a driver? Without one, a program's runtime reports the error
// itself, and programs without CUDA need none.
bool find_likely_driver() {
  for (const std::string& folder : program_search_path())
    if (access((folder + "/libcuda.so.1").c_str(), R_OK) == 0) return true;
  for (const char* directory : {"/usr/lib64", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/lib64"})
    if (access((std::string(directory) + "/libcuda.so.1").c_str(), R_OK) == 0) return true;
  const MappedFile cache("/etc/ld.so.cache");
  return cache.bytes().find(std::string_view("/libcuda.so.1\0", 14)) != std::string_view::npos;
}

bool driver_is_likely() {
  static const bool is = find_likely_driver();  // of this process: its environment, the system's files
  return taking().software || is || !real_libraries().empty();
}

// Sorted.
std::vector<std::string> functions_of_shim() {
  auto names = static_runtime::exported_functions(MappedFile(taking().shim.c_str()).bytes());
  std::sort(names.begin(), names.end());
  return names;
}

// Finds a runtime without symbols by the code of a toolkit's of the same version, if one is here.
void find_by_code(std::string_view file, StaticRuntime* runtime) {
  const std::vector<std::string> known = functions_of_shim();
  std::set<std::string> seen;
  for (const std::string& folder : toolkit_folders()) {
    if (!seen.insert(folder).second) continue;
    const MappedFile archive((folder + "/libcudart_static.a").c_str());
    StaticRuntime found = static_runtime::static_runtime_by_code(file, archive.bytes(), known);
    if (found.state == StaticRuntime::State::kAbsent) continue;
    *runtime = std::move(found);
    return;
  }
}

// The entry is as in the file, or already patched in an image.
enum class Entry { kOriginal, kTaken, kOther };
Entry look_at_entry(const unsigned char* entry, std::string_view original) {
  if (!original.empty() && memcmp(entry, original.data(), original.size()) == 0) return Entry::kOriginal;
  void* const* slot = slot_of(entry);
  const auto at = reinterpret_cast<uint64_t>(slot);
  return at >= seam::kHeapBegin && at < seam::kHeapEnd ? Entry::kTaken : Entry::kOther;
}

// `has`: the shim has the function.
seam::LateCall* make_call(const std::string& name, bool has, const seam::LateLibrary* library,
                          const std::string& file) {
  auto* call = static_cast<seam::LateCall*>(handles::heap_allocate(sizeof(seam::LateCall)));
  if (call == nullptr) return nullptr;
  const seam::CoreEntries& core = seam::state()->core;
  call->target = reinterpret_cast<void*>(core.late_call);
  call->name = heap_text(name);
  call->library = library;
  if (!has && name[0] == '_') {
    // Functions that the compiler calls itself cannot report failure: the first call ends the program.
    call->line =
        heap_text(formatted("cropdl: this CropDL has no {}, which the code for CUDA in {} needs: link it "
                            "with nvcc -cudart shared\n",
                            name, file));
  } else if (!has) {
    call->target = reinterpret_cast<void*>(core.no_call);
    call->line = heap_text(
        formatted("cropdl: {} is not known to this CropDL: it returns cudaErrorNotSupported\n", name));
    call->result = kNotSupported;
  }
  return call;
}

Status take_over(const libraries::LoadedObject& object, const StaticRuntime& runtime,
                 const std::vector<std::string>& known) {
  std::vector<const RuntimeFunction*> wanted;
  for (const RuntimeFunction& function : runtime.functions) {
    const auto* entry = reinterpret_cast<const unsigned char*>(object.base + function.address);
    const Entry is = look_at_entry(entry, function.original);
    if (is == Entry::kOther)
      return Error{
          "the file {} is not what runs: it changed since the program began, or another tool patches it",
          object.file};
    if (is == Entry::kTaken) continue;
    if (!has_room(entry, function.size, kPatchBytes))
      return Error{"{} in {} is too short to be taken over: link with nvcc -cudart shared", function.name,
                   object.file};
    wanted.push_back(&function);
  }
  if (wanted.empty()) return {};

  const auto library = shim_of_program();
  if (!library) return library.error();
  std::vector<Patch> patches;
  for (const RuntimeFunction* function : wanted) {
    seam::LateCall*& call = taking().calls[function->name];
    const bool has = std::binary_search(known.begin(), known.end(), function->name);
    if (call == nullptr) call = make_call(function->name, has, *library, object.file);
    if (call == nullptr) return Error{"no memory is left for what CropDL keeps"};
    auto* entry = reinterpret_cast<unsigned char*>(object.base + function->address);
    patches.push_back({entry, const_cast<void* const*>(&call->target)});
  }
  if (!write_patches(patches))
    return Error{"the code of {} cannot be changed (mprotect failed): link it with nvcc -cudart shared",
                 object.file};
  return {};
}

// A runtime of another version runs unchanged, with the driver's library that it opens. It keeps its device's
// descriptors open, which refuse a checkpoint.
Status leave_alone(const libraries::LoadedObject& object, const std::string& missing) {
  const std::string why =
      formatted("the CUDA runtime in {} is of another version (it has no {})", object.file, missing);
  if (taking().software) return Error{why + ": build it with CUDA 13"};
  if (seam::state()->native_devices == 0)
    say(formatted("cropdl: {}: it runs, and cannot be checkpointed while it uses a device", why));
  seam::state()->native_devices = 1;
  return {};
}

}  // namespace

void prepare_static_runtimes(const launching::Boot& boot) {
  taking().shim = boot.installation + "/libcudart.so.13";
  taking().software = boot.software_gpu;
}

Status take_over_static_runtime(const libraries::LoadedObject& object) {
  if (object.file == taking().shim || !driver_is_likely()) return {};
  const MappedFile file(object.file.c_str());
  if (file.bytes().empty()) return {};
  std::vector<std::string> known;
  if (static_runtime::may_have_static_runtime(file.bytes())) {
    known = functions_of_shim();
    if (known.empty()) return Error{taking().shim + " cannot be read; install CropDL again"};
  }
  StaticRuntime runtime = static_runtime::static_runtime_of(file.bytes(), known, object.program);
  if (runtime.state == StaticRuntime::State::kAbsent || !has_driver()) return {};
  if (runtime.state == StaticRuntime::State::kStripped) find_by_code(file.bytes(), &runtime);
  switch (runtime.state) {
    case StaticRuntime::State::kThere:
      return take_over(object, runtime, functions_of_shim());
    case StaticRuntime::State::kOtherVersion:
      return leave_alone(object, runtime.missing);
    default: {
      const std::string why = formatted(
          "{} contains NVIDIA's CUDA runtime, as nvcc links it by default, without symbols, and no "
          "libcudart_static.a of its version "
          "is here (CUDA_HOME) by which its functions could be told: do not strip it, or link it with nvcc "
          "-cudart shared",
          object.file);
      if (object.program) return Error{why};
      // A library may never be called. If it is, its runtime does not get what it needs from the driver.
      say("cropdl: " + why);
      return {};
    }
  }
}

}  // namespace cropdl::cuda

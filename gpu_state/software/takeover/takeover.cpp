// The library that scripts/software-gpu preloads. By default nvcc links the CUDA runtime statically, so a
// program's calls go through no shared library. This library patches the code itself: the entry of each
// runtime function, found by the symbols of the program's or library's file, becomes a jump
// (base/patched_code.h) to the software device's function.
//
// An object must be patched before its constructors run, since nvcc's constructors register kernels. For
// objects loaded at the start, this library's constructor runs before all others (-z initfirst; it must not
// use parts of libc that need initialisation: no environment, no dlopen). For later objects: whenever its
// list of objects has changed, ld.so calls _dl_debug_state, an empty function for debuggers, after mapping
// new objects and before their constructors (SVR4 link interface, <link.h>; glibc 2.36,
// dl_open_worker_begin). That function is patched to call this library too. LD_AUDIT is no alternative: it
// has its own namespace with its own libc, and changes how all libraries of the process are bound.
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/patched_code.h"
#include "base/say.h"
#include "gpu_state/software/takeover/slots.h"
#include "gpu_state/static_runtime/object_file.h"

extern "C" {
void cropdl_takeover_objects_changed();  // entries.S
__attribute__((visibility("hidden"), used)) void cropdl_takeover_look_again();
}

namespace cropdl::takeover {

namespace {

using static_runtime::exported_functions;
using static_runtime::MappedFile;
using static_runtime::RuntimeFunction;
using static_runtime::StaticRuntime;

struct Object {
  const link_map* map;
  uint64_t base;
  const void* dynamic;
  bool operator==(const Object&) const = default;
};

struct Seen {
  std::recursive_mutex mutex;
  std::vector<Object> objects;
  bool looking = false;
};
Seen& seen() {
  static Seen* its = new Seen;
  return *its;
}

[[noreturn]] void refuse(const std::string& why) {
  say("software GPU: " + why);
  _exit(1);
}

// The file mapped at that address, from /proc/self/maps; empty: none.
std::string mapped_file(const void* address) {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (!maps) return "";
  std::string found;
  char line[4400];
  while (found.empty() && std::fgets(line, sizeof line, maps)) {
    uintptr_t first, last;
    int name = 0;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &first, &last, &name) < 2) continue;
    auto at = reinterpret_cast<uintptr_t>(address);
    if (at < first || at >= last || !name) continue;
    found = line + name;
    found.resize(std::min(found.find('\n'), found.size()));
  }
  std::fclose(maps);
  return found;
}

// The program's object has no name. If ld.so was called with the program, /proc/self/exe is ld.so.
std::string file_of(const link_map* map) { return *map->l_name ? map->l_name : mapped_file(map->l_ld); }

void take_over(const link_map* map, const StaticRuntime& runtime) {
  std::vector<Patch> patches;
  for (const RuntimeFunction& function : runtime.functions) {
    auto* entry = reinterpret_cast<unsigned char*>(map->l_addr + function.address);
    const std::string& original = std::string(function.original);
    if (original.empty() || std::memcmp(entry, original.data(), original.size()) != 0)
      refuse(formatted(
          "the file {} is not what runs: it changed since the program began, or another tool patches it",
          file_of(map)));
    if (!has_room(entry, function.size, kPatchBytes))
      refuse(formatted("{} in {} is too short to be taken over: link with -cudart shared", function.name,
                       file_of(map)));
    patches.push_back({entry, &slot_for(function.name)->target});
  }
  if (!write_patches(patches))
    refuse(formatted("the code of {} cannot be changed (mprotect failed): link it with -cudart shared",
                     file_of(map)));
}

void look_at(const link_map* map, bool is_program) {
  MappedFile file(file_of(map).c_str());
  if (file.bytes().empty()) return;  // the vDSO has no file
  std::vector<std::string> names;
  if (static_runtime::may_have_static_runtime(file.bytes())) {
    names = exported_functions(MappedFile(library().c_str()).bytes());
    if (names.empty()) refuse(formatted("{} cannot be read: build the target software-gpu", library()));
  }
  StaticRuntime runtime = static_runtime::static_runtime_of(file.bytes(), names, is_program);
  switch (runtime.state) {
    case StaticRuntime::State::kAbsent:
      return;
    case StaticRuntime::State::kThere:
      return take_over(map, runtime);
    case StaticRuntime::State::kOtherVersion:
      refuse(formatted("the CUDA runtime in {} is of another version (it has no {}): build it with CUDA 13",
                       file_of(map), runtime.missing));
    case StaticRuntime::State::kStripped: {
      std::string why = formatted(
          "{} contains NVIDIA's CUDA runtime, as nvcc links by default, without symbols, so that its calls "
          "cannot be taken over: do not strip it, or link it with nvcc -cudart shared",
          file_of(map));
      if (is_program) refuse(why);
      // The library may never be called. If it is, its runtime lacks the driver's function tables that it
      // needs (cuGetExportTable), and every call fails.
      say("software GPU: " + why);
    }
  }
}

// Processes objects of all namespaces that are new since the last call.
void look_again() {
  std::lock_guard lock(seen().mutex);
  if (seen().looking) return;
  seen().looking = true;
  std::vector<Object> now;
  for (const auto* debug = reinterpret_cast<const r_debug_extended*>(&_r_debug); debug;
       debug = debug->base.r_version >= 2 ? debug->r_next : nullptr)
    for (const link_map* map = debug->base.r_map; map; map = map->l_next)
      now.push_back({map, map->l_addr, map->l_ld});
  std::vector<Object> before = std::move(seen().objects);
  for (const Object& object : now)
    if (std::find(before.begin(), before.end(), object) == before.end())
      look_at(object.map, object.map == _r_debug.r_map);
  seen().objects = std::move(now);
  seen().looking = false;
}

void follow_changes() {
  auto* notification = reinterpret_cast<unsigned char*>(_r_debug.r_brk);
  if (!is_empty_function(notification, kJumpBytes) ||
      !write_jump(notification, cropdl_takeover_objects_changed))
    say("software GPU: ld.so is not as glibc 2.36's, or a debugger changed it: libraries that are loaded "
        "later and contain NVIDIA's CUDA runtime cannot be taken over");
}

const link_map* own_map() {
  auto address = reinterpret_cast<uintptr_t>(&own_map);
  const link_map* best = nullptr;  // the last object that starts before this code
  for (const link_map* map = _r_debug.r_map; map; map = map->l_next)
    if (map->l_addr <= address && (!best || map->l_addr > best->l_addr)) best = map;
  return best;
}

__attribute__((constructor)) void begin() {
  const link_map* own = own_map();
  std::string path = own ? own->l_name : "";
  set_library(path.substr(0, path.rfind('/') + 1) + "libcudart.so.13");
  look_again();
  follow_changes();
}

}  // namespace

}  // namespace cropdl::takeover

// Called by ld.so, under its lock.
void cropdl_takeover_look_again() {
  if (_r_debug.r_state == r_debug::RT_CONSISTENT) cropdl::takeover::look_again();
}

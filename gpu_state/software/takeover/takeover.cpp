// The library that scripts/software-gpu preloads. nvcc links the CUDA runtime into programs by default, so
// that none of their calls goes through a shared library; what can be replaced is the code itself: the
// entries of the runtime's functions, which the symbols of a program's or library's file give, become jumps
// (base/patched_code.h) to those of the software device.
//
// When: an object's code has to be patched before its constructors run, since nvcc's register its kernels
// there. For what is there at the start, this library's constructor runs before all others (-z initfirst; it
// may use no part of libc that has to be set up: no environment, no dlopen). For what is loaded later, ld.so
// calls an empty function, _dl_debug_state, whenever its list of objects has changed, for debuggers: after
// mapping new ones and before any constructor of theirs (SVR4 link interface, <link.h>; glibc 2.36,
// dl_open_worker_begin). That function is made to call us too. Not LD_AUDIT, which lives in a namespace of
// its own with a libc of its own, and changes how every library of the process is bound.
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

// The file of what is mapped at that address, by the kernel's list; empty if there is none.
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

// The program's object has no name; /proc/self/exe is ld.so where that was called with the program.
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
  if (file.bytes().empty()) return;  // the kernel's own object has no file
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
      // A library may never be called. If it is, its runtime does not find the tables of functions that it
      // wants of the driver (cuGetExportTable), and every call fails.
      say("software GPU: " + why);
    }
  }
}

// All objects of all namespaces that were not there the last time.
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
  // `ret`, perhaps after endbr64, and padding.
  bool is_empty = notification[0] == 0xc3 && has_room(notification, 1, kJumpBytes);
  is_empty |=
      std::memcmp(notification, "\xf3\x0f\x1e\xfa\xc3", 5) == 0 && has_room(notification, 5, kJumpBytes);
  if (!is_empty || !write_jump(notification, cropdl_takeover_objects_changed))
    say("software GPU: ld.so is not as glibc 2.36's, or a debugger changed it: libraries that are loaded "
        "later "
        "and contain NVIDIA's CUDA runtime cannot be taken over");
}

const link_map* own_map() {
  auto address = reinterpret_cast<uintptr_t>(&own_map);
  const link_map* best = nullptr;  // the object that begins last before this code
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

// By ld.so, under its lock.
void cropdl_takeover_look_again() {
  if (_r_debug.r_state == r_debug::RT_CONSISTENT) cropdl::takeover::look_again();
}

#include "interpose/host/loaded_objects.h"

#include <link.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "base/patched_code.h"
#include "interpose/handles/heap.h"
#include "interpose/host/process.h"
#include "interpose/seam/state.h"
#include "restart/memory/mappings.h"

namespace cropdl::host {
namespace {

struct Object {
  const link_map* map;
  uint64_t base;
  const void* dynamic;
  bool operator==(const Object&) const = default;
};

// The objects reported so far. In the persistent heap, so that a restart does not read their files again.
struct Seen {
  uint64_t count, room;
  Object objects[];
};

std::span<const Object> seen_before() {
  const auto* seen = reinterpret_cast<const Seen*>(seam::state()->objects_seen);
  return seen != nullptr ? std::span(seen->objects, seen->count) : std::span<const Object>();
}

// If the heap has no room for the list, all objects are examined again the next time.
void keep_seen(const std::vector<Object>& now) {
  uint64_t& kept = seam::state()->objects_seen;
  auto* seen = reinterpret_cast<Seen*>(kept);
  if (seen == nullptr || seen->room < now.size()) {
    const size_t room = 2 * now.size();
    auto* more = static_cast<Seen*>(handles::heap_allocate(sizeof(Seen) + room * sizeof(Object)));
    if (more != nullptr) more->room = room;
    kept = reinterpret_cast<uint64_t>(more);
    handles::heap_free(seen);
    seen = more;
  }
  if (seen == nullptr) return;
  std::copy(now.begin(), now.end(), seen->objects);
  seen->count = now.size();
}

const r_debug* program_debug() { return reinterpret_cast<const r_debug*>(seam::state()->loader_debug); }

// The objects of all namespaces (struct r_debug_extended of glibc >= 2.35); of the first with older glibc.
std::vector<Object> objects_now() {
  std::vector<Object> now;
  for (const auto* debug = reinterpret_cast<const r_debug_extended*>(program_debug()); debug != nullptr;
       debug = debug->base.r_version >= 2 ? debug->r_next : nullptr)
    for (const link_map* map = debug->base.r_map; map != nullptr; map = map->l_next)
      now.push_back({map, map->l_addr, map->l_ld});
  return now;
}

// The file that is mapped at the address. ld.so's name of an object may be that of a file replaced by a shim.
std::string file_at(const std::vector<host_memory::Mapping>& mappings, const void* address) {
  const auto at = reinterpret_cast<uint64_t>(address);
  for (const host_memory::Mapping& m : mappings)
    if (at >= m.begin && at < m.end) return m.path;
  return "";
}

int objects_changed() {
  // ld.so's own lock is held, but a second libc's namespaces have a lock of their own.
  static auto& looking = *new std::mutex;
  const std::lock_guard lock(looking);
  const std::span<const Object> before = seen_before();
  std::vector<Object> now = objects_now();
  std::vector<host_memory::Mapping> mappings;
  for (const Object& object : now) {
    if (std::find(before.begin(), before.end(), object) != before.end()) continue;
    if (mappings.empty()) mappings = host_memory::read_mappings();
    const libraries::LoadedObject loaded{file_at(mappings, object.dynamic), object.base,
                                         object.map == program_debug()->r_map};
    if (loaded.file.empty() || loaded.file[0] != '/') continue;  // the core, as a vDSO
    if (auto s = this_process().libraries.look_at(loaded); !s) die(s.error().message);
  }
  keep_seen(now);
  return 0;
}

}  // namespace

Status follow_loaded_objects(const std::string& loader, const launching::MappedElf& mapped) {
  auto* const notification =
      reinterpret_cast<unsigned char*>(dynamic_symbol(mapped.begin, "_dl_debug_state"));
  const uint64_t debug = dynamic_symbol(mapped.begin, "_r_debug");
  // Not glibc's ld.so: no library that follows loaded objects supports it.
  if (notification == nullptr || debug == 0) return {};
  if (!is_empty_function(notification, kJumpBytes) ||
      !write_jump(notification, reinterpret_cast<void (*)()>(seam::state()->core.objects_changed)))
    return Error{"{}: not as other versions of it are: what it loads cannot be followed", loader};
  seam::state()->loader_debug = debug;
  return {};
}

void* const* functions_for_core() {
  static void* const kFunctions[] = {reinterpret_cast<void*>(objects_changed)};
  return kFunctions;
}

uint64_t program_symbol(const char* name) {
  if (program_debug() == nullptr) return 0;
  for (const link_map* map = program_debug()->r_map; map != nullptr; map = map->l_next)
    if (const uint64_t found = dynamic_symbol(map->l_ld, map->l_addr, true, name); found != 0) return found;
  return 0;
}

uint64_t c_library_symbol(const char* name) {
  // Not program_debug(), which is set only if objects are followed.
  const auto* debug =
      reinterpret_cast<const r_debug*>(dynamic_symbol(seam::state()->text_begin, "_r_debug", true));
  for (const link_map* map = debug != nullptr ? debug->r_map : nullptr; map != nullptr; map = map->l_next)
    if (std::string_view(map->l_name).ends_with("/libc.so.6"))
      return dynamic_symbol(map->l_ld, map->l_addr, true, name);
  return 0;
}

}  // namespace cropdl::host

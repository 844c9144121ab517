// Tells the LH which objects ld.so loads, and looks up patched functions at their first call. UH, any thread.
#include <asm/unistd.h>
#include <link.h>

#include "interpose/seam/gate.h"
#include "interpose/seam/late_call.h"
#include "interpose/upper/core.h"

using namespace cropdl;
using namespace cropdl::upper;

extern "C" {

// Called by entry.S in place of _dl_debug_state, which ld.so calls for debuggers when its list of objects
// changes: after it has mapped new ones and before their code runs. ld.so holds its lock.
__attribute__((visibility("hidden"), used)) void cropdl_objects_changed() {
  const auto* debug = reinterpret_cast<const r_debug*>(seam::state()->loader_debug);
  if (is_child() || debug == nullptr || debug->r_state != r_debug::RT_CONSISTENT) return;
  // Nothing is loaded before there is a thread block. A lower half of a former version has no such table.
  if (seam::fs_base() == 0 || seam::control()->for_core == nullptr) return;
  seam::call_lower<int>(&seam::control()->for_core, seam::kObjectsChanged);
}

// Called by entry.S. Two threads may both write the target: it is the same address.
__attribute__((visibility("hidden"), used)) void* cropdl_find_late_call(seam::LateCall* call) {
  const seam::LateLibrary& its = *call->library;
  void* library = its.open(its.path, RTLD_NOW);
  void* target = library != nullptr ? its.find(library, call->name) : nullptr;
  if (target == nullptr) {
    say(library != nullptr && call->line != nullptr ? call->line : its.cannot);
    leave_process({__NR_exit_group, {1}});
  }
  call->target = target;
  return target;
}

__attribute__((visibility("hidden"), used)) int64_t cropdl_no_call(seam::LateCall* call) {
  if (const char* line = __atomic_exchange_n(&call->line, nullptr, __ATOMIC_RELAXED)) say(line);
  return call->result;
}

}  // extern "C"

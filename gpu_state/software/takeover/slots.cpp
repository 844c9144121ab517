#include "gpu_state/software/takeover/slots.h"

#include <dlfcn.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <set>

#include "base/format.h"
#include "base/say.h"

extern "C" {
// entries.S
void cropdl_takeover_first_call();
void cropdl_takeover_not_there();
// and what they call
__attribute__((visibility("hidden"), used)) void* cropdl_takeover_find(cropdl::takeover::Slot* slot);
__attribute__((visibility("hidden"), used)) int cropdl_takeover_say_not_there(cropdl::takeover::Slot* slot);
}

namespace cropdl::takeover {

namespace {

// Made at first use, before or after this library's constructors, and never destroyed: programs call the
// runtime while they exit.
struct Slots {
  std::mutex mutex;
  std::string library;
  std::map<std::string, Slot> by_name;
  std::set<const Slot*> said;
};
Slots& slots() {
  static Slots* all = new Slots;
  return *all;
}

[[noreturn]] void cannot(const std::string& why) {
  say("software GPU: " + why);
  _exit(1);
}

}  // namespace

void set_library(std::string path) { slots().library = std::move(path); }
const std::string& library() { return slots().library; }

Slot* slot_for(const std::string& name) {
  std::lock_guard lock(slots().mutex);
  auto [at, is_new] = slots().by_name.try_emplace(name);
  if (is_new) {
    at->second.name = at->first.c_str();
    at->second.target = reinterpret_cast<void*>(cropdl_takeover_first_call);
  }
  return &at->second;
}

}  // namespace cropdl::takeover

using cropdl::takeover::Slot;
using cropdl::takeover::slots;

void* cropdl_takeover_find(Slot* slot) {
  // No lock: dlopen runs constructors, and two threads would write the same address.
  const std::string& path = cropdl::takeover::library();
  void* runtime = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!runtime) cropdl::takeover::cannot(cropdl::formatted("the runtime cannot be loaded: {}", dlerror()));
  void* target = dlsym(runtime, slot->name);
  // Functions that compiler-generated code calls cannot report errors.
  if (!target && slot->name[0] == '_')
    cropdl::takeover::cannot(
        cropdl::formatted("{} has no {}, which this program's code for CUDA needs", path, slot->name));
  if (!target) target = reinterpret_cast<void*>(cropdl_takeover_not_there);
  __atomic_store_n(&slot->target, target, __ATOMIC_RELEASE);
  return target;
}

int cropdl_takeover_say_not_there(Slot* slot) {
  bool first;
  {
    std::lock_guard lock(slots().mutex);
    first = slots().said.insert(slot).second;
  }
  if (first)
    cropdl::say(cropdl::formatted("software GPU: {} is not built: it answers \"not supported\"", slot->name));
  return 801;  // cudaErrorNotSupported
}

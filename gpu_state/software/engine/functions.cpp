// The process's function pointers. They lie where nothing can be mapped, and are never used twice.
#include <mutex>

#include "gpu_state/software/engine/routine.h"
#include "gpu_state/software/engine/running.h"

namespace cropdl::engine {

namespace {
struct Functions {
  std::mutex mutex;
  uint64_t next = base_of(Window::kFunction) + 0x100;
  std::map<uint64_t, std::function<Result<std::shared_ptr<const Kernel>>()>> all;
};
Functions& functions() {
  static auto* kFunctions = new Functions;  // never freed: threads may ask until the process ends
  return *kFunctions;
}
}  // namespace

uint64_t add_function(std::function<Result<std::shared_ptr<const Kernel>>()> lowered) {
  Functions& f = functions();
  std::lock_guard lock(f.mutex);
  uint64_t address = f.next;
  f.next += 16;
  f.all.emplace(address, std::move(lowered));
  return address;
}

void remove_function(uint64_t address) {
  Functions& f = functions();
  std::lock_guard lock(f.mutex);
  f.all.erase(address);
}

std::shared_ptr<const Kernel> find_function(uint64_t address, std::string* why) {
  Functions& f = functions();
  std::function<Result<std::shared_ptr<const Kernel>>()> lowered;
  {
    std::lock_guard lock(f.mutex);
    auto found = f.all.find(address);
    if (found == f.all.end()) {
      *why = "no function is there";
      return nullptr;
    }
    lowered = found->second;
  }
  auto kernel = lowered();
  if (!kernel) {
    *why = kernel.error().message;
    return nullptr;
  }
  return *kernel;
}

}  // namespace cropdl::engine

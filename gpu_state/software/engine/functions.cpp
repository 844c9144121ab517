// Function pointers of the process, at addresses where nothing can be mapped. A function's address depends
// only on what its device has loaded at the time, not on earlier contents or other devices: code loaded in
// the same order gets the same addresses, like variables (device/area.h).
#include <map>
#include <mutex>
#include <set>

#include "gpu_state/software/engine/routine.h"
#include "gpu_state/software/engine/running.h"

namespace cropdl::engine {

namespace {
struct Functions {
  std::mutex mutex;
  struct Room {
    uint64_t used = 0;          // all numbers below it were given out
    std::set<uint64_t> vacant;  // ... and these were returned
  };
  std::map<int, Room> rooms;  // by device
  std::map<uint64_t, std::function<Result<std::shared_ptr<const Kernel>>()>> all;
};
constexpr uint64_t kEach = 16, kFirst = 0x100;
constexpr int kShift = 32;  // of one device's part
uint64_t part_of(int device) {
  return base_of(Window::kFunction) + (static_cast<uint64_t>(device + 1) << kShift) + kFirst;
}

Functions& functions() {
  static auto* kFunctions = new Functions;  // never freed: threads may use it until the process ends
  return *kFunctions;
}
}  // namespace

uint64_t add_function(int device, std::function<Result<std::shared_ptr<const Kernel>>()> lowered) {
  Functions& f = functions();
  std::lock_guard lock(f.mutex);
  Functions::Room& room = f.rooms[device];
  const uint64_t number = room.vacant.empty() ? room.used++ : *room.vacant.begin();
  room.vacant.erase(number);
  const uint64_t address = part_of(device) + number * kEach;
  f.all.emplace(address, std::move(lowered));
  return address;
}

void remove_function(uint64_t address) {
  Functions& f = functions();
  std::lock_guard lock(f.mutex);
  if (!f.all.erase(address)) return;
  const int device = static_cast<int>((address - part_of(-1)) >> kShift) - 1;
  f.rooms[device].vacant.insert((address - part_of(device)) / kEach);
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

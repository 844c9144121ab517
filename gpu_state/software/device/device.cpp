#include "gpu_state/software/device/device.h"

#include <pthread.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/format.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

enum class State { kNew, kReady, kNoDevice, kForked };
std::atomic<State> state{State::kNew};
std::vector<std::unique_ptr<Device>>& devices() {
  static auto& all = *new std::vector<std::unique_ptr<Device>>;
  return all;
}

CUuuid uuid_of(int physical) {
  CUuuid uuid{};
  std::memcpy(uuid.bytes, "CropDL soft GPU", 15);  // the same in every process, since ranks compare them
  uuid.bytes[15] = static_cast<char>(physical);
  return uuid;
}

// The device number that an entry of CUDA_VISIBLE_DEVICES denotes; -1: none. (Indices, and UUIDs, which may
// be abbreviated if unambiguous. CUDA C++ Programming Guide, "Environment Variables".)
int physical_of(std::string_view entry, int there_are) {
  int number = -1;
  auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  if (error == std::errc() && end == entry.data() + entry.size())
    return number >= 0 && number < there_are ? number : -1;
  if (entry.substr(0, 4) != "GPU-") return -1;
  int found = -1;
  for (int physical = 0; physical < there_are; ++physical) {
    if (text_of(uuid_of(physical)).substr(0, entry.size()) != entry) continue;
    if (found >= 0) return -1;
    found = physical;
  }
  return found;
}

std::vector<int> visible() {
  int there_are = settings::settings().devices;
  std::vector<int> list;
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!text) {
    for (int physical = 0; physical < there_are; ++physical) list.push_back(physical);
    return list;
  }
  std::string_view rest = text;
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::string_view entry = rest.substr(0, comma);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    int physical = physical_of(entry, there_are);
    if (physical < 0) break;
    for (int before : list)
      if (before == physical) return {};  // a duplicate: the driver then shows no devices
    list.push_back(physical);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return list;
}

}  // namespace

std::string text_of(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(uuid.bytes[i]) >> 4];
    text += kDigits[uuid.bytes[i] & 15];
  }
  return text;
}

Device::Device(int ordinal, int physical) : ordinal(ordinal), physical(physical) {}
Device::~Device() = default;

Memory& Device::memory() {
  std::call_once(memory_made_, [this] { memory_ = std::make_unique<Memory>(ordinal); });
  return *memory_;
}

engine::WorkerPool& Device::worker_pool() {
  std::call_once(processors_made_, [this] {
    const auto& settings = settings::settings();
    Capability per = capability();
    engine::Multiprocessor each{static_cast<uint32_t>(per.threads), static_cast<uint32_t>(per.blocks),
                                static_cast<uint32_t>(per.shared),
                                static_cast<uint32_t>(per.shared_reserved)};
    worker_pool_ =
        std::make_unique<engine::WorkerPool>(settings.multiprocessors, settings.cores, physical, each);
  });
  return *worker_pool_;
}

CUuuid Device::uuid() const { return uuid_of(physical); }

std::string Device::pci_bus_id() const {
  int bus = 0, slot = 0, domain = 0;
  attribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  attribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  attribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  char text[20];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", domain, bus, slot);
  return text;
}

CUresult initialize() {
  static std::once_flag once;
  if (state.load() == State::kForked) return CUDA_ERROR_NOT_INITIALIZED;
  std::call_once(once, [] {
    int ordinal = 0;
    for (int physical : visible()) devices().push_back(std::make_unique<Device>(ordinal++, physical));
    pthread_atfork(nullptr, nullptr, [] { state.store(State::kForked); });
    state.store(devices().empty() ? State::kNoDevice : State::kReady);
    settings::say_once_that_this_is_software();
  });
  return state.load() == State::kNoDevice ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

int count() { return state.load() == State::kReady ? static_cast<int>(devices().size()) : 0; }

Device* find(int ordinal) { return ordinal >= 0 && ordinal < count() ? devices()[ordinal].get() : nullptr; }

}  // namespace cropdl::device

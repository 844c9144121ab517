#include "gpu_state/software/settings/settings.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "base/format.h"
#include "base/say.h"

namespace cropdl::settings {

namespace {

[[noreturn]] void cannot_read(const char* name, std::string_view value, std::string_view wanted) {
  say(formatted("software GPU: {}={} cannot be read: it must be {}", name, value, wanted));
  std::_Exit(1);
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void read_count(const char* name, int least, int most, int* into) {
  const char* text = std::getenv(name);
  if (!text) return;
  auto value = number(text);
  if (!value || *value < static_cast<uint64_t>(least) || *value > static_cast<uint64_t>(most))
    cannot_read(name, text, formatted("a number from {} to {}", least, most));
  *into = static_cast<int>(*value);
}

void read_memory(size_t* into) {
  constexpr const char* kName = "CROPDL_SOFTWARE_GPU_MEMORY";
  const char* text = std::getenv(kName);
  if (!text) return;
  std::string_view digits = text;
  int shift = 0;
  if (!digits.empty()) {
    if (digits.back() == 'K') shift = 10;
    if (digits.back() == 'M') shift = 20;
    if (digits.back() == 'G') shift = 30;
    if (shift) digits.remove_suffix(1);
  }
  auto value = number(digits);
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (!value || *value > kMost >> shift || (*value << shift) < (uint64_t{16} << 20))
    cannot_read(kName, text, "bytes from 16M to 1024G, with K, M or G behind the number");
  *into = *value << shift;
}

void read_capability(Settings* into) {
  constexpr const char* kName = "CROPDL_SOFTWARE_GPU_CAPABILITY";
  const char* text = std::getenv(kName);
  if (!text) return;
  std::string_view all = text;
  size_t dot = all.find('.');
  auto major = number(all.substr(0, dot));
  auto minor = dot == all.npos ? std::nullopt : number(all.substr(dot + 1));
  constexpr std::array<uint64_t, 6> kThereAre = {75, 80, 86, 87, 89, 90};
  if (!major || !minor || *major > 9 || *minor > 9 ||
      std::find(kThereAre.begin(), kThereAre.end(), *major * 10 + *minor) == kThereAre.end())
    cannot_read(kName, text, "a compute capability: 7.5, 8.0, 8.6, 8.7, 8.9 or 9.0");
  into->major = static_cast<int>(*major);
  into->minor = static_cast<int>(*minor);
}

std::vector<std::string_view> parts_of(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    size_t at = text.find(between);
    parts.push_back(text.substr(0, at));
    text = at == text.npos ? std::string_view() : text.substr(at + 1);
  }
  return parts;
}

void read_faults(Settings* into) {
  constexpr const char* kName = "CROPDL_SOFTWARE_GPU_FAIL";
  const char* text = std::getenv(kName);
  if (!text) return;
  for (std::string_view one : parts_of(text, ',')) {
    auto words = parts_of(one, ':');
    std::optional<uint64_t> which, error = 0;
    if (words.size() >= 2) which = number(words[1]);
    if (words.size() == 3) error = number(words[2]);
    if (words.size() > 3 || !which || !*which || !error || *error > 999 ||
        std::find(kKinds.begin(), kKinds.end(), words[0]) == kKinds.end())
      cannot_read(kName, text,
                  "KIND:NUMBER[:ERROR], with commas between several, KIND one of " + kinds_for_people());
    into->faults.push_back({std::string(words[0]), *which, static_cast<int>(*error)});
  }
}

void read_slow(Settings* into) {
  constexpr const char* kName = "CROPDL_SOFTWARE_GPU_SLOW";
  const char* text = std::getenv(kName);
  if (!text) return;
  for (std::string_view one : parts_of(text, ',')) {
    auto words = parts_of(one, ':');
    char* end = nullptr;
    std::string times = words.size() == 2 ? std::string(words[1]) : "";
    double value = std::strtod(times.c_str(), &end);
    if (times.empty() || *end || !std::isfinite(value) || value < 1 || value > 1e6 ||
        std::find(kKinds.begin(), kKinds.end(), words[0]) == kKinds.end())
      cannot_read(kName, text,
                  "KIND:TIMES, TIMES from 1 to 1000000, with commas between several, KIND one of " +
                      kinds_for_people());
    into->slow.emplace_back(words[0], value);
  }
}

// An unknown name is probably misspelt.
void check_names() {
  constexpr std::string_view kPrefix = "CROPDL_SOFTWARE_GPU";
  constexpr std::array<std::string_view, 11> kNames = {
      "S",     "_MEMORY", "_CAPABILITY", "_MULTIPROCESSORS", "_CORES",    "_SEED",
      "_SLOW", "_FAIL",   "_FRESH",      "_QUIET",           "_DIRECTORY"};  // last: scripts/software-gpu's
  for (char** one = environ; one && *one; ++one) {
    std::string_view name = std::string_view(*one).substr(0, std::string_view(*one).find('='));
    if (!name.starts_with(kPrefix) ||
        std::find(kNames.begin(), kNames.end(), name.substr(kPrefix.size())) != kNames.end())
      continue;
    std::string known;
    for (std::string_view end : kNames) known += formatted("{}{}{}", known.empty() ? "" : ", ", kPrefix, end);
    say(formatted("software GPU: there is no switch {}: they are {}", name, known));
    std::_Exit(1);
  }
}

Settings read() {
  Settings result;
  check_names();
  read_count("CROPDL_SOFTWARE_GPUS", 1, 16, &result.devices);
  read_memory(&result.memory);
  read_capability(&result);
  read_count("CROPDL_SOFTWARE_GPU_MULTIPROCESSORS", 1, 256, &result.multiprocessors);
  read_count("CROPDL_SOFTWARE_GPU_CORES", 1, 256, &result.cores);
  if (const char* text = std::getenv("CROPDL_SOFTWARE_GPU_SEED")) {
    result.seed = number(text);
    if (!result.seed) cannot_read("CROPDL_SOFTWARE_GPU_SEED", text, "a number");
  }
  read_slow(&result);
  read_faults(&result);
  if (const char* text = std::getenv("CROPDL_SOFTWARE_GPU_FRESH")) {
    result.pattern = std::string_view(text) == "pattern";
    if (!result.pattern && std::string_view(text) != "zeros")
      cannot_read("CROPDL_SOFTWARE_GPU_FRESH", text, "zeros or pattern");
  }
  if (const char* text = std::getenv("CROPDL_SOFTWARE_GPU_QUIET"))
    result.quiet = *text && std::string_view(text) != "0";
  return result;
}

// splitmix64 (Vigna): good enough for choices, and every state is valid.
uint64_t next(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

std::string kinds_for_people() {
  std::string text;
  for (std::string_view kind : kKinds) text += (text.empty() ? "" : ", ") + std::string(kind);
  return text;
}

const Settings& settings() {
  static const Settings* kSettings =
      new Settings(read());  // never freed: threads may use it until the process ends
  return *kSettings;
}

void say_once_that_this_is_software() {
  static std::atomic<bool> said;
  if (settings().quiet || said.exchange(true)) return;
  int devices = settings().devices;
  say(formatted("software GPU: this process runs on {} software device{}, not on a GPU", devices,
                devices == 1 ? "" : "s"));
}

void say_not_built(std::string_view name, std::string_view speaker) {
  static std::mutex* mutex = new std::mutex;
  static auto* said = new std::set<std::string, std::less<>>;
  std::lock_guard lock(*mutex);
  if (said->emplace(name).second)
    say(formatted("{}: {} is not built: it answers \"not supported\"", speaker, name));
}

int injected(std::string_view kind) {
  if (settings().faults.empty()) return 0;
  static std::mutex* mutex = new std::mutex;
  static auto* counts = new std::map<std::string, uint64_t, std::less<>>;
  std::lock_guard lock(*mutex);
  uint64_t count = ++(*counts)[std::string(kind)];
  for (const Fault& fault : settings().faults)
    if (fault.kind == kind && fault.number == count) return fault.error ? fault.error : -1;
  return 0;
}

double slowdown(std::string_view kind) {
  for (const auto& [name, times] : settings().slow)
    if (name == kind) return times;
  return 1;
}

Chooser::Chooser(uint64_t who) : random_(settings().seed.has_value()), state_(0) {
  uint64_t mixed = settings().seed.value_or(0);
  state_ = next(&mixed) ^ (who * 0xd1342543de82ef95u);
}

uint32_t Chooser::pick(uint32_t count) {
  if (!random_ || count < 2) return 0;
  return static_cast<uint32_t>((next(&state_) >> 32) * count >> 32);
}

}  // namespace cropdl::settings

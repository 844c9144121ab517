// Credentials (user, groups, capabilities) of the calling thread, as text. Uses raw system calls: the C
// library would also change the LH's other threads, which the program does not know. LH, main thread.
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/format.h"
#include "restart/process/attribute_calls.h"

namespace cropdl::process {
namespace {

constexpr int kMostCapabilities = 64;
// The securebit that keeps permitted capabilities over a change of the user ids (man 7 capabilities). The
// only one that needs no privilege to change; it has a call of its own (man 2 prctl, PR_SET_KEEPCAPS).
constexpr unsigned long kKeepCapabilities = 1 << SECURE_KEEP_CAPS;
bool keep_capabilities(unsigned long secure_bits) {
  return prctl(PR_SET_KEEPCAPS, (secure_bits & kKeepCapabilities) != 0 ? 1 : 0, 0, 0, 0) == 0;
}

std::string hex(uint64_t value) { return formatted("{:016x}", value); }

struct Capabilities {
  uint64_t effective = 0, permitted = 0, inheritable = 0;
};

bool get(Capabilities& c) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  c = {data[0].effective | static_cast<uint64_t>(data[1].effective) << 32,
       data[0].permitted | static_cast<uint64_t>(data[1].permitted) << 32,
       data[0].inheritable | static_cast<uint64_t>(data[1].inheritable) << 32};
  return true;
}

bool set(const Capabilities& c) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
  const auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
  const __user_cap_data_struct data[2] = {{low(c.effective), low(c.permitted), low(c.inheritable)},
                                          {high(c.effective), high(c.permitted), high(c.inheritable)}};
  return syscall(SYS_capset, &header, data) == 0;
}

uint64_t capabilities_that(int option, unsigned long second) {
  uint64_t all = 0;
  for (unsigned long c = 0; c < kMostCapabilities; ++c) {
    const int result = option == PR_CAPBSET_READ ? prctl(option, c, 0, 0, 0) : prctl(option, second, c, 0, 0);
    if (result > 0) all |= 1ull << c;
  }
  return all;
}
uint64_t bounding() { return capabilities_that(PR_CAPBSET_READ, 0); }
// Every ambient capability is inheritable, too (man 7 capabilities).
uint64_t ambient() {
  Capabilities c;
  if (get(c) && c.inheritable == 0) return 0;
  return capabilities_that(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET);
}

template <class T>
std::vector<T> words(const std::string& text, int base = 10) {
  std::vector<T> out;
  const char* at = text.c_str();
  for (char* end;; at = end) {
    const auto value = strtoull(at, &end, base);
    if (end == at) return out;
    out.push_back(static_cast<T>(value));
  }
}

std::string ids(long call, long file_system_call) {
  unsigned id[3] = {};
  if (syscall(call, &id[0], &id[1], &id[2]) != 0) return "";
  const auto own = static_cast<unsigned>(syscall(file_system_call, -1L));  // changes nothing; returns the id
  return formatted("{} {} {} {}", id[0], id[1], id[2], own);
}

bool set_ids(const std::string& value, long call, long file_system_call) {
  const auto id = words<unsigned>(value);
  if (id.size() != 4) return errno = EINVAL, false;
  if (syscall(call, id[0], id[1], id[2]) != 0) return false;
  syscall(file_system_call, id[3]);  // reports no error; the caller reads it back
  return true;
}

bool raise_all() {
  Capabilities c;
  if (!get(c)) return false;
  c.effective = c.permitted;
  return set(c);
}

}  // namespace

std::string read_user_ids(int) { return ids(SYS_getresuid, SYS_setfsuid); }
std::string read_group_ids(int) { return ids(SYS_getresgid, SYS_setfsgid); }

std::string read_groups(int) {
  std::vector<gid_t> all(65536);  // NGROUPS_MAX
  const int n = getgroups(static_cast<int>(all.size()), all.data());
  if (n < 0) return "";
  std::string out = std::to_string(n);
  for (int i = 0; i < n; ++i) out += formatted(" {}", all[static_cast<size_t>(i)]);
  return out;
}

std::string read_capabilities(int) {
  Capabilities c;
  return get(c) ? hex(c.effective) + " " + hex(c.permitted) + " " + hex(c.inheritable) : "";
}
std::string read_bounding_set(int) { return hex(bounding()); }
std::string read_ambient_set(int) { return hex(ambient()); }
std::string read_secure_bits(int) {
  const int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
  return bits < 0 ? "" : hex(static_cast<uint64_t>(bits));
}

// Uses privileges first for all that needs them, then changes the user ids but keeps capabilities, and sets
// these last. attributes.cpp reads everything back to find failures.
bool restore_credentials(const AttributeValues& saved) {
  // The saved value, if it is another one than now; else null.
  const auto wanted = [&](const char* name, AttributeReader* read) -> const std::string* {
    const auto found = saved.find(name);
    return found == saved.end() || found->second == read(0) ? nullptr : &found->second;
  };
  if (const auto* groups = wanted(kGroups, read_groups)) {
    auto list = words<gid_t>(*groups);
    if (list.empty() || syscall(SYS_setgroups, list.size() - 1, list.data() + 1) != 0) return false;
  }
  if (const auto* group_ids = wanted(kGroupIds, read_group_ids))
    if (!set_ids(*group_ids, SYS_setresgid, SYS_setfsgid)) return false;

  const auto* user_ids = wanted(kUserIds, read_user_ids);
  const bool other_sets = saved.count(kCapabilities) + saved.count(kBoundingSet) + saved.count(kAmbientSet) +
                              saved.count(kSecureBits) !=
                          0;
  const auto bits_before = static_cast<unsigned long>(prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
  if (user_ids != nullptr) {
    if (other_sets) keep_capabilities(kKeepCapabilities);
    if (!set_ids(*user_ids, SYS_setresuid, SYS_setfsuid)) return false;
    if (other_sets && !raise_all()) return false;
  }
  if (const auto* value = wanted(kBoundingSet, read_bounding_set)) {
    const uint64_t drop = bounding() & ~strtoull(value->c_str(), nullptr, 16);
    for (unsigned long c = 0; c < kMostCapabilities; ++c)
      if ((drop >> c & 1) != 0 && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) != 0) return false;
  }
  if (const auto* ambient_set = wanted(kAmbientSet, read_ambient_set)) {
    const uint64_t target = strtoull(ambient_set->c_str(), nullptr, 16);
    Capabilities c;
    if (!get(c)) return false;
    c.inheritable |= target & c.permitted;  // an ambient capability must be permitted and inheritable
    if (!set(c)) return false;
    for (unsigned long cap = 0; cap < kMostCapabilities; ++cap) {
      const bool have = (ambient() >> cap & 1) != 0, want = (target >> cap & 1) != 0;
      if (have != want &&
          prctl(PR_CAP_AMBIENT, want ? PR_CAP_AMBIENT_RAISE : PR_CAP_AMBIENT_LOWER, cap, 0, 0) != 0)
        return false;
    }
  }
  if (const auto* secure_bits = wanted(kSecureBits, read_secure_bits)) {
    const unsigned long bits = strtoull(secure_bits->c_str(), nullptr, 16);
    const auto now = static_cast<unsigned long>(prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
    const bool only_keep = ((bits ^ now) & ~kKeepCapabilities) == 0;
    if (only_keep ? !keep_capabilities(bits) : prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) != 0) return false;
  } else if (saved.count(kSecureBits) == 0 && user_ids != nullptr && other_sets) {
    keep_capabilities(bits_before);
  }
  const auto* capabilities = wanted(kCapabilities, read_capabilities);
  if (capabilities == nullptr) return true;
  const auto sets = words<uint64_t>(*capabilities, 16);
  if (sets.size() != 3) return errno = EINVAL, false;
  return set({sets[0], sets[1], sets[2]});
}

}  // namespace cropdl::process

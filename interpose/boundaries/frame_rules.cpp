#include "interpose/boundaries/frame_rules.h"

#include <dlfcn.h>
#include <link.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace cropdl::boundaries {

FrameRules frame_rules;

namespace {

// Finds the object that contains the instruction before `site`. The program's C library knows: its
// _dl_find_object (glibc 2.35) takes no lock and uses no thread-local storage, so that it can be called with
// the LH's FS base.
bool find_object(uint64_t site, dl_find_object* object) {
  constexpr uint64_t kNotLookedFor = 0, kNone = 1;
  uint64_t function = __atomic_load_n(&frame_rules.object_finder, __ATOMIC_RELAXED);
  if (function == kNotLookedFor) {
    function = c_library_symbol != nullptr ? c_library_symbol("_dl_find_object") : 0;
    if (function == 0) function = kNone;
    __atomic_store_n(&frame_rules.object_finder, function, __ATOMIC_RELAXED);
  }
  return function != kNone && reinterpret_cast<decltype(&_dl_find_object)>(function)(
                                  reinterpret_cast<void*>(site - 1), object) == 0;
}

// Whether the aligned word can be read: FUTEX_WAIT does, and does not wait this short (man 2 futex).
bool is_readable(uint64_t word) {
  const timespec now{};
  return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, &now, nullptr, 0) == 0 || errno != EFAULT;
}

// Whether a call instruction ends there, in an object: E8 with 4 bytes, or FF /2 with 1 to 6 bytes.
bool is_return_address(uint64_t site) {
  dl_find_object object{};
  if (!find_object(site, &object) || site - reinterpret_cast<uint64_t>(object.dlfo_map_start) < 8)
    return false;
  unsigned char before[7];
  if (!is_readable((site - 7) & ~uint64_t{7}) || !is_readable((site - 1) & ~uint64_t{7})) return false;
  std::memcpy(before, reinterpret_cast<const void*>(site - sizeof before), sizeof before);
  if (before[2] == 0xe8) return true;
  for (size_t i = 0; i + 1 < sizeof before; ++i)
    if (before[i] == 0xff && (before[i + 1] & 0x38) == 0x10) return true;
  return false;
}

bool leads_to_a_caller(const FrameRule& rule, const Frame& f) {
  const uint64_t cfa = cfa_of(rule, f);
  if (cfa == 0 || cfa % 8 != 0 || !is_readable(cfa - 8)) return false;
  if (rule.saved_bp > 0 &&
      (rule.saved_bp % 8 != 0 || !is_readable(cfa - static_cast<uint64_t>(rule.saved_bp))))
    return false;
  return is_return_address(reinterpret_cast<const uint64_t*>(cfa)[-1]);
}

bool is_binding(const link_map* object) {
  const char* name = object != nullptr ? object->l_name : nullptr;
  if (name == nullptr) return false;
  const char* slash = std::strrchr(name, '/');
  return std::strncmp(slash != nullptr ? slash + 1 : name, "libmpi", 6) == 0;
}

FrameRule rule_for(const Frame& f) {
  FrameRule rule;
  dl_find_object object{};
  if (!find_object(f.site, &object)) return rule;
  rule = read_rule(f.site, reinterpret_cast<uint64_t>(object.dlfo_eh_frame));
  rule.in_object = true;
  rule.in_binding = is_binding(object.dlfo_link_map);
  if (!leads_to_a_caller(rule, f)) FrameRules::forget(rule);
  return rule;
}

}  // namespace

FrameRule& FrameRules::find(const Frame& f) {
  static FrameRule none{.in_object = true};  // it may be
  if (f.site == 0 || f.site == kClaimed) return none;
  FrameRule* free_slot = nullptr;
  for (size_t i = 0; i < kProbes; ++i) {
    FrameRule& r = rules[slot_of(f.site, i)];
    const uint64_t at = __atomic_load_n(&r.at, __ATOMIC_ACQUIRE);
    if (at == f.site) return r;
    if (at == 0 && free_slot == nullptr) free_slot = &r;
  }
  // Two threads, or a thread and its signal handler, may fill two slots for one site: the first one is used.
  // A slot stays claimed if a handler does not return to who claimed it.
  uint64_t empty = 0;
  if (free_slot == nullptr || !__atomic_compare_exchange_n(&free_slot->at, &empty, kClaimed, false,
                                                           __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return free_slot == nullptr ? none : find(f);
  FrameRule rule = rule_for(f);
  free_slot->above_sp = rule.above_sp;
  free_slot->above_bp = rule.above_bp;
  free_slot->saved_bp = rule.saved_bp;
  free_slot->in_object = rule.in_object;
  free_slot->in_binding = rule.in_binding;
  free_slot->settle();
  __atomic_store_n(&free_slot->at, f.site, __ATOMIC_RELEASE);
  return *free_slot;
}

}  // namespace cropdl::boundaries

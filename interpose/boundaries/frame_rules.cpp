#include "interpose/boundaries/frame_rules.h"

#include <dlfcn.h>

#include <cstring>
#include <mutex>

#include "interpose/boundaries/unwind_row.h"

namespace cropdl::boundaries {

FrameRules frame_rules;

namespace {

constexpr size_t kProbes = 16;  // slots that a rule may be in

}  // namespace

FrameRule read_rule(uint64_t site, uint64_t eh_frame_hdr) {
  FrameRule rule;
  rule.at = site;
  UnwindRow row;
  if (!find_unwind_row(site - 1, eh_frame_hdr, &row)) return rule;
  if (row.cfa_offset <= 0 || row.cfa_offset >= kLargestFrame || row.cfa_offset % 8 != 0) return rule;
  if (row.cfa_register == kRsp)
    rule.above_sp = row.cfa_offset;
  else if (row.cfa_register == kRbp)
    rule.above_bp = row.cfa_offset;
  rule.saved_bp = row.rbp_is_lost ? -1 : row.saved_rbp;
  return rule;
}

// The program's C library knows best: _dl_find_object (glibc 2.35) takes no lock and uses no thread-local
// storage, so that it can be called with the LH's FS base.
uint64_t FrameRules::unwind_tables_at(uint64_t site) {
  if (!find_object && program_symbol != nullptr) find_object = program_symbol("_dl_find_object");
  const auto find = reinterpret_cast<decltype(&_dl_find_object)>(find_object.value_or(0));
  dl_find_object found{};
  if (find == nullptr || find(reinterpret_cast<void*>(site - 1), &found) != 0) return 0;
  return reinterpret_cast<uint64_t>(found.dlfo_eh_frame);
}

const FrameRule& FrameRules::find(uint64_t site) {
  static const FrameRule kNone;
  static std::mutex mutex;
  const size_t first = slot_of(site);
  for (size_t i = 0; i < kProbes; ++i)
    if (const FrameRule& r = rules[(first + i) % kRules]; r.at == site) return r;
  std::lock_guard lock(mutex);
  for (size_t i = 0; i < kProbes; ++i) {
    FrameRule& r = rules[(first + i) % kRules];
    if (r.at == site) return r;
    if (r.at != 0) continue;
    const FrameRule read = read_rule(site, unwind_tables_at(site));
    r.above_sp = read.above_sp;
    r.above_bp = read.above_bp;
    r.saved_bp = read.saved_bp;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // x86-64 keeps the order of stores
    r.at = site;
    return r;
  }
  return kNone;
}

}  // namespace cropdl::boundaries

// What the two hosts of this folder share: a window's control page and a thread record, so that the gate
// works in a process without a split, and the smallest runtime of virtual handles.
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "interpose/gen/one_abi/lower.h"
#include "interpose/seam/thread.h"
#include "slots.h"

namespace cropdl::one_abi {

inline constexpr uint64_t kTag = 0x7a7aull << 48;
inline std::map<uint64_t, uint64_t> reals;  // by virtual handle
inline std::map<uint32_t, std::string> unsaved;

uint64_t real_word(uint64_t handle) {
  const auto found = reals.find(handle);
  return found == reals.end() ? handle : found->second;
}
uint64_t made_word(uint64_t real, uint32_t) {
  static uint64_t next = 1;
  return reals.emplace(kTag | next, real), kTag | next++;
}
uint64_t known_word(uint64_t real, uint32_t function) {
  for (const auto& [handle, was] : reals) {
    if (was == real) return handle;
  }
  return real ? made_word(real, function) : 0;
}
void forget_word(uint64_t handle) { reals.erase(handle); }
void mark_unsaved(uint32_t function, const char* why) { unsaved[function] = why; }
const char* kept_text(const char* text) {
  static std::set<std::string> texts;
  return text ? texts.insert(text).first->c_str() : nullptr;
}

}  // namespace cropdl::one_abi

namespace one_abi_test {

inline int failures = 0;
inline void expect(bool holds, const char* what) {
  if (holds) return;
  printf("not so: %s\n", what);
  ++failures;
}

inline void prepare_gate() {
  using namespace cropdl;
  void* at = reinterpret_cast<void*>(seam::kControlPage);
  if (mmap(at, seam::kControlPageSize, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at) {
    perror("mmap of the control page");
    exit(2);
  }
  static seam::ThreadRecord thread;
  thread.self = &thread;
  thread.lower_fs = thread.upper_fs = seam::fs_base();
  seam::set_gs_base(reinterpret_cast<uint64_t>(&thread));
}

// The generated upper half, in a linker namespace of its own, above `table`.
inline void* load_upper(const char* file, unsigned number, void* const* table) {
  *slot(number) = table;
  void* upper = dlmopen(LM_ID_NEWLM, file, RTLD_NOW);
  if (!upper) {
    printf("not so: %s\n", dlerror());
    exit(2);
  }
  return upper;
}

template <class F>
F function(void* upper, const char* name, const char* version = nullptr) {
  void* found = version ? dlvsym(upper, name, version) : dlsym(upper, name);
  if (!found) {
    printf("not so: the upper half has %s %s\n", name, version ? version : "");
    exit(2);
  }
  return reinterpret_cast<F>(found);
}

}  // namespace one_abi_test

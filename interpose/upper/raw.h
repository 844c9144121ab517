// Raw system calls and the few memory helpers of the upper half's core. Freestanding: no libc, no TLS, no
// data of its own, general registers only. Any thread, any FS base.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cropdl::upper {

// Linux x86-64 calling convention (man 2 syscall). The core's own text is trusted by the seccomp filter, so
// these are never trapped. Result: as the kernel gives it (-errno on failure).
inline long raw(long nr, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

constexpr bool failed(long result) {
  return static_cast<unsigned long>(result) >= static_cast<unsigned long>(-4095L);
}
// Whether the kernel would read `size` (>= 8) bytes at `p`: rt_sigprocmask looks at its set before it refuses
// a bad `how` (kernel/signal.c), and changes nothing.
inline bool can_be_read(const void* p, size_t size) {
  constexpr long kNoSuchHow = 99, kBadAddress = -14;  // EFAULT
  const auto at = reinterpret_cast<long>(p);
  return raw(14 /* rt_sigprocmask */, kNoSuchHow, at, 0, 8) != kBadAddress &&
         raw(14, kNoSuchHow, at + static_cast<long>(size) - 8, 0, 8) != kBadAddress;
}
constexpr uint64_t page_up(uint64_t n) { return (n + 4095) & ~4095ull; }

inline bool equal(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}
inline bool starts_with(const char* text, const char* prefix) {
  while (*prefix != 0 && *text == *prefix) ++text, ++prefix;
  return *prefix == 0;
}
inline const char* base_name(const char* path) {
  const char* base = path;
  for (; *path != 0; ++path)
    if (*path == '/') base = path + 1;
  return base;
}

}  // namespace cropdl::upper

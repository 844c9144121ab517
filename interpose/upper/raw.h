// Raw system calls and small memory helpers of the upper half's core. Freestanding: no libc, no TLS, no data
// of its own, general registers only. Any thread, any FS base.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cropdl::upper {

// A pointer as an argument of a system call.
inline long as_word(const volatile void* pointer) { return reinterpret_cast<long>(pointer); }

// A system call by the Linux x86-64 convention (man 2 syscall). The seccomp filter trusts the core's text, so
// these calls are never trapped. Returns the kernel's result (-errno on failure).
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
// Errors that the core itself returns or checks for (include/uapi/asm-generic/errno-base.h).
inline constexpr long kNotPermitted = -1, kNoSuchProcess = -3, kInterrupted = -4, kBadFile = -9, kAgain = -11,
                      kNoMemory = -12, kBadAddress = -14, kExists = -17, kInvalid = -22, kNoSuchCall = -38;

// A set of system calls, by number; constant data of the core.
class CallSet {
 public:
  template <size_t kCount>
  explicit constexpr CallSet(const int (&numbers)[kCount]) {
    for (const int nr : numbers) bits_[nr / 64] |= 1ull << nr % 64;
  }
  constexpr bool has(long nr) const { return nr >= 0 && nr < kEnd && (bits_[nr / 64] >> nr % 64 & 1) != 0; }

 private:
  static constexpr long kEnd = 512;
  uint64_t bits_[kEnd / 64] = {};
};

// The kernel judges the program's pointers: the core dereferences one only if the kernel could, else fails.

// Calls `probe` for an aligned word in each page of [p, p + size).
template <class Probe>
bool every_page(const void* p, size_t size, Probe probe) {
  const auto begin = reinterpret_cast<uint64_t>(p), last = begin + size - 1;
  if (size == 0) return true;
  if (last < begin) return false;
  for (uint64_t at = begin & ~7ull;; at = (at & ~4095ull) + 4096) {
    if (!probe(static_cast<long>(at != 0 ? at : 8))) return false;  // a null argument would not be read
    if ((at ^ last) < 4096) return true;
  }
}

// rt_sigprocmask reads its set before it refuses a bad `how` (kernel/signal.c). It changes nothing.
inline bool can_be_read(const void* p, size_t size) {
  return every_page(p, size, [](long word) {
    constexpr long kNoSuchHow = 99;
    return raw(14 /* rt_sigprocmask */, kNoSuchHow, word, 0, 8) != kBadAddress;
  });
}
// FUTEX_WAKE_OP writes to the word, here adding 0, and wakes its waiters, which must expect spurious wake-ups
// (man 2 futex). The read comes first: it makes a stack grow, the futex call does not.
inline bool can_be_written(const void* p, size_t size) {
  return can_be_read(p, size) && every_page(p, size, [](long word) {
           constexpr long kWakeOp = 5 | 128 /* FUTEX_PRIVATE_FLAG */, kAddNothing = 1l << 28;  // FUTEX_OP_ADD
           uint32_t nobody = 0;
           return raw(202 /* futex */, as_word(&nobody), kWakeOp, 0, 0, word, kAddNothing) != kBadAddress;
         });
}

// Like copy_from_user and copy_to_user. False: EFAULT.
template <class T>
bool copy_in(T* to, long from) {
  const auto* given = reinterpret_cast<const T*>(from);
  if (!can_be_read(given, sizeof *given)) return false;
  *to = *given;
  return true;
}
inline bool copy_out(long to, const void* from, size_t size) {
  auto* out = reinterpret_cast<char*>(to);
  if (!can_be_written(out, size)) return false;
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<const char*>(from)[i];
  return true;
}
template <class T>
bool copy_out(long to, const T& value) {
  return copy_out(to, &value, sizeof value);
}

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

// The index of the symbol with that name for which `is(index)` holds, by the table DT_GNU_HASH; 0: none.
template <class Is>
uint32_t find_symbol(const uint32_t* table, const char* name, Is is) {
  const uint32_t buckets = table[0], offset = table[1], bloom = table[2];
  const uint32_t* const bucket = table + 4 + 2 * size_t{bloom};
  const uint32_t* const chain = bucket + buckets;
  uint32_t wanted = 5381;
  for (const char* p = name; *p != 0; ++p) wanted = wanted * 33 + static_cast<unsigned char>(*p);
  for (uint32_t i = buckets != 0 ? bucket[wanted % buckets] : 0; i >= offset && i != 0; ++i) {
    const uint32_t h = chain[i - offset];
    if ((h | 1) == (wanted | 1) && is(i)) return i;
    if ((h & 1) != 0) break;  // the end of the chain
  }
  return 0;
}

}  // namespace cropdl::upper

// How a thread's arithmetic rounds and treats subnormals: the SSE and x87 modes. A new thread inherits them
// from its creator. Traps are not part of it. Any thread, any FS base.
#pragma once

#include <xmmintrin.h>

#include <cstdint>

namespace cropdl {

struct FloatModes {
  uint32_t sse;  // MXCSR
  uint32_t x87;  // control word
};

inline FloatModes float_modes() {
  uint16_t word = 0;
  __asm__ volatile("fnstcw %0" : "=m"(word));
  return {_mm_getcsr(), word};
}

// Leaves the traps of the calling thread as they are.
inline void set_float_modes(const FloatModes& wanted) {
  // Intel SDM 1, 10.2.3: flush to zero, rounding, denormals are zeros; 8.1.5: rounding, precision
  constexpr uint32_t kSseModes = 0xe040, kX87Modes = 0x0f00;
  const FloatModes now = float_modes();
  _mm_setcsr((now.sse & ~kSseModes) | (wanted.sse & kSseModes));
  const auto word = static_cast<uint16_t>((now.x87 & ~kX87Modes) | (wanted.x87 & kX87Modes));
  __asm__ volatile("fldcw %0" ::"m"(word));
}

// While it lives, the calling thread computes in the modes `wanted`.
class InFloatModes {
 public:
  explicit InFloatModes(const FloatModes& wanted) { set_float_modes(wanted); }
  ~InFloatModes() { set_float_modes(own_); }
  InFloatModes(const InFloatModes&) = delete;
  InFloatModes& operator=(const InFloatModes&) = delete;

 private:
  const FloatModes own_ = float_modes();
};

}  // namespace cropdl

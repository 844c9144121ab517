// Parts of the generated upper half of a library with one ABI: a call through the gate. UH, any thread, UH FS
// base; uses only write and time of libc.
#pragma once

#include <cstddef>
#include <cstring>

#include "interpose/one_abi/held.h"
#include "interpose/seam/gate.h"
#include "interpose/seam/message.h"
#include "interpose/seam/state.h"

namespace cropdl::one_abi {

// The field that points to the library's table in this run's lower half.
inline void* const* const volatile* lower_table() {
  return &seam::control()->libraries[seam::CROPDL_LIBRARY].table;
}

// A child of fork() has no lower half. (Natively CUDA does not work in a child whose parent has used it.)
// Calls there return an error code, which means "not initialized" or worse in each of these libraries, or
// zeros if the result is not a code. Says so once: natively CUDA would work if the parent had not used it.
inline constexpr int kInAChild = 3;
inline bool said_in_a_child;
template <class R>
inline R in_a_child() {
  if constexpr (__is_same(R, const char*))
    return "an error in a child of fork(), which has no GPU with CropDL";
  if (!__atomic_exchange_n(&said_in_a_child, true, __ATOMIC_RELAXED))
    seam::say_by_c_library(
        "cropdl: a child of fork() has no GPU: its calls of CUDA fail (error 3); start processes that "
        "use one by exec (spawn), or as ranks\n");
  if constexpr (__is_enum(R) || __is_same(R, int)) {
    return static_cast<R>(kInAChild);
  } else {
    return R{};
  }
}

// The error of CUDA calls from a host function of the program, which would deadlock: they would wait for work
// that waits for that function. cudaErrorNotPermitted, CUDA_ERROR_NOT_PERMITTED.
inline constexpr int kNotPermitted = 800;
inline bool in_host_function() {
  uint64_t in;
  __asm__ volatile("movq %%gs:%c1, %0" : "=r"(in) : "i"(offsetof(seam::ThreadRecord, in_host_function)));
  return __builtin_expect(in != 0, 0);
}

template <class R, class... A>
inline R call_library(unsigned function, A... arguments) {
  if (__builtin_expect(seam::state()->forked != 0, 0)) return in_a_child<R>();
  return seam::call_lower<R>(lower_table(), function, arguments...);
}

// Repeats a call that may be held: between attempts the thread is outside the LH, where it can be saved.
template <class R, class... A>
__attribute__((always_inline)) inline R call_until_begun(unsigned function, A... arguments) {
  seam::note_caller(__builtin_frame_address(0));
  for (;;) {
    const R result = call_library<R>(function, arguments...);
    if (__builtin_expect(static_cast<int>(result) != kCallAgain, 1)) return result;
  }
}

// Prints once that a function is not offered. The caller returns the library's error, or zeros.
inline void say_refused(bool* said, const char* name, const char* why) {
  if (__atomic_exchange_n(said, true, __ATOMIC_RELAXED)) return;
  const char* parts[] = {"cropdl: ", name, " is not offered: ", why, "\n"};
  char line[512];
  size_t n = 0;
  for (const char* part : parts)
    for (; *part && n < sizeof line - 1; ++part) line[n++] = *part;
  line[n] = 0;
  seam::say_by_c_library(line);
}

}  // namespace cropdl::one_abi

// What a signal frame records of floating point and vector registers. Either half, any thread; no libc.
#pragma once

#include <cstdint>

namespace cropdl::seam {

// struct _fpx_sw_bytes (arch/x86/include/uapi/asm/sigcontext.h), in the reserved bytes of the FXSAVE area.
// The defaults are those of a plain FXSAVE area.
struct SavedRegisters {
  uint32_t magic = 0, extended_bytes = 512;  // including the bytes behind the XSAVE area
  uint64_t features = 0;                     // as in XCR0
  uint32_t bytes = 512;                      // size of the XSAVE area
};

// `registers`: uc_mcontext.fpregs; may be null.
inline SavedRegisters saved_registers(const void* registers) {
  constexpr uint64_t kPlace = 464;
  constexpr uint32_t kMagic = 0x46505853;
  if (registers == nullptr) return {};
  const auto* found = reinterpret_cast<const SavedRegisters*>(reinterpret_cast<uint64_t>(registers) + kPlace);
  return found->magic == kMagic ? *found : SavedRegisters{};
}

}  // namespace cropdl::seam

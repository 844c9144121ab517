// The return value of a call that has done nothing because its thread must stop first (ranks agree on a cut,
// or a host function would begin). The thread leaves the LH, where it can be saved, and the shim repeats the
// call with the same arguments. Not a result code of any library. Both halves.
#pragma once

namespace cropdl::one_abi {

inline constexpr int kCallAgain = 0x7a7a;

}  // namespace cropdl::one_abi

// What a call returns in the place of the library's code that has done nothing, for its thread is to stop
// first (ranks agree on a cut, or a host function would begin): outside of the LH the thread can be saved,
// and the shim calls again, with the same arguments. No result code of any library. Both halves.
#pragma once

namespace cropdl::one_abi {

inline constexpr int kCallAgain = 0x7a7a;

}  // namespace cropdl::one_abi

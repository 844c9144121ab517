#include "interpose/cuda/lower/kept.h"

#include "interpose/handles/heap.h"

namespace cropdl::cuda {

Kept* kept() {
  if (!one_abi::family) return nullptr;
  uint64_t& member = one_abi::family->members[one_abi::kMemberCalls];
  if (!member) member = reinterpret_cast<uint64_t>(handles::heap_allocate(sizeof(Kept)));
  return reinterpret_cast<Kept*>(member);
}

}  // namespace cropdl::cuda

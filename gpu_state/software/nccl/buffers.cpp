#include "gpu_state/software/nccl/buffers.h"

namespace cropdl::nccl {

Blocks blocks_of(const Call& call, int rank, int ranks) {
  const auto all = static_cast<size_t>(ranks);
  const size_t if_root = call.root == rank ? 1 : 0;
  switch (call.kind) {
    case Kind::kAllReduce:
      return {1, 1};
    case Kind::kReduce:
      return {1, if_root};
    case Kind::kBroadcast:
      return {if_root, 1};
    case Kind::kAllGather:
      return {1, all};
    case Kind::kReduceScatter:
      return {all, 1};
    case Kind::kAllToAll:
      return {all, all};
    case Kind::kGather:
      return {1, if_root * all};
    case Kind::kScatter:
      return {if_root * all, 1};
    case Kind::kSend:
      return {1, 0};
    case Kind::kReceive:
      return {0, 1};
  }
  return {0, 0};
}

}  // namespace cropdl::nccl

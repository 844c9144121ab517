// What reductions compute: the ranks' values in the order of the ranks, each step rounded to the type, ((r0 +
// r1) + r2) + …, so that a result is the same in each run and on each rank. Pure; any thread. Source: nccl.h;
// NCCL's own reduction functions for what average and user-defined operations do.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

namespace cropdl::nccl {

size_t size_of(ncclDataType_t type);

// One of NCCL's operations, or a user-defined one: what a rank's values are multiplied with before they are
// added. Each rank has a scalar of its own (nccl.h, ncclRedOpCreatePreMulSum: "locally").
struct Reduction {
  ncclRedOp_t kind = ncclSum;  // ncclSum for user-defined ones
  bool scaled = false;
  alignas(8) unsigned char scalar[8] = {};  // of the type
  int average_of = 0;                       // ranks, for ncclAvg
};

// What a rank gives to the others: its values or, where the operation wants that, each multiplied by its
// scalar and rounded.
void give(const Reduction& how, ncclDataType_t type, const void* from, void* to, size_t count);

// to[i] = sources[0][i] (op) sources[1][i] (op) … for `count` values that were given; `to` may be one of the
// sources.
void reduce(const Reduction& how, ncclDataType_t type, const void* const* sources, int number, void* to,
            size_t count);

}  // namespace cropdl::nccl

// Reductions: the values of all ranks in rank order, each step rounded to the type, ((r0 + r1) + r2) + …, so
// that results are the same in every run and on every rank. Pure; any thread. Source: nccl.h; NCCL's own
// reduction functions for averages and user-defined operations.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

namespace cropdl::nccl {

size_t size_of(ncclDataType_t type);

// One of NCCL's operations, or a user-defined one: the factor by which a rank's values are multiplied before
// they are added. Each rank has its own scalar (nccl.h, ncclRedOpCreatePreMulSum: "locally").
struct Reduction {
  ncclRedOp_t kind = ncclSum;  // ncclSum for user-defined operations
  bool scaled = false;
  alignas(8) unsigned char scalar[8] = {};  // in the data type
  int average_of = 0;                       // number of ranks, for ncclAvg
};

// A rank's contribution: its values, or, if the operation requires it, each multiplied by its scalar and
// rounded.
void give(const Reduction& how, ncclDataType_t type, const void* from, void* to, size_t count);

// to[i] = sources[0][i] (op) sources[1][i] (op) … for `count` contributed values; `to` may be one of the
// sources.
void reduce(const Reduction& how, ncclDataType_t type, const void* const* sources, int number, void* to,
            size_t count);

}  // namespace cropdl::nccl

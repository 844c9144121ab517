// As in NVIDIA's library, pncclX is the function and ncclX an alias for it, so that profilers can interpose.
// Use it next to the function's definition.
#pragma once

#define ALSO_WITHOUT_P(name) \
  extern "C" __attribute__((alias("pnccl" #name), visibility("default"))) decltype(pnccl##name) nccl##name

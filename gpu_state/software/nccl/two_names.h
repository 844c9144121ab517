// As in NVIDIA's library pnccl… is the function and nccl… another name for it, so that profilers can stand in
// between. An alias stands where the function does.
#pragma once

#define ALSO_WITHOUT_P(name) \
  extern "C" __attribute__((alias("pnccl" #name), visibility("default"))) decltype(pnccl##name) nccl##name

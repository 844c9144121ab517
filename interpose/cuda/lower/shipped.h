// The family's libraries in this build. LH.
#pragma once

#include <span>

#include "interpose/one_abi/lower.h"

namespace cropdl::cuda {

struct Shipped {
  const one_abi::RealLibrary* library;
  void* const* table;
};
std::span<const Shipped> shipped();

}  // namespace cropdl::cuda

// How the processor's registers lie in the frames of signals that the program's threads go on from: the
// kernel reads them only as it writes them itself (arch/x86/kernel/fpu/signal.c), and else drops, without a
// word, what is above SSE's. LH, main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cropdl::process {

struct VectorState {
  uint32_t bytes = 0;  // of a frame's XSAVE area; 0: not known (an image of an older version)
  struct Component {
    uint32_t number = 0, offset = 0, size = 0;  // as CPUID has it (leaf 13)
    bool operator==(const Component&) const = default;
  };
  std::vector<Component> components;  // of those that frames have, from AVX's on
  bool operator==(const VectorState&) const = default;
};

// Of the frames of the threads that are stopped. An error says what of them cannot be restored.
Result<VectorState> vector_state_of_threads();

// "" or why threads with such frames cannot go on here. No program is there yet.
std::string vector_state_refusal(const VectorState& saved);

void to_json(nlohmann::json& j, const VectorState& v);
void from_json(const nlohmann::json& j, VectorState& v);

}  // namespace cropdl::process

// Layout of the vector registers in the signal frames from which threads resume. The kernel reads only its
// own (arch/x86/kernel/fpu/signal.c); of another it silently drops all registers beyond SSE's. LH, MAIN.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cropdl::process {

struct VectorState {
  uint32_t bytes = 0;  // of a frame's XSAVE area; 0: unknown (an image of an older version)
  struct Component {
    uint32_t number = 0, offset = 0, size = 0;  // as in CPUID leaf 13
    bool operator==(const Component&) const = default;
  };
  std::vector<Component> components;  // in the frames, from AVX on
  bool operator==(const VectorState&) const = default;
  static constexpr const char* kMembers[] = {"bytes", "components"};
};
void to_json(nlohmann::json& j, const VectorState::Component& c);
void from_json(const nlohmann::json& j, VectorState::Component& c);

// The layout in the stopped threads' frames. An error names a thread whose frame cannot be saved.
Result<VectorState> vector_state_of_threads();

// "" or why threads with such frames cannot resume here. Called before the program exists.
std::string vector_state_refusal(const VectorState& saved);

}  // namespace cropdl::process

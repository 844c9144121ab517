// The agent's sleep. Agent's thread (LH FS base).
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace cropdl::coord {

// Waits until a descriptor is ready or `until` (monotonic_us(); empty: no end), and sets all revents. The
// program's limits do not matter to it. False: it could not wait, and knows of none whether it is ready.
bool wait_for_any(std::vector<pollfd>* fds, std::optional<int64_t> until);

}  // namespace cropdl::coord

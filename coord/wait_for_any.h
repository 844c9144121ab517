// The agent's sleep. Agent's thread (LH FS base).
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cropdl::coord {

// Waits until a descriptor is ready or `until` (monotonic_us(); empty: no end), and sets all revents. The
// program's limits do not matter to it.
void wait_for_any(std::vector<pollfd>* fds, std::optional<int64_t> until);

// The same without allocating and without end; but if those limits do not let it wait, it looks away for 100
// ms. Does not set revents.
void wait_without_memory(std::span<pollfd> fds);

}  // namespace cropdl::coord

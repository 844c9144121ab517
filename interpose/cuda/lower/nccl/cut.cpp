// See library.h: NCCL's part of a cut.
#include <algorithm>
#include <atomic>
#include <utility>

#include "base/format.h"
#include "interpose/cuda/lower/nccl/library.h"
#include "interpose/cuda/lower/nccl/state.h"
#include "interpose/cuda/lower/real.h"

namespace cropdl::cuda::nccl {
namespace {

std::atomic<const char*> drain_failure{nullptr};

// Messages that neither side has begun are left out.
void add_pairs(const Communicator* c, std::vector<coord::CollectiveCount>& counts,
               uint64_t (*target)(uint64_t identity)) {
  const auto* pairs = reinterpret_cast<const counting::Record*>(__atomic_load_n(&c->pairs, __ATOMIC_ACQUIRE));
  for (int r = 0; r < c->size; ++r) {
    if (r == c->rank) continue;
    for (int way = 0; way < 2; ++way) {
      const uint64_t begun = pairs ? pairs[2 * r + way].begun : 0;
      const uint64_t identity =
          pairs ? pairs[2 * r + way].identity  // that of older images, too
                : (way == 0 ? pair_identity(c, c->rank, r) : pair_identity(c, r, c->rank));
      if (begun != 0 || target(identity) != 0) counts.push_back({identity, begun});
    }
  }
}

}  // namespace

bool called() { return __atomic_load_n(&state, __ATOMIC_ACQUIRE) != nullptr; }

void add_counts(std::vector<coord::CollectiveCount>& counts, uint64_t (*target)(uint64_t identity)) {
  if (!called()) return;
  const size_t before = counts.size();
  handles::SpinGuard guard(lock);
  each_communicator([&](const Communicator* c) {
    if (c->stage == kPlanned) return;
    if (c->count.identity) counts.push_back({c->count.identity, c->count.begun});
    if (c->size > 1) add_pairs(c, counts, target);
  });
  // A rank that has ended a communicator lags behind in none of its collectives.
  each<Ended>(state->ended, [&](const Ended* e) {
    for (const counting::Record& r : std::span(e->counts, e->used))
      counts.push_back({r.identity, std::max(uint64_t{r.begun}, target(r.identity))});
  });
  std::stable_sort(
      counts.begin() + static_cast<ptrdiff_t>(before), counts.end(),
      [](const auto& a, const auto& b) { return a.comm != b.comm ? a.comm < b.comm : a.begun > b.begun; });
}

void add_communicators(coord::RankStatus& status) {
  if (!called()) return;
  handles::SpinGuard guard(lock);
  each_communicator([&](const Communicator* c) {
    if (c->stage == kReady && c->size > 1)
      status.members.push_back({c->identity, static_cast<uint32_t>(c->size)});
    const uint64_t meeting = coord::kSubgroupCall | c->identity;
    if (c->stage == kMaking &&
        std::find(status.inside.begin(), status.inside.end(), meeting) == status.inside.end())
      status.inside.push_back(meeting);
  });
}

bool drain_step() {
  drain_failure = nullptr;
  bool all = true;
  each_communicator([&](Communicator* c) {
    const ncclComm_t real = *real_place(c);
    if (!real) {
      if (c->stage == kReady) drain_failure = "a split came to nothing";
      all = all && c->stage != kReady;
      return;
    }
    ncclResult_t now = ncclSuccess;
    if (CROPDL_NCCL(ncclCommGetAsyncError)(real, &now) != ncclSuccess || now == ncclSuccess) return;
    all = false;
    if (now != ncclInProgress) drain_failure = CROPDL_NCCL(ncclGetErrorString)(now);
  });
  return all;
}

std::string drain_trouble() {
  const char* const what = drain_failure;
  return what
             ? formatted("ncclCommGetAsyncError: a communicator has failed ({}), which cannot be saved", what)
             : "";
}

void quiesce() {
  if (!state) return;
  each<Ended>(std::exchange(state->ended, 0), handles::heap_free);
  forget_aborted();
  if (!opened(kNccl)) return;
  const char* const line = CROPDL_NCCL(ncclGetLastError)(nullptr);
  if (line && *line) snprintf(state->last_error, sizeof state->last_error, "%s", line);
}

}  // namespace cropdl::cuda::nccl

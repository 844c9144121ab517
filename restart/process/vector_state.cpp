#include "restart/process/vector_state.h"

#include <cpuid.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/format.h"
#include "interpose/seam/signal_frame.h"
#include "interpose/seam/state.h"
#include "restart/process/attribute_calls.h"

namespace cropdl::process {
namespace {

using seam::SavedRegisters;

constexpr unsigned kFirstBeyondSse = 2;
constexpr unsigned kTileData = 18;  // AMX; in a thread's frames once it has used a tile
constexpr uint64_t kTiles = 1ull << kTileData;

SavedRegisters of_frame(const ucontext_t* context) {
  return seam::saved_registers(context->uc_mcontext.fpregs);
}

VectorState state_of(const SavedRegisters& frame) {
  VectorState state;
  state.bytes = frame.bytes;
  for (unsigned i = kFirstBeyondSse; i < 63; ++i) {
    unsigned size = 0, offset = 0, c = 0, d = 0;
    if ((frame.features >> i & 1) == 0 || __get_cpuid_count(13, i, &size, &offset, &c, &d) == 0) continue;
    state.components.push_back({i, offset, size});
  }
  return state;
}

SavedRegisters own_frame;  // written by a signal handler, which nothing can be handed to

// The layout of the calling thread's frames, from that of a signal, which is ignored without a handler.
VectorState own_state() {
  struct sigaction action = {}, former = {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int, siginfo_t*, void* context) {
    own_frame = of_frame(static_cast<const ucontext_t*>(context));
  };
  sigaction(SIGURG, &action, &former);
  sigset_t urgent, before;
  sigemptyset(&urgent);
  sigaddset(&urgent, SIGURG);
  pthread_sigmask(SIG_UNBLOCK, &urgent, &before);
  pthread_kill(pthread_self(), SIGURG);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  sigaction(SIGURG, &former, nullptr);
  return state_of(own_frame);
}

// `state` as it is in a thread that has used a tile, if the kernel offers tiles.
VectorState with_tiles(VectorState state) {
  uint64_t supported = 0;
  if (syscall(SYS_arch_prctl, kPermissionSupported, &supported) != 0 || (supported & kTiles) == 0)
    return state;
  unsigned size = 0, offset = 0, c = 0, d = 0;
  __get_cpuid_count(13, kTileData, &size, &offset, &c, &d);
  state.components.push_back({kTileData, offset, size});
  state.bytes = offset + size;
  return state;
}

}  // namespace

Result<VectorState> vector_state_of_threads() {
  const auto* s = seam::state();
  std::optional<SavedRegisters> wide, narrow;
  for (uint32_t i = 0; i < s->threads_high || i == 0; ++i) {
    const seam::ThreadRecord& t = s->threads[i];
    if (t.used != seam::kLive || t.kind == seam::kSpawnedChild || t.gone != 0) continue;
    const SavedRegisters one = of_frame(reinterpret_cast<const ucontext_t*>(t.context));
    auto& alike = (one.features & kTiles) != 0 ? wide : narrow;
    if (!alike) alike = one;
    if (one.bytes != alike->bytes || one.features != alike->features ||
        (wide && narrow && wide->features != (narrow->features | kTiles)))
      return Error{"thread {} has another set of vector registers than others, which cannot be saved yet",
                   t.virtual_tid};
  }
  if (wide) return state_of(*wide);  // once: CPUID is slow in a virtual machine
  return narrow ? state_of(*narrow) : VectorState();
}

std::string vector_state_refusal(const VectorState& saved) {
  if (saved.bytes == 0) return "";
  const bool tiles = std::ranges::any_of(
      saved.components, [](const VectorState::Component& c) { return c.number == kTileData; });
  const VectorState here = tiles ? with_tiles(own_state()) : own_state();
  if (here == saved) return "";
  return formatted(
      "this CPU's vector registers lie otherwise in memory than on the one that the version was made on ({} "
      "bytes, {} there); restart it on one of that kind",
      here.bytes, saved.bytes);
}

void to_json(nlohmann::json& j, const VectorState::Component& c) { j = {c.number, c.offset, c.size}; }

void from_json(const nlohmann::json& j, VectorState::Component& c) {
  c = {integer_from_json<uint32_t>(j.at(0)), integer_from_json<uint32_t>(j.at(1)),
       integer_from_json<uint32_t>(j.at(2))};
}

}  // namespace cropdl::process

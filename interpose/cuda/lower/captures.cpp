#include "interpose/cuda/lower/captures.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "interpose/cuda/lower/nccl/captured.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {
namespace {

struct Capture {
  uint64_t word;  // refuses checkpoints
  uint64_t graph;
};
using Origin = std::pair<uint64_t, const void*>;  // stream, and for a thread's own default stream the thread
using Captures = std::map<Origin, Capture>;
Captures& captures() {
  static auto& all = *new Captures;
  return all;
}

std::mutex captures_mutex;
std::atomic<size_t> under_way{0};  // number of captures

Origin origin(uint64_t stream, bool own) {
  static thread_local char here;
  const bool threads = stream == 2 || (own && stream == 0);  // cudaStreamPerThread
  return {threads ? 2 : stream, threads ? &here : nullptr};
}

// Under the lock.
Captures::iterator drop_capture(Captures::iterator found, bool made) {
  const Capture capture = found->second;
  const auto next = captures().erase(found);
  under_way = captures().size();
  rt::forget_word(capture.word);
  if (made || !capture.graph) return next;
  rt::forget_word(rt::virtual_of(capture.graph, kind::cudaGraph));
  nccl::take_captured(rt::handle_of<cudaGraph_t>(capture.graph));
  return next;
}

}  // namespace

bool captures_expected = false;

void capture_began(uint64_t stream, bool own, uint64_t graph, Maker m) {
  captures_expected = true;
  static uint64_t count;
  const std::lock_guard guard(captures_mutex);
  const uint64_t word = rt::made_word(++count, kind::cudaCapture, m.library, m.function, nullptr);
  rt::ends_with(word, stream);
  // The stream's device may differ from the current one.
  if (const handles::Slot* its = rt::slot_of(stream); its && rt::slot_of(word))
    rt::slot_of(word)->next = its->next;
  captures()[origin(stream, own)] = {word, graph};
  under_way = captures().size();
}

void capture_ended(uint64_t stream, bool own, bool made) {
  const std::lock_guard guard(captures_mutex);
  const auto found = captures().find(origin(stream, own));
  if (found != captures().end()) drop_capture(found, made);
}

cudaGraph_t graph_capturing(cudaStream_t stream) {
  if (!captures_expected) return nullptr;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  if (CROPDL_CUDART(cudaStreamGetCaptureInfo)(rt::real(stream, kind::cudaStream), &status, nullptr, &graph,
                                              nullptr, nullptr, nullptr) != cudaSuccess) {
    CROPDL_CUDART(cudaGetLastError)();  // not the program's error
    return nullptr;
  }
  return status == cudaStreamCaptureStatusActive ? graph : nullptr;
}

bool captures_under_way() { return under_way.load(std::memory_order_relaxed) != 0; }

void end_captures_of(int device) {
  const std::lock_guard guard(captures_mutex);
  for (auto at = captures().begin(); at != captures().end();) {
    const handles::Slot* its = rt::slot_of(at->second.word);
    at = its && rt::device_of(*its) == device ? drop_capture(at, false) : std::next(at);
  }
}

}  // namespace cropdl::cuda

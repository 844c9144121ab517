#include "interpose/cuda/lower/nccl/captured.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

namespace cropdl::cuda::nccl {
namespace {

std::mutex captured_mutex;
std::unordered_map<const void*, Parts>& captured() {  // by graph or executable
  static auto& map = *new std::unordered_map<const void*, Parts>;
  return map;
}

std::atomic<bool> any_captured{false};

void add(Parts& to, const counting::Part& part) {
  const auto at = std::find_if(to.begin(), to.end(), [&](const auto& p) { return p.record == part.record; });
  if (at == to.end())
    to.push_back(part);
  else
    at->times += part.times;
}

Parts of(const void* graph) {
  const std::lock_guard guard(captured_mutex);
  const auto found = captured().find(graph);
  return found == captured().end() ? Parts() : found->second;
}

}  // namespace

void note_captured(cudaGraph_t graph, const counting::Part& part) {
  any_captured = true;
  const std::lock_guard guard(captured_mutex);
  add(captured()[graph], part);
}

void forget_records(const void* begin, const void* end) {
  const std::lock_guard guard(captured_mutex);
  for (auto& [graph, parts] : captured())
    std::erase_if(parts, [&](const auto& p) { return p.record >= begin && p.record < end; });
}

void graph_takes(cudaGraph_t made, cudaGraph_t from) {
  const std::lock_guard guard(captured_mutex);
  const auto found = captured().find(from);
  if (found == captured().end()) return;
  const Parts parts = found->second;
  for (const counting::Part& p : parts) add(captured()[made], p);
}

Parts take_captured(const void* of) {
  const std::lock_guard guard(captured_mutex);
  const auto taken = captured().extract(of);
  return taken ? taken.mapped() : Parts();
}

void put_back(const void* to, const Parts& parts) {
  if (parts.empty()) return;
  const std::lock_guard guard(captured_mutex);
  captured()[to] = parts;
}

void executable_is(cudaGraphExec_t executable, cudaGraph_t graph) {
  const Parts parts = of(graph);
  const std::lock_guard guard(captured_mutex);
  if (parts.empty())
    captured().erase(executable);
  else
    captured()[executable] = parts;
}

bool begin_launch(cudaGraphExec_t executable) {
  const Parts parts = any_captured ? of(executable) : Parts();
  return parts.empty() || counting::begin_parts(parts, seam::kLibraryNccl);
}

void end_launch(cudaGraphExec_t executable, bool launched) {
  const Parts parts = any_captured ? of(executable) : Parts();
  if (parts.empty()) return;
  if (!launched) counting::undo(parts);
  counting::end();
}

}  // namespace cropdl::cuda::nccl

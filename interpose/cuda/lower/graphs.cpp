#include "interpose/cuda/lower/graphs.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpose/cuda/lower/callbacks.h"
#include "interpose/cuda/lower/nccl/captured.h"

namespace rt = cropdl::one_abi;

namespace cropdl::cuda {
namespace {

std::mutex graphs_mutex;

// By the data that the library got.
std::unordered_map<void*, HostNode>& host_nodes() {
  static auto& all = *new std::unordered_map<void*, HostNode>;
  return all;
}

std::atomic<bool> any_host_node{false};  // any was ever given to the library
thread_local bool launch_calls;          // the current launch may call host functions

struct Capture {
  uint64_t word;   // refuses checkpoints
  uint64_t graph;  // real handle
};
using Origin = std::pair<uint64_t, const void*>;  // stream, and for a thread's own default stream the thread
using Captures = std::map<Origin, Capture>;
Captures& captures() {
  static auto& all = *new Captures;
  return all;
}

std::atomic<size_t> under_way{0};  // number of captures

Origin origin(uint64_t stream, bool own) {
  static thread_local char here;
  const bool threads = stream == 2 || (own && stream == 0);  // cudaStreamPerThread
  return {threads ? 2 : stream, threads ? &here : nullptr};
}

// `made`: the graph now belongs to the program. Under the lock.
Captures::iterator drop_capture(Captures::iterator found, bool made) {
  const Capture capture = found->second;
  const auto next = captures().erase(found);
  under_way = captures().size();
  rt::forget_word(capture.word);
  if (made || !capture.graph) return next;
  rt::forget_word(rt::virtual_of(capture.graph, rt::kind::cudaGraph));
  nccl::graph_gone(rt::handle_of<cudaGraph_t>(capture.graph));
  return next;
}

}  // namespace

bool captures_expected = false;

uint64_t word_of_executable(uint64_t word) {
  return rt::is_virtual(word) ? word : rt::virtual_of(word, rt::kind::cudaGraphExec);
}

void host_node(HostNode& node) {
  if (!node.function) return;  // the library checks it
  const std::lock_guard guard(graphs_mutex);
  // A program that captures in each step gives the same functions again and again.
  static auto& given = *new std::map<std::pair<void (*)(void*), void*>, HostFunction*>;
  HostFunction*& mine = given[{node.function, node.data}];
  if (!mine) {
    mine = host_function(node.function, node.data);
    host_nodes()[mine] = node;
    any_host_node = true;
  }
  node = {call_host_function, mine};
}

void program_host_node(HostNode& node) {
  const std::lock_guard guard(graphs_mutex);
  if (const auto found = host_nodes().find(node.data); found != host_nodes().end()) node = found->second;
}

bool begin_launch(cudaGraphExec_t executable) {
  const bool calls = any_host_node.load(std::memory_order_relaxed);
  if (calls && !begin_calling_graph()) return false;
  const bool begins = nccl::begin_launch(executable);
  if (calls && !begins) end_calling_graph();
  if (begins) launch_calls = calls;
  return begins;
}

void end_launch(cudaGraphExec_t executable, bool launched) {
  nccl::end_launch(executable, launched);
  if (launch_calls) end_calling_graph();
}

struct Destructor {
  HostFunction* function;
  uint64_t object;
};

Destructor* destructor(void (*function)(void*), void* data) {
  return new Destructor{host_function(function, data), 0};
}

void call_destructor(void* of) {
  auto* d = static_cast<Destructor*>(of);
  call_host_function(d->function);
  rt::forget_word(d->object);
  drop(d);
}

void destructor_is_of(Destructor* d, uint64_t object) { d->object = object; }
void drop(Destructor* d) {
  forget_host_function(d->function);
  delete d;
}

void capture_began(uint64_t stream, bool own, uint64_t graph, Maker m) {
  captures_expected = true;
  static uint64_t count;
  const std::lock_guard guard(graphs_mutex);
  const uint64_t word = rt::made_word(++count, rt::kind::cudaCapture, m.library, m.function, nullptr);
  rt::ends_with(word, stream);
  // The stream's device may differ from the current one.
  if (const handles::Slot* its = rt::slot_of(stream); its && rt::slot_of(word))
    rt::slot_of(word)->next = its->next;
  captures()[origin(stream, own)] = {word, graph};
  under_way = captures().size();
}

bool captures_under_way() { return under_way.load(std::memory_order_relaxed) != 0; }

void capture_ended(uint64_t stream, bool own, bool made) {
  const std::lock_guard guard(graphs_mutex);
  const auto found = captures().find(origin(stream, own));
  if (found != captures().end()) drop_capture(found, made);
}

void end_captures_of(int device) {
  const std::lock_guard guard(graphs_mutex);
  for (auto at = captures().begin(); at != captures().end();) {
    const handles::Slot* its = rt::slot_of(at->second.word);
    at = its && rt::device_of(*its) == device ? drop_capture(at, false) : std::next(at);
  }
}

void** lent_array(size_t n) {
  static thread_local std::vector<void*> array;
  array.assign(n + 1, nullptr);
  return array.data();
}
void** kept_array(size_t n) { return static_cast<void**>(calloc(n + 1, sizeof(void*))); }

}  // namespace cropdl::cuda

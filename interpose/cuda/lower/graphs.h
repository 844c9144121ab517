// What the runtime's and the driver's functions about graphs share. Graphs, executable graphs and user
// objects have no recipes: each refuses checkpoints as long as it lives, and a capture as long as it is under
// way. A node belongs to its graph. What is a handle in a structure or an array is translated both ways. LH,
// LH FS base, threads of the program, if nothing else is said.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/cuda/lower/real.h"
#include "interpose/one_abi/kinds.h"

namespace cropdl::cuda {

// The function that a new handle is named after.
struct Maker {
  const one_abi::RealLibrary& library;
  uint32_t function;
};

// --- Handles that come out.
// ----------------------------------------------------------------------------------

// Of an object that may be known; null stays null.
template <class H>
H known(H real, uint32_t kind, Maker m) {
  return one_abi::handle_of<H>(
      one_abi::known_word(one_abi::word_of(real), kind, m.library, m.function, nullptr));
}
// Of one that the call has made, whatever had its real handle before.
template <class H>
H new_handle(H real, uint32_t kind, Maker m) {
  return one_abi::handle_of<H>(
      one_abi::made_word(one_abi::word_of(real), kind, m.library, m.function, nullptr));
}
// That of an object which is nobody's to make: the real one, where the program has none.
template <class H>
H known_or_real(H real, uint32_t kind) {
  const uint64_t word = real ? one_abi::virtual_of(one_abi::word_of(real), kind) : 0;
  return word ? one_abi::handle_of<H>(word) : real;
}
// A kernel's handle, in the place of a function as well.
template <class F>
F function_or_kernel(F real) {
  const F function = known_or_real(real, one_abi::kind::cudaFunction);
  return function != real ? function : known_or_real(real, one_abi::kind::cudaKernel);
}
// A node of a graph (a virtual handle).
template <class N>
N node_of(uint64_t graph, N real, Maker m) {
  const N node = known(real, one_abi::kind::cudaGraphNode, m);
  one_abi::ends_with(one_abi::word_of(node), graph);
  return node;
}
template <class N>
void nodes_of(uint64_t graph, N* nodes, const size_t* count, Maker m) {
  for (size_t i = 0; nodes && count && i < *count; ++i) nodes[i] = node_of(graph, nodes[i], m);
}
inline uint64_t graph_of(uint64_t node) { return one_abi::parent_of(node); }

// An executable graph. Kernels read the handle of one that they launch, so the program has the real one.
template <class E>
E executable(E real, bool kernels_launch_it, Maker m) {
  const E its = new_handle(real, one_abi::kind::cudaGraphExec, m);
  return kernels_launch_it ? real : its;
}
// Its virtual handle, of either kind.
uint64_t word_of_executable(uint64_t word);

// --- Functions of the program's that threads of the library call.
// ----------------------------------------------

// In the place of a host node's function and its data (callbacks.h).
struct HostNode {
  void (*function)(void*);
  void* data;
};
void host_node(HostNode& node);
// Around a launch of an executable graph (the real one). False: it is held, and the thread must leave the LH
// and call again.
bool begin_launch(cudaGraphExec_t executable);
void end_launch(cudaGraphExec_t executable, bool launched);
void program_host_node(HostNode& node);  // what the program gave

// In the place of a user object's destructor: it refuses until that has run.
struct Destructor;
Destructor* destructor(void (*function)(void*), void* data);
void call_destructor(void* destructor);  // any thread
void destructor_is_of(Destructor* destructor, uint64_t object);
void drop(Destructor* destructor);

// --- Captures.
// -------------------------------------------------------------------------------------------------

// Whether the program has ever begun one: most never do, and no stream is looked at.
extern bool captures_expected;
// Of a stream as the program names it; `own`: its zero is the calling thread's. `graph`: the real one that
// is being made; null: the program's own.
void capture_began(uint64_t stream, bool own, uint64_t graph, Maker m);
// No more. `made`: its graph is the program's now; else that is gone.
void capture_ended(uint64_t stream, bool own, bool made);
void end_captures_of(int device);  // which is reset: those of its streams are over, and made no graph
bool captures_under_way();         // in any stream of the process

// Arrays that the library owns, as the program sees them: until the thread's next call of this, or, of a
// conditional node, as long as the process lives.
void** lent_array(size_t n);
void** kept_array(size_t n);

}  // namespace cropdl::cuda

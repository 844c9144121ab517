// Shared by the runtime's and the driver's functions about graphs. Graphs, executable graphs and user objects
// have no recipes: each refuses checkpoints while it exists. A node belongs to its graph. Handles in
// structures and arrays are translated both ways. LH, LH FS base, threads of the program, or as stated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/cuda/lower/real.h"

namespace cropdl::cuda {

// --- Handles returned to the program.

// The handle of an object that may already have one; null stays null.
template <class H>
H known(H real, uint32_t kind, Maker m) {
  return rt::handle_of<H>(rt::known_word(rt::word_of(real), kind, m.library, m.function, nullptr));
}
// The handle of an object that this call made. Replaces an older handle of the same real value.
template <class H>
H new_handle(H real, uint32_t kind, Maker m) {
  return rt::handle_of<H>(rt::made_word(rt::word_of(real), kind, m.library, m.function, nullptr));
}
// The handle of an object that has no maker here; the real one, if the program has no handle for it.
template <class H>
H known_or_real(H real, uint32_t kind) {
  const uint64_t word = real ? rt::virtual_of(rt::word_of(real), kind) : 0;
  return word ? rt::handle_of<H>(word) : real;
}
// The same for a function; a kernel's handle may stand in place of a function.
template <class F>
F function_or_kernel(F real) {
  const F function = known_or_real(real, kind::cudaFunction);
  return function != real ? function : known_or_real(real, kind::cudaKernel);
}
// A node of a graph. `graph`: virtual handle.
template <class N>
N node_of(uint64_t graph, N real, Maker m) {
  const N node = known(real, kind::cudaGraphNode, m);
  rt::ends_with(rt::word_of(node), graph);
  return node;
}
template <class N>
void nodes_of(uint64_t graph, N* nodes, const size_t* count, Maker m) {
  for (size_t i = 0; nodes && count && i < *count; ++i) nodes[i] = node_of(graph, nodes[i], m);
}
inline uint64_t graph_of(uint64_t node) { return rt::parent_of(node); }

// An executable graph. Kernels read the handle of a graph that they launch, so the program gets the real one.
template <class E>
E executable(E real, bool kernels_launch_it, Maker m) {
  const E its = new_handle(real, kind::cudaGraphExec, m);
  return kernels_launch_it ? real : its;
}
// The virtual handle of an executable graph, from its virtual or real handle.
uint64_t word_of_executable(uint64_t word);

// --- Functions of the program that threads of the library call.

// Enclose the launch of an executable graph (real handle). False: it is held; leave the LH and call again.
bool begin_launch(cudaGraphExec_t executable);
void end_launch(cudaGraphExec_t executable, bool launched);

// Replaces a user object's destructor. The user object refuses checkpoints until the destructor has run.
struct Destructor;
Destructor* destructor(void (*function)(void*), void* data);
void call_destructor(void* destructor);  // any thread
void destructor_is_of(Destructor* destructor, uint64_t object);
void drop(Destructor* destructor);

}  // namespace cropdl::cuda

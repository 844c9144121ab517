// Shared by the functions about graphs and captures. The runtime's are the driver's: the handle types are the
// same, and success is 0 in both. Graphs, executable graphs and user objects have no recipes: each refuses
// checkpoints while it exists. A node belongs to its graph. Handles in structures and arrays are translated
// both ways. LH, LH FS base, threads of the program.
#pragma once

#include <cstdint>
#include <type_traits>

#include "interpose/cuda/lower/real.h"

namespace cropdl::cuda {

static_assert(std::is_same_v<CUgraph, cudaGraph_t> && std::is_same_v<CUgraphNode, cudaGraphNode_t> &&
              std::is_same_v<CUgraphExec, cudaGraphExec_t> && std::is_same_v<CUstream, cudaStream_t> &&
              std::is_same_v<CUevent, cudaEvent_t> && std::is_same_v<CUuserObject, cudaUserObject_t>);
static_assert(static_cast<int>(CUDA_SUCCESS) == cudaSuccess);

using Node = CUgraphNode;
inline Node node(Node n) { return rt::real(n, kind::cudaGraphNode); }
inline CUgraph graph(CUgraph g) { return rt::real(g, kind::cudaGraph); }
inline CUgraphExec exec(CUgraphExec e) { return rt::real(e, kind::cudaGraphExec); }
inline CUstream stream(CUstream s) { return rt::real(s, kind::cudaStream); }
inline CUevent event(CUevent e) { return rt::real(e, kind::cudaEvent); }

template <class Result>
bool succeeded(Result r) {
  return static_cast<int>(r) == CUDA_SUCCESS;
}

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
// A node of a graph. `graph`: virtual handle.
inline Node node_of(uint64_t graph, Node real, Maker m) {
  const Node node = known(real, kind::cudaGraphNode, m);
  rt::ends_with(rt::word_of(node), graph);
  return node;
}

}  // namespace cropdl::cuda

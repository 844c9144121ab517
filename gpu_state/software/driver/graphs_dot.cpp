// cuGraphDebugDotPrint: prints a graph in Graphviz format. Labels beyond type and name are not documented;
// here they show what helps people.
#include <cuda.h>

#include <cstdio>
#include <memory>

#include "base/format.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/graphs.h"

using namespace cropdl;

namespace {

const char* name_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "WAIT_EVENT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "BATCH_MEM_OP";
    default:
      return "NODE";
  }
}

std::string label_of(const CUgraphNode_st& node) {
  std::string label = name_of(device::type_of(node.work));
  if (auto* kernel = std::get_if<device::KernelWork>(&node.work))
    label += formatted("\\n{}\\n<<<({},{},{}),({},{},{}),{}>>>", engine::facts(*kernel->kernel).name,
                       kernel->grid[0], kernel->grid[1], kernel->grid[2], kernel->block[0], kernel->block[1],
                       kernel->block[2], kernel->shared);
  if (auto* library = std::get_if<device::LibraryWork>(&node.work)) label += "\\n" + library->name;
  return label;
}

void print(const CUgraph_st& graph, std::FILE* file) {
  std::fprintf(file, "subgraph cluster_%llu {\nlabel=\"graph_%llu\" graph[style=\"dashed\"];\n",
               static_cast<unsigned long long>(graph.id), static_cast<unsigned long long>(graph.id));
  for (const auto& node : graph.nodes) {
    std::fprintf(file, "\"node_%llu\"[label=\"%s\"];\n", static_cast<unsigned long long>(node->id),
                 label_of(*node).c_str());
    for (const auto& edge : node->after)
      std::fprintf(file, "\"node_%llu\" -> \"node_%llu\";\n", static_cast<unsigned long long>(node->id),
                   static_cast<unsigned long long>(edge.node->id));
    if (node->child) print(*node->child, file);
  }
  std::fprintf(file, "}\n");
}

}  // namespace

extern "C" CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned) {
  if (CUresult error = device::initialized(); error != CUDA_SUCCESS) return error;
  std::lock_guard lock(device::capture_mutex());
  auto graph = device::find_graph(handle);
  if (!graph || !path) return CUDA_ERROR_INVALID_VALUE;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "w"), std::fclose);
  if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
  std::fprintf(file.get(), "digraph dot {\n");
  print(*graph, file.get());
  std::fprintf(file.get(), "}\n");
  return std::ferror(file.get()) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

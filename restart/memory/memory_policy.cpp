#include "restart/memory/memory_policy.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cropdl::host_memory {
namespace {

constexpr unsigned long kNodes = 1024;   // MAX_NUMNODES of x86-64 kernels, the largest configurable
constexpr unsigned long kOfAddress = 2;  // MPOL_F_ADDR

// The kernel uses one bit less than the number passed.
unsigned long bits(const MemoryPolicy& p) { return p.nodes.empty() ? 0 : p.nodes.size() * 64 + 1; }

}  // namespace

MemoryPolicy policy_of(uint64_t address) {
  MemoryPolicy p;
  p.nodes.resize(kNodes / 64);
  if (syscall(SYS_get_mempolicy, &p.mode, p.nodes.data(), kNodes, address, kOfAddress) != 0) return {};
  while (!p.nodes.empty() && p.nodes.back() == 0) p.nodes.pop_back();
  return p;
}

Status set_policy(uint64_t begin, uint64_t end, const MemoryPolicy& p) {
  if (p.mode == 0) return {};
  if (syscall(SYS_mbind, begin, end - begin, p.mode, p.nodes.data(), bits(p), 0) != 0)
    return Error{"cannot set the program's memory policy (NUMA nodes) on this machine: " + errno_text(errno)};
  return {};
}

}  // namespace cropdl::host_memory

#include "interpose/cuda/lower/graphs.h"

#include "interpose/cuda/lower/callbacks.h"
#include "interpose/cuda/lower/nccl/captured.h"

namespace cropdl::cuda {
namespace {

thread_local bool launch_calls;  // the current launch may call host functions

}  // namespace

uint64_t word_of_executable(uint64_t word) {
  return rt::is_virtual(word) ? word : rt::virtual_of(word, kind::cudaGraphExec);
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

}  // namespace cropdl::cuda

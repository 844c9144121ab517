// nvcc: -std=c++17
// run: ways=static
// Managed memory: a linked list that host and device write in turn, advice that is set once and queried in
// every step, prefetches in both directions (also batched), and temporary blocks, some attached to a
// temporary stream.
#include "saved.h"

struct Node {
  Node* next;
  unsigned value;
};

__global__ void walk(Node* first, unsigned add, unsigned* sum) {
  unsigned total = 0;
  for (Node* node = first; node; node = node->next) total += node->value += add;
  *sum = total;
}

__global__ void stir(unsigned* values, size_t n, unsigned step) {
  size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < n) values[i] = values[i] * 1664525u + step + static_cast<unsigned>(i);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  const size_t n = 40000;
  unsigned *values, *sum, *batched;
  CALL(cudaMallocManaged(&batched, 4096));
  CALL(cudaMallocManaged(&values, n * sizeof *values));
  CALL(cudaMallocManaged(&sum, sizeof *sum, cudaMemAttachGlobal));
  for (size_t i = 0; i < n; i++) values[i] = static_cast<unsigned>(i);
  cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
  CALL(cudaMemAdvise(values, n * sizeof *values, cudaMemAdviseSetPreferredLocation, device));
  CALL(cudaMemAdvise(values, n * sizeof *values, cudaMemAdviseSetAccessedBy, host));
  CALL(cudaMemAdvise(sum, sizeof *sum, cudaMemAdviseSetReadMostly, device));
  Node* first = nullptr;
  unsigned nodes = 0, expected = 0;
  cudaStream_t stream;
  CALL(cudaStreamCreate(&stream));
  while (steplog_done < steplog_steps) {
    int attribute = -1;
    CALL(cudaMemRangeGetAttribute(&attribute, sizeof attribute, cudaMemRangeAttributePreferredLocation,
                                  values, n * sizeof *values));
    EXPECT(attribute == 0);
    CALL(cudaMemRangeGetAttribute(&attribute, sizeof attribute, cudaMemRangeAttributeReadMostly, sum,
                                  sizeof *sum));
    EXPECT(attribute == 1);
    cudaPointerAttributes of;
    CALL(cudaPointerGetAttributes(&of, values));
    EXPECT(of.type == cudaMemoryTypeManaged);
    Node* made;
    CALL(cudaMallocManaged(&made, sizeof *made));
    *made = {first, static_cast<unsigned>(steplog_done)};
    first = made;
    nodes++;
    expected += static_cast<unsigned>(steplog_done);
    if (steplog_done > 0) {
      CALL(cudaMemRangeGetAttribute(&attribute, sizeof attribute, cudaMemRangeAttributeLastPrefetchLocation,
                                    batched, 4096));
      EXPECT(attribute == 0);
    }
    void* batch[] = {batched};
    size_t size = 4096, which = 0;
    CALL(cudaMemPrefetchBatchAsync(batch, &size, 1, &device, &which, 1, 0, stream));
    CALL(cudaStreamAttachMemAsync(stream, values, n * sizeof *values, cudaMemAttachSingle));
    unsigned* passing;  // its stream is destroyed with it
    CALL(cudaMallocManaged(&passing, 100 << 20));
    CALL(cudaStreamAttachMemAsync(stream, passing, 0, cudaMemAttachHost));
    CALL(cudaStreamSynchronize(stream));
    CALL(cudaFree(passing));
    CALL(cudaPointerGetAttributes(&of, passing));
    EXPECT(of.type == cudaMemoryTypeUnregistered);
    EXPECT(cudaStreamAttachMemAsync(stream, values, 1, cudaMemAttachHost) == cudaErrorInvalidValue);
    cudaGetLastError();
    CALL(cudaMemPrefetchAsync(values, n * sizeof *values, device, 0, stream));
    stir<<<static_cast<unsigned>((n + 127) / 128), 128, 0, stream>>>(values, n,
                                                                     static_cast<unsigned>(steplog_done));
    walk<<<1, 1, 0, stream>>>(first, 3, sum);
    LAUNCHED();
    CALL(cudaMemPrefetchAsync(values, n * sizeof *values, host, 0, stream));
    CALL(cudaStreamSynchronize(stream));
    expected += 3 * nodes;
    EXPECT(*sum == expected);
    for (size_t i = 0; i < n; i += 997) values[i] ^= 0x5a5a5a5a;  // by the host
    if (steplog_done % 5 == 4) {                                  // removes the second element of the list
      Node* gone = first->next;
      expected -= gone->value;
      first->next = gone->next;
      CALL(cudaFree(gone));
      nodes--;
    }
    steplog_mix(*sum);
    steplog_mix_bytes(values, 4096);
    steplog_step();
  }
  steplog_mix_bytes(values, n * sizeof *values);
  while (first) {
    Node* gone = first;
    first = first->next;
    CALL(cudaFree(gone));
  }
  CALL(cudaFree(sum));
  CALL(cudaFree(values));
  CALL(cudaFree(batched));
  CALL(cudaStreamDestroy(stream));
  nonce.back();
  steplog_ok();
  return 0;
}

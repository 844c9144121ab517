// Managed memory at one address for host and device: the host writes, kernels read and write, the host reads;
// prefetches and advice; a linked list whose pointers both sides follow.
// run: also=shared,per-thread
#include "check.h"

struct Node {
  int value;
  Node* next;
};

__global__ void add_to_all(Node* node, int what) {
  for (; node; node = node->next) node->value += what;
}

__global__ void square(float* data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= data[i];
}

int main() {
  const int n = 3000;
  float* data;
  CALL(cudaMallocManaged(&data, n * sizeof(float)));
  for (int i = 0; i < n; i++) data[i] = i;
  cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
  CALL(cudaMemAdvise(data, n * sizeof(float), cudaMemAdviseSetReadMostly, device));
  CALL(cudaMemAdvise(data, n * sizeof(float), cudaMemAdviseUnsetReadMostly, device));
  CALL(cudaMemAdvise(data, n * sizeof(float), cudaMemAdviseSetPreferredLocation, device));
  CALL(cudaMemPrefetchAsync(data, n * sizeof(float), device, 0));
  square<<<(n + 127) / 128, 128>>>(data, n);
  CALL(cudaMemPrefetchAsync(data, n * sizeof(float), host, 0));
  LAUNCHED();
  CALL(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++)
    if (data[i] != float(i) * i) fail("data[%d] = %g", i, data[i]);
  cudaPointerAttributes attributes;
  CALL(cudaPointerGetAttributes(&attributes, data + 5));
  EXPECT(attributes.type == cudaMemoryTypeManaged && attributes.devicePointer == data + 5 &&
         attributes.hostPointer == data + 5);

  Node* head = nullptr;
  for (int i = 0; i < 20; i++) {
    Node* node;
    CALL(cudaMallocManaged(&node, sizeof(Node)));
    *node = {i, head};
    head = node;
  }
  add_to_all<<<1, 1>>>(head, 100);
  LAUNCHED();
  CALL(cudaDeviceSynchronize());
  int expected = 19;
  while (head) {
    EXPECT(head->value == 100 + expected--);
    digest(head->value);
    Node* next = head->next;
    CALL(cudaFree(head));
    head = next;
  }
  CALL(cudaFree(data));
  return finish();
}

// nvcc: -std=c++17
// run: build=long ways=static
// A tree in managed memory with pointers to all kinds of memory: advised, prefetched and attached; a block
// large enough for a mapping of its own; managed variables that point to one another; temporary blocks. Every
// step queries range and pointer attributes.
#include "saved.h"

struct Node {
  Node *left, *right;
  uint32_t* payload;  // in device, managed or pinned memory
  uint32_t value;
};
__managed__ Node* root;
__managed__ Node** to_root;
__device__ Node* device_root;
__managed__ uint32_t numbers[1000];

__device__ uint32_t visit(Node* n, uint32_t add) {
  uint32_t sum = 0;
  Node* stack[64];
  int top = 0;
  stack[top++] = n;
  while (top) {
    Node* at = stack[--top];
    at->value += add;
    *at->payload = *at->payload * 3 + at->value;
    sum = sum * 31 + *at->payload;
    if (at->right) stack[top++] = at->right;
    if (at->left) stack[top++] = at->left;
  }
  return sum;
}
__global__ void visit_all(uint32_t add, uint32_t* to) {
  device_root = *to_root;
  *to = visit(device_root, add);
}
__global__ void stir(uint32_t* v, size_t n, size_t stride, uint32_t with) {
  for (size_t i = threadIdx.x * stride; i < n; i += blockDim.x * stride) v[i] = (v[i] ^ with) * 2654435761u;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  constexpr int kNodes = 31;
  constexpr size_t kLarge = size_t{40} << 20, kStride = 4099;
  Node* nodes;
  uint32_t *in_device, *in_pinned, *result, *large, *advised, *attached;
  CALL(cudaMallocManaged(&nodes, kNodes * sizeof(Node)));
  CALL(cudaMallocManaged(&result, 4));
  CALL(cudaMallocManaged(&large, kLarge));
  CALL(cudaMallocManaged(&advised, 64 << 10));
  CALL(cudaMallocManaged(&attached, 64 << 10, cudaMemAttachHost));
  CALL(cudaMalloc(&in_device, kNodes * 4));
  CALL(cudaHostAlloc(&in_pinned, kNodes * 4, cudaHostAllocMapped | cudaHostAllocPortable));
  CALL(cudaMemset(in_device, 0, kNodes * 4));
  memset(in_pinned, 0, kNodes * 4);
  memset(large, 0, kLarge);
  memset(attached, 0, 64 << 10);
  memset(numbers, 0, sizeof numbers);
  uint32_t model[kNodes] = {}, values[kNodes] = {};
  for (int i = 0; i < kNodes; i++)
    nodes[i] = {2 * i + 1 < kNodes ? nodes + 2 * i + 1 : nullptr,
                2 * i + 2 < kNodes ? nodes + 2 * i + 2 : nullptr,
                i % 3 == 0   ? in_device + i
                : i % 3 == 1 ? in_pinned + i
                             : numbers + i,
                0};
  root = nodes;
  to_root = &root;
  cudaMemLocation here = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
  CALL(cudaMemAdvise(advised, 16 << 10, cudaMemAdviseSetReadMostly, here));
  CALL(cudaMemAdvise(advised + (16 << 8), 16 << 10, cudaMemAdviseSetPreferredLocation, host));
  CALL(cudaMemAdvise(advised + (32 << 8), 16 << 10, cudaMemAdviseSetAccessedBy, here));
  CALL(cudaMemAdvise(advised + (48 << 8), 16 << 10, cudaMemAdviseSetPreferredLocation, here));
  CALL(cudaMemPrefetchAsync(advised + (48 << 8), 16 << 10, here, 0, stream));
  CALL(cudaMemPrefetchAsync(advised, 4096, host, 0, stream));
  CALL(cudaStreamSynchronize(stream));
  CALL(cudaDeviceSynchronize());
  int told[5][4];
  auto ask = [&](int to[5][4]) {
    static const cudaMemRangeAttribute which[4] = {
        cudaMemRangeAttributeReadMostly, cudaMemRangeAttributePreferredLocation,
        cudaMemRangeAttributeAccessedBy, cudaMemRangeAttributeLastPrefetchLocation};
    for (int r = 0; r < 5; r++)
      for (int a = 0; a < 4; a++) {
        to[r][a] = -77;
        CALL(cudaMemRangeGetAttribute(&to[r][a], 4, which[a], r < 4 ? advised + (16 << 8) * r : advised,
                                      r < 4 ? 4096 : 64 << 10));
      }
  };
  ask(told);
  uint32_t large_model = 0, *passing = nullptr, passing_model = 0;
  uint32_t* plain = static_cast<uint32_t*>(malloc(4096));
  while (steplog_done < steplog_steps) {
    const uint32_t step = static_cast<uint32_t>(steplog_done);
    visit_all<<<1, 1, 0, stream>>>(step, result);
    stir<<<1, 64, 0, stream>>>(large, kLarge / 4, kStride, step);
    stir<<<1, 64, 0, stream>>>(attached, 1000, 1, step);
    if (step % 3 == 0)
      CALL(cudaMemPrefetchAsync(nodes, kNodes * sizeof(Node), step % 2 ? here : host, 0, stream));
    if (step % 4 == 0) {
      CALL(cudaMallocManaged(&passing, 4096 * (1 + step % 5)));
      EXPECT(passing[0] == 0 || true);
      memset(passing, 0, 4096);
      passing_model = 0;
    }
    stir<<<1, 1, 0, stream>>>(passing, 1, 1, step);
    passing_model = (passing_model ^ step) * 2654435761u;
    LAUNCHED();
    CALL(cudaStreamSynchronize(stream));
    uint32_t sum = 0;
    int stack[64], top = 0;
    stack[top++] = 0;
    while (top) {
      int at = stack[--top];
      values[at] += step;
      model[at] = model[at] * 3 + values[at];
      sum = sum * 31 + model[at];
      if (2 * at + 2 < kNodes) stack[top++] = 2 * at + 2;
      if (2 * at + 1 < kNodes) stack[top++] = 2 * at + 1;
    }
    large_model = (large_model ^ step) * 2654435761u;
    EXPECT(*result == sum);
    EXPECT(*passing == passing_model);
    for (size_t i = 0; i < kLarge / 4; i += kStride) EXPECT(large[i] == large_model);
    EXPECT(large[1] == 0 && large[kLarge / 4 - 1] == (((kLarge / 4 - 1) % kStride) ? 0 : large_model));
    EXPECT(attached[999] == large_model);
    for (int i = 2; i < kNodes; i += 3) EXPECT(numbers[i] == model[i]);
    for (int i = 1; i < kNodes; i += 3) EXPECT(in_pinned[i] == model[i]);
    for (int i = 0; i < kNodes; i++) EXPECT(nodes[i].value == values[i]);
    Node* there;
    CALL(cudaMemcpyFromSymbol(&there, device_root, 8));
    EXPECT(there == nodes && root == nodes && to_root == &root);
    int again[5][4];
    ask(again);
    for (int r = 0; r < 5; r++)
      for (int a = 0; a < 4; a++)
        if (again[r][a] != told[r][a])
          steplog_fail("range %d attribute %d: %d, was %d", r, a, again[r][a], told[r][a]);
    struct {
      void* p;
      cudaMemoryType type;
    } kinds[] = {{nodes + 1, cudaMemoryTypeManaged},    {large + 12345, cudaMemoryTypeManaged},
                 {in_device + 1, cudaMemoryTypeDevice}, {in_pinned + 1, cudaMemoryTypeHost},
                 {numbers + 5, cudaMemoryTypeManaged},  {plain, cudaMemoryTypeUnregistered}};
    for (auto& k : kinds) {
      cudaPointerAttributes of;
      CALL(cudaPointerGetAttributes(&of, k.p));
      if (of.type != k.type)
        steplog_fail("kind %d is %d, should be %d", static_cast<int>(&k - kinds), of.type, k.type);
      if (k.type == cudaMemoryTypeHost) EXPECT(of.hostPointer == k.p && of.devicePointer == k.p);
    }
    if (step % 4 == 3) CALL(cudaFree(passing));
    large[1] = 0;
    numbers[999] = step;
    steplog_mix(sum);
    steplog_mix(large_model);
    steplog_step();
  }
  nonce.back();
  steplog_ok();
  return 0;
}

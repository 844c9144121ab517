// A failing device assertion, in a child: its text on stderr, and an error that every later call returns.
#include "child.h"

#include <cassert>

__global__ void check(int limit) { assert(static_cast<int>(threadIdx.x) < limit && "too many"); }

int main() {
  Ended good = in_child([] {
    check<<<1, 64>>>(64);
    CALL(cudaDeviceSynchronize());
  });
  expect_child(good, "an assertion that holds");
  Ended bad = in_child([] {
    int* memory;
    CALL(cudaMalloc(&memory, 4));
    check<<<2, 64>>>(63);
    FAILS(cudaDeviceSynchronize(), cudaErrorAssert);
    FAILS(cudaGetLastError(), cudaErrorAssert);
    FAILS(cudaGetLastError(), cudaErrorAssert);  // the error stays
    FAILS(cudaMalloc(&memory, 4), cudaErrorAssert);
    FAILS(cudaMemset(memory, 0, 4), cudaErrorAssert);
    check<<<1, 1>>>(64);
    FAILS(cudaGetLastError(), cudaErrorAssert);
  });
  expect_child(bad, "an assertion that does not");
  for (const char* part : {"assert.cu", ",0,0], thread: [63,0,0] Assertion `", "too many"})
    if (bad.errors.find(part) == std::string::npos) fail("no '%s' in: %s", part, bad.errors.c_str());
  return finish();
}

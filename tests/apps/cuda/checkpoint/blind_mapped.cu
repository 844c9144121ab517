// nvcc: -std=c++17 -lcuda
// run: build=long ways=static
// Memory that the program maps by itself: one piece of physical memory at two addresses, which must stay one
// piece; pieces that move; handles that are released while mapped; read-only mappings, holes, and reserved
// addresses.
#include <cuda.h>

#include "saved.h"

#define CU(what)                                                                                 \
  do {                                                                                           \
    CUresult result_ = (what);                                                                   \
    if (result_ != CUDA_SUCCESS) steplog_fail("line %d: %s: %d", __LINE__, #what, (int)result_); \
  } while (0)

__global__ void stir(uint32_t* v, uint32_t with) { v[threadIdx.x] = (v[threadIdx.x] ^ with) * 2654435761u; }
__global__ void copy(const uint32_t* from, uint32_t* to) { to[threadIdx.x] = from[threadIdx.x]; }

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  CUmemAllocationProp what = {};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  size_t unit;
  CU(cuMemGetAllocationGranularity(&unit, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr base, second;
  CU(cuMemAddressReserve(&base, 8 * unit, 0, 0, 0));
  CU(cuMemAddressReserve(&second, 3 * unit, 0, 0, 0));
  CUmemGenericAllocationHandle h[3];
  for (auto& one : h) CU(cuMemCreate(&one, unit, &what, 0));
  CUmemAccessDesc both = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}, read = both;
  read.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  // base: [0] h0, [1] h1, [2] hole, [3] h0 again, [4] h2, changing; second: [1] h1 again, read only
  CU(cuMemMap(base, unit, 0, h[0], 0));
  CU(cuMemMap(base + unit, unit, 0, h[1], 0));
  CU(cuMemMap(base + 3 * unit, unit, 0, h[0], 0));
  CU(cuMemMap(base + 4 * unit, unit, 0, h[2], 0));
  CU(cuMemMap(second + unit, unit, 0, h[1], 0));
  CU(cuMemSetAccess(base, 2 * unit, &both, 1));
  CU(cuMemSetAccess(base + 3 * unit, 2 * unit, &both, 1));
  CU(cuMemSetAccess(second + unit, unit, &read, 1));
  CU(cuMemRelease(h[0]));  // its memory stays, since it is mapped
  auto at = [&](CUdeviceptr p) { return reinterpret_cast<uint32_t*>(p); };
  cudaStream_t s;
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  for (int i : {0, 1, 4}) CALL(cudaMemset(at(base + i * unit), 0, unit));
  CALL(cudaDeviceSynchronize());
  uint32_t model[3] = {}, *out;
  CALL(cudaMalloc(&out, 128));
  int where = 4;  // the position of h2
  while (steplog_done < steplog_steps) {
    const uint32_t step = static_cast<uint32_t>(steplog_done);
    stir<<<1, 32, 0, s>>>(at(base + (step % 2 ? 3 : 0) * unit), step);
    stir<<<1, 32, 0, s>>>(at(base + unit) + 1000, step + 1);
    stir<<<1, 32, 0, s>>>(at(base + where * unit), step + 2);
    for (int i = 0; i < 3; i++) model[i] = (model[i] ^ (step + i)) * 2654435761u;
    copy<<<1, 32, 0, s>>>(at(second + unit) + 1000, out);
    LAUNCHED();
    CALL(cudaStreamSynchronize(s));
    uint32_t got[32];
    CALL(cudaMemcpy(got, out, 128, cudaMemcpyDeviceToHost));
    EXPECT(got[0] == model[1] && got[31] == model[1]);
    for (int i : {0, 3}) {
      CALL(cudaMemcpy(got, at(base + i * unit), 128, cudaMemcpyDeviceToHost));
      EXPECT(got[7] == model[0]);
    }
    CALL(cudaMemcpy(got, at(base + where * unit), 128, cudaMemcpyDeviceToHost));
    EXPECT(got[7] == model[2]);
    unsigned long long flags;
    CU(cuMemGetAccess(&flags, &read.location, second + unit));
    EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
    CU(cuMemGetAccess(&flags, &read.location, base));
    EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemGenericAllocationHandle again;
    CUmemAllocationProp told;
    CU(cuMemRetainAllocationHandle(&again, at(base + 3 * unit)));
    CU(cuMemGetAllocationPropertiesFromHandle(&told, again));
    EXPECT(told.location.id == 0 && told.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    if (step % 5 == 1) {  // mapped at a third address by this handle, temporarily
      CU(cuMemMap(base + 2 * unit, unit, 0, again, 0));
      CU(cuMemSetAccess(base + 2 * unit, unit, &both, 1));
    }
    CU(cuMemRelease(again));
    if (step % 5 == 2) {
      CALL(cudaMemcpy(got, at(base + 2 * unit), 128, cudaMemcpyDeviceToHost));
      EXPECT(got[9] == model[0]);
    }
    if (step % 5 == 3) CU(cuMemUnmap(base + 2 * unit, unit));
    if (step % 3 == 1) {
      CU(cuMemUnmap(base + where * unit, unit));
      where = where == 7 ? 4 : where + 1;
      CU(cuMemMap(base + where * unit, unit, 0, h[2], 0));
      CU(cuMemSetAccess(base + where * unit, unit, &both, 1));
    }
    if (step % 6 == 4) {  // new physical memory, into which the old contents are copied
      CUmemGenericAllocationHandle fresh;
      CU(cuMemCreate(&fresh, unit, &what, 0));
      CU(cuMemMap(second, unit, 0, fresh, 0));
      CU(cuMemSetAccess(second, unit, &both, 1));
      CALL(cudaMemcpy(at(second), at(base + where * unit), unit, cudaMemcpyDeviceToDevice));
      CALL(cudaDeviceSynchronize());
      CU(cuMemUnmap(second, unit));
      CU(cuMemUnmap(base + where * unit, unit));
      CU(cuMemRelease(h[2]));
      h[2] = fresh;
      CU(cuMemMap(base + where * unit, unit, 0, h[2], 0));
      CU(cuMemSetAccess(base + where * unit, unit, &both, 1));
    }
    for (auto m : model) steplog_mix(m);
    steplog_step();
  }
  nonce.back();
  steplog_ok();
  return 0;
}

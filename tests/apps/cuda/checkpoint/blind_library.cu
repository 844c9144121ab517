// nvcc: -std=c++17 -lcuda
// run: build=long ways=static,shared
// Kernel libraries by the runtime's functions (cudaLibraryLoadData): two permanent ones and a temporary one;
// attributes of their kernels, global and managed variables, function addresses; attributes set for one
// device; driver handles of the same objects.
#include <cuda.h>

#include "saved.h"

static const char* kText = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .u32 number = 17;
.visible .global .align 8 .b8 table[64];
.visible .global .u64 self = generic(table);
// No managed variable, which refuses checkpoints.
.visible .global .u32 shared_number = 5;
.visible .const .u32 factor = 3;
.extern .shared .align 4 .b8 room[];
.visible .entry work(.param .u64 to, .param .u32 with) {
  .reg .u64 %rd<4>;
  .reg .u32 %r<9>;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [with];
  ld.global.u32 %r2, [number];
  ld.const.u32 %r3, [factor];
  mad.lo.u32 %r2, %r2, %r3, %r1;
  st.global.u32 [number], %r2;
  ld.global.u64 %rd2, [self];
  ld.u32 %r4, [%rd2];
  add.u32 %r4, %r4, %r2;
  st.u32 [%rd2], %r4;
  ld.global.u32 %r5, [shared_number];
  add.u32 %r5, %r5, %r4;
  st.global.u32 [shared_number], %r5;
  ld.global.u32 %r6, [%rd1];
  xor.b32 %r6, %r6, %r5;
  st.shared.u32 [room], %r6;
  ld.shared.u32 %r7, [room];
  st.global.u32 [%rd1], %r7;
  ret;
}
.visible .entry idle() { ret; }
)";

struct Library {
  cudaLibrary_t library;
  cudaKernel_t work;
  uint32_t *number, *managed, *table;
  size_t bytes;
  uint32_t m_number, m_table, m_managed;
  int shared;
};

static Library loaded(int shared) {
  Library l = {};
  CALL(cudaLibraryLoadData(&l.library, kText, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CALL(cudaLibraryGetKernel(&l.work, l.library, "work"));
  CALL(cudaLibraryGetGlobal(reinterpret_cast<void**>(&l.number), &l.bytes, l.library, "number"));
  EXPECT(l.bytes == 4);
  CALL(cudaLibraryGetGlobal(reinterpret_cast<void**>(&l.table), &l.bytes, l.library, "table"));
  EXPECT(l.bytes == 64);
  CALL(cudaLibraryGetGlobal(reinterpret_cast<void**>(&l.managed), &l.bytes, l.library, "shared_number"));
  CALL(cudaKernelSetAttributeForDevice(l.work, cudaFuncAttributeMaxDynamicSharedMemorySize, shared, 0));
  CALL(cudaKernelSetAttributeForDevice(l.work, cudaFuncAttributePreferredSharedMemoryCarveout, shared / 1000,
                                       0));
  l.m_number = 17, l.m_table = 0, l.m_managed = 5, l.shared = shared;
  return l;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  cudaStream_t s;
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  uint32_t *v, model = 0;
  CALL(cudaMalloc(&v, 4));
  CALL(cudaMemset(v, 0, 4));
  CALL(cudaDeviceSynchronize());
  Library all[3] = {loaded(61000), loaded(72000), {}};
  while (steplog_done < steplog_steps) {
    const uint32_t step = static_cast<uint32_t>(steplog_done);
    if (step % 6 == 1) all[2] = loaded(50000 + static_cast<int>(step) * 100);
    for (auto& l : all) {
      if (!l.library) continue;
      uint32_t with = step;
      void* arguments[] = {&v, &with};
      CALL(cudaLaunchKernel(reinterpret_cast<void*>(l.work), 1, 1, arguments, static_cast<size_t>(l.shared),
                            s));
      l.m_number = l.m_number * 3 + with;
      l.m_table += l.m_number;
      l.m_managed += l.m_table;
      model ^= l.m_managed;
    }
    CALL(cudaStreamSynchronize(s));
    for (auto& l : all) {
      if (!l.library) continue;
      uint32_t n, t, managed;
      CALL(cudaMemcpy(&managed, l.managed, 4, cudaMemcpyDeviceToHost));
      CALL(cudaMemcpy(&n, l.number, 4, cudaMemcpyDeviceToHost));
      CALL(cudaMemcpy(&t, l.table, 4, cudaMemcpyDeviceToHost));
      EXPECT(n == l.m_number && t == l.m_table && managed == l.m_managed);
      l.m_managed++;
      CALL(cudaMemcpy(l.managed, &l.m_managed, 4, cudaMemcpyHostToDevice));
      CALL(cudaDeviceSynchronize());
      uint32_t* again;
      size_t bytes;
      unsigned count = 0;
      cudaFuncAttributes of;
      CALL(cudaLibraryGetGlobal(reinterpret_cast<void**>(&again), &bytes, l.library, "number"));
      EXPECT(again == l.number);
      CALL(cudaLibraryGetKernelCount(&count, l.library));
      EXPECT(count == 2);
      cudaKernel_t list[2], one;
      CALL(cudaLibraryEnumerateKernels(list, 2, l.library));
      EXPECT(list[0] == l.work || list[1] == l.work);
      CALL(cudaLibraryGetKernel(&one, l.library, "work"));
      EXPECT(one == l.work);
      CALL(cudaFuncGetAttributes(&of, reinterpret_cast<void*>(l.work)));
      EXPECT(of.maxDynamicSharedSizeBytes == l.shared && of.preferredShmemCarveout == l.shared / 1000);
      const char* name;
      CALL(cudaFuncGetName(&name, reinterpret_cast<void*>(l.work)));
      EXPECT(!strcmp(name, "work"));
      int by_driver;
      EXPECT(cuKernelGetAttribute(&by_driver, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  reinterpret_cast<CUkernel>(l.work), 0) == CUDA_SUCCESS);
      EXPECT(by_driver == l.shared);
    }
    uint32_t got;
    CALL(cudaMemcpy(&got, v, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == model);
    if (step % 6 == 4 && all[2].library) {
      CALL(cudaLibraryUnload(all[2].library));
      all[2].library = nullptr;
    }
    if (step % 20 == 19) {  // the first library is loaded again, after the others
      CALL(cudaLibraryUnload(all[0].library));
      all[0] = loaded(61000);
      std::swap(all[0], all[1]);
    }
    for (auto& l : all)  // in different ways and order
      if (l.library) model += 0;
    steplog_mix(got);
    steplog_step();
  }
  nonce.back();
  steplog_ok();
  return 0;
}

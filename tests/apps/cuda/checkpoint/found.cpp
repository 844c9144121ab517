// nvcc: -std=c++17 -ldl
// run: ways=none
// Finds the runtime only by dlopen and dlsym, as Python does, and a driver function by
// cudaGetDriverEntryPoint: a kernel from PTX text through the library functions, pinned memory, a stream, an
// event. With --addresses it also keeps the address of the code's variable.
#include <dlfcn.h>
#include <driver_types.h>

#include <vector>

#include "../../steplog.h"

static const char* kPtx = R"(.version 8.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 launches;
.visible .entry stir(.param .u64 data, .param .u32 count) {
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .reg .pred %p<3>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r5, [count];
  mov.u32 %r1, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mad.lo.u32 %r1, %r3, %r4, %r1;
  setp.eq.u32 %p2, %r1, 0;
  @%p2 red.global.add.u32 [launches], 1;
  setp.ge.u32 %p1, %r1, %r5;
  @%p1 ret;
  mul.wide.u32 %rd2, %r1, 4;
  cvta.to.global.u64 %rd1, %rd1;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  mad.lo.u32 %r2, %r2, 1664525, %r1;
  st.global.u32 [%rd3], %r2;
  ret;
}
)";

static void* library;

template <class Function>
static Function find(const char* name) {
  void* address = dlsym(library, name);
  if (!address) steplog_fail("no %s", name);
  return reinterpret_cast<Function>(address);
}

#define CALL(what)                                           \
  do {                                                       \
    int error = (what);                                      \
    if (error) steplog_fail("line %d: %d", __LINE__, error); \
  } while (0)

// Found by cudaGetDriverEntryPoint, which takes no version, for the legacy and for the own default stream.
struct Copies {
  int (*to_host[2])(void*, const void*, size_t);
};

static Copies find_copies() {
  Copies copies = {};
  for (int own = 0; own < 2; own++) {
    int status = -1;
    CALL((find<int (*)(const char*, void**, unsigned long long, int*)>("cudaGetDriverEntryPoint")(
        "cuMemcpyDtoH", reinterpret_cast<void**>(&copies.to_host[own]),
        own ? cudaEnablePerThreadDefaultStream : cudaEnableLegacyStream, &status)));
    if (!copies.to_host[own] || status) steplog_fail("no cuMemcpyDtoH for stream %d: %d", own, status);
  }
  if (copies.to_host[0] == copies.to_host[1]) steplog_fail("one cuMemcpyDtoH for both default streams");
  return copies;
}

static void use_copies(const Copies& copies, const unsigned* device, const unsigned* expected, unsigned n) {
  for (auto to_host : copies.to_host) {
    std::vector<unsigned> got(n);
    CALL(to_host(got.data(), device, n * 4));
    if (got != std::vector<unsigned>(expected, expected + n)) steplog_fail("another copy");
  }
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
  if (!library) steplog_fail("%s", dlerror());
  const unsigned n = 2000;
  unsigned *values, *pinned, *launches;
  size_t bytes;
  void *loaded, *kernel, *stream, *event, *entry = nullptr;
  CALL((find<int (*)(void**, size_t)>("cudaMalloc")(reinterpret_cast<void**>(&values), n * 4)));
  CALL((find<int (*)(void**, size_t)>("cudaMallocHost")(reinterpret_cast<void**>(&pinned), n * 4)));
  for (unsigned i = 0; i < n; i++) pinned[i] = i;
  CALL((find<int (*)(void**, const void*, void*, void*, unsigned, void*, void*, unsigned)>(
      "cudaLibraryLoadData")(&loaded, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0)));
  CALL((find<int (*)(void**, void*, const char*)>("cudaLibraryGetKernel")(&kernel, loaded, "stir")));
  const bool addresses = steplog_has(argc, argv, "--addresses");
  if (addresses)
    CALL((find<int (*)(void**, size_t*, void*, const char*)>("cudaLibraryGetGlobal")(
        reinterpret_cast<void**>(&launches), &bytes, loaded, "launches")));
  CALL(find<int (*)(void**)>("cudaStreamCreate")(&stream));
  CALL((find<int (*)(void**, unsigned)>("cudaEventCreateWithFlags")(&event, 2)));
  int status = 0;
  CALL((find<int (*)(const char*, void**, unsigned, unsigned long long, int*)>(
      "cudaGetDriverEntryPointByVersion")("cuMemcpyDtoH", &entry, 13000, 0, &status)));
  if (!entry || status) steplog_fail("no cuMemcpyDtoH: %d", status);
  auto to_host = reinterpret_cast<int (*)(void*, void*, size_t)>(entry);
  const Copies copies = find_copies();
  auto copy = find<int (*)(void*, const void*, size_t, int, void*)>("cudaMemcpyAsync");
  auto launch = find<int (*)(void*, dim3, dim3, void**, size_t, void*)>("cudaLaunchKernel");
  auto wait = find<int (*)(void*)>("cudaStreamSynchronize");
  auto record = find<int (*)(void*, void*)>("cudaEventRecord");
  auto query = find<int (*)(void*)>("cudaEventQuery");
  uint64_t* nonce;
  CALL((find<int (*)(void**, size_t)>("cudaMalloc")(reinterpret_cast<void**>(&nonce), sizeof *nonce)));
  CALL(copy(nonce, &steplog_nonce, sizeof *nonce, cudaMemcpyHostToDevice, stream));
  CALL(copy(values, pinned, n * 4, cudaMemcpyHostToDevice, stream));
  CALL(wait(stream));
  std::vector<unsigned> before(pinned, pinned + n);
  while (steplog_done < steplog_steps) {
    unsigned count = n, counted = 0;
    void* arguments[] = {&values, &count};
    CALL(launch(kernel, dim3((n + 127) / 128), dim3(128), arguments, 0, stream));
    CALL(record(event, stream));
    CALL(copy(pinned, values, n * 4, cudaMemcpyDeviceToHost, stream));
    CALL(wait(stream));
    CALL(query(event));
    use_copies(copies, values, pinned, n);
    if (addresses) CALL(to_host(&counted, launches, 4));
    CALL(to_host(pinned, values, n * 4));
    if (addresses && counted != static_cast<unsigned>(steplog_done) + 1)
      steplog_fail("%u launches after %ld steps", counted, steplog_done);
    for (unsigned i = 0; i < n; i++)
      if (pinned[i] != before[i] * 1664525u + i) steplog_fail("number %u", i);
    before.assign(pinned, pinned + n);
    steplog_mix_bytes(pinned, n * 4);
    steplog_step();
  }
  CALL(find<int (*)(void*)>("cudaEventDestroy")(event));
  CALL(find<int (*)(void*)>("cudaStreamDestroy")(stream));
  CALL(find<int (*)(void*)>("cudaLibraryUnload")(loaded));
  CALL(find<int (*)(void*)>("cudaFreeHost")(pinned));
  CALL(find<int (*)(void*)>("cudaFree")(values));
  uint64_t kept = 0;
  CALL(to_host(&kept, nonce, sizeof kept));
  if (kept != steplog_nonce) steplog_fail("the nonce differs");
  steplog_nonce = kept;
  CALL(find<int (*)(void*)>("cudaFree")(nonce));
  steplog_ok();
  return 0;
}

// links: gpu_cuda
// The driver's functions for memory: what is copied, what waits, what is refused.
#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr size_t kMegabyte = 1 << 20;

class Calls : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("CROPDL_SOFTWARE_GPUS", "2", 1);
    setenv("CROPDL_SOFTWARE_GPU_MEMORY", "256M", 1);
  }
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }

  static CUdeviceptr allocate(size_t size) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc(&address, size), CUDA_SUCCESS);
    return address;
  }
  template <class T>
  static T* pinned(size_t count) {
    void* address = nullptr;
    EXPECT_EQ(cuMemAllocHost(&address, count * sizeof(T)), CUDA_SUCCESS);
    return static_cast<T*>(address);
  }
  static std::vector<unsigned char> content(CUdeviceptr address, size_t size) {
    std::vector<unsigned char> bytes(size);
    EXPECT_EQ(cuMemcpyDtoH(bytes.data(), address, size), CUDA_SUCCESS);
    return bytes;
  }
  static std::vector<unsigned char> noise(size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<unsigned char> bytes(size);
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
    return bytes;
  }

  // While one lives, what is given to a stream does not begin.
  class Closed {
   public:
    explicit Closed(CUstream of) : gate_(new Gate) {
      EXPECT_EQ(cuLaunchHostFunc(
                    of,
                    [](void* data) {
                      std::unique_ptr<Gate> gate(static_cast<Gate*>(data));
                      while (!(*gate)->load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    },
                    new Gate(*gate_)),
                CUDA_SUCCESS);
    }
    void open() { (*gate_)->store(true); }
    ~Closed() { open(); }

   private:
    // Shared with the stream, which looks at it once more after it has been opened.
    struct Gate : std::shared_ptr<std::atomic<bool>> {
      Gate() : shared_ptr(std::make_shared<std::atomic<bool>>(false)) {}
    };
    std::unique_ptr<Gate> gate_;
  };

  CUcontext context = nullptr;
  CUstream stream = nullptr;
};

// As a driver hands it out. Tests that look for what is not initialised switch that off
// (CROPDL_SOFTWARE_GPU_FRESH).
TEST_F(Calls, HandOutMemoryOfZeros) {
  const auto is_zeros_again = [&](CUdeviceptr address, size_t size) {
    const std::vector<unsigned char> found = content(address, size);
    EXPECT_EQ(std::count(found.begin(), found.end(), 0), static_cast<long>(size)) << size;
    EXPECT_EQ(cuMemsetD8(address, 0xee, size), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);  // the stream does not wait for it
  };
  for (size_t size : {5, 300, 4097, 100000, 700001, 2 << 20, (5 << 20) + 13})
    for (int i = 0; i < 20; ++i) {
      const CUdeviceptr address = allocate(size);
      is_zeros_again(address, size);
      EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
      CUdeviceptr managed = 0, ordered = 0;
      EXPECT_EQ(cuMemAllocManaged(&managed, size, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
      is_zeros_again(managed, size);
      EXPECT_EQ(cuMemFree(managed), CUDA_SUCCESS);
      EXPECT_EQ(cuMemAllocAsync(&ordered, size, stream), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
      is_zeros_again(ordered, size);
      EXPECT_EQ(cuMemFreeAsync(ordered, stream), CUDA_SUCCESS);
      auto* host = pinned<unsigned char>(size);
      EXPECT_EQ(std::count(host, host + size, 0), static_cast<long>(size)) << size;
      std::memset(host, 0xee, size);
      EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
    }
}

TEST_F(Calls, CopyThereAndBackAndBetween) {
  const auto bytes = noise(100001, 1);
  const CUdeviceptr one = allocate(bytes.size()), two = allocate(bytes.size());
  EXPECT_EQ(cuMemcpyHtoD(one, bytes.data(), bytes.size()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoD(two, one, bytes.size()), CUDA_SUCCESS);
  EXPECT_EQ(content(two, bytes.size()), bytes);
  std::vector<unsigned char> back(bytes.size());
  EXPECT_EQ(cuMemcpy(reinterpret_cast<CUdeviceptr>(back.data()), two, bytes.size()), CUDA_SUCCESS);
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(cuMemcpyHtoD(one, nullptr, 0), CUDA_SUCCESS) << "nothing to do";
  EXPECT_EQ(cuMemFree(one), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(two), CUDA_SUCCESS);
}

TEST_F(Calls, RefuseMissingTooLargeOrWrongSideMemory) {
  const CUdeviceptr device = allocate(1000);
  std::vector<char> host(2000);
  auto* none = static_cast<char*>(mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(none + 4096, 4096, PROT_NONE);
  EXPECT_EQ(cuMemcpyHtoD(device, host.data(), 1001), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH(host.data(), device + 1, 1000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(device, none + 4000, 200), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH(none, device, 100), CUDA_ERROR_INVALID_VALUE) << "it cannot be written";
  EXPECT_EQ(cuMemcpyHtoD(device, none, 100), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(host.data()), host.data() + 1000, 10),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(device, reinterpret_cast<void*>(device), 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH(reinterpret_cast<void*>(device), device, 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoD(device, reinterpret_cast<CUdeviceptr>(host.data()), 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(reinterpret_cast<CUdeviceptr>(host.data()), 0, 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32(device + 2, 0, 10), CUDA_ERROR_INVALID_VALUE) << "not aligned";
  EXPECT_EQ(cuMemsetD32(device, 0, 251), CUDA_ERROR_INVALID_VALUE);
  CUstream gone = nullptr;
  ASSERT_EQ(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy(gone), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoDAsync(device, host.data(), 0, gone), CUDA_ERROR_INVALID_HANDLE) << "nothing to copy";
  EXPECT_EQ(cuMemsetD8Async(device, 0, 0, gone), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemsetD8Async(device, 0, 0, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH(host.data(), device, 10), CUDA_ERROR_INVALID_VALUE) << "freed";
  EXPECT_EQ(cuMemFree(device), CUDA_ERROR_INVALID_VALUE) << "freed twice";
  munmap(none, 8192);
}

TEST_F(Calls, CopyRectanglesAndBoxesAsTheirLoopsSay) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    auto pick = [&](size_t most) { return random() % (most + 1); };
    CUDA_MEMCPY3D what{};
    what.WidthInBytes = 1 + pick(40);
    what.Height = 1 + pick(5);
    what.Depth = 1 + pick(3);
    what.srcXInBytes = pick(9);
    what.srcY = pick(3);
    what.srcZ = pick(2);
    what.dstXInBytes = pick(9);
    what.dstY = pick(3);
    what.dstZ = pick(2);
    what.srcPitch = what.srcXInBytes + what.WidthInBytes + pick(7);
    what.dstPitch = what.dstXInBytes + what.WidthInBytes + pick(7);
    what.srcHeight = what.srcY + what.Height + pick(2);
    what.dstHeight = what.dstY + what.Height + pick(2);
    const size_t from_size = what.srcPitch * what.srcHeight * (what.srcZ + what.Depth);
    const size_t to_size = what.dstPitch * what.dstHeight * (what.dstZ + what.Depth);
    const auto from = noise(from_size, round);
    auto expected = noise(to_size, round + 1000);
    std::vector<unsigned char> back = expected;
    const CUdeviceptr source = allocate(from_size), middle = allocate(to_size);
    ASSERT_EQ(cuMemcpyHtoD(source, from.data(), from_size), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyHtoD(middle, expected.data(), to_size), CUDA_SUCCESS);
    for (size_t z = 0; z < what.Depth; ++z)
      for (size_t y = 0; y < what.Height; ++y)
        for (size_t x = 0; x < what.WidthInBytes; ++x)
          expected[((what.dstZ + z) * what.dstHeight + what.dstY + y) * what.dstPitch + what.dstXInBytes +
                   x] =
              from[((what.srcZ + z) * what.srcHeight + what.srcY + y) * what.srcPitch + what.srcXInBytes + x];
    what.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    what.srcDevice = source;
    what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    what.dstDevice = middle;
    EXPECT_EQ(cuMemcpy3D(&what), CUDA_SUCCESS);
    EXPECT_EQ(content(middle, to_size), expected) << round;
    what.dstMemoryType = CU_MEMORYTYPE_HOST;
    what.dstHost = back.data();
    EXPECT_EQ(cuMemcpy3DAsync(&what, stream), CUDA_SUCCESS);
    EXPECT_EQ(back, expected) << "pageable memory is written when the call returns";
    what.srcMemoryType = CU_MEMORYTYPE_HOST;
    what.srcHost = from.data();
    what.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    ASSERT_EQ(cuMemsetD8(middle, 0, to_size), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpy3D(&what), CUDA_SUCCESS);
    const auto got = content(middle, to_size);
    for (size_t i = 0; i < to_size; ++i) ASSERT_TRUE(got[i] == 0 || got[i] == expected[i]);
    if (what.Height > 1) {
      what.dstPitch = what.WidthInBytes + what.dstXInBytes - 1;
      EXPECT_EQ(cuMemcpy3D(&what), CUDA_ERROR_INVALID_VALUE) << "rows overlap";
    }
    EXPECT_EQ(cuMemFree(source), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(middle), CUDA_SUCCESS);
  }
}

TEST_F(Calls, AllocateRowsWithAPitch) {
  CUdeviceptr rows = 0;
  size_t pitch = 0;
  ASSERT_EQ(cuMemAllocPitch(&rows, &pitch, 100, 10, 4), CUDA_SUCCESS);
  EXPECT_EQ(pitch, 512u);
  EXPECT_EQ(cuMemAllocPitch(&rows, &pitch, 100, 10, 3), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocPitch(&rows, &pitch, 100, ~size_t{0} / 2, 4), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(cuMemsetD8(rows, 9, 512 * 10), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD2D16(rows, 512, 0x1234, 50, 10), CUDA_SUCCESS);
  const auto bytes = content(rows, 5120);
  for (size_t i = 0; i < bytes.size(); ++i)
    ASSERT_EQ(bytes[i], i % 512 >= 100 ? 9 : i % 2 ? 0x12 : 0x34) << i;
  EXPECT_EQ(cuMemsetD2D32(rows, 512, 7, 129, 2), CUDA_ERROR_INVALID_VALUE) << "wider than the pitch";
  EXPECT_EQ(cuMemsetD2D8Async(rows, 512, 7, 512, 11, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(rows), CUDA_SUCCESS);
}

TEST_F(Calls, SetValuesOfEachSize) {
  const CUdeviceptr at = allocate(64);
  EXPECT_EQ(cuMemsetD8Async(at, 0xab, 64, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD16Async(at + 2, 0x1234, 5, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(at + 20, 0x01020304, 3, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  std::vector<unsigned char> expected(64, 0xab);
  for (int i = 0; i < 5; ++i) std::memcpy(&expected[2 + 2 * i], "\x34\x12", 2);
  for (int i = 0; i < 3; ++i) std::memcpy(&expected[20 + 4 * i], "\x04\x03\x02\x01", 4);
  EXPECT_EQ(content(at, 64), expected);
  EXPECT_EQ(cuMemFree(at), CUDA_SUCCESS);
}

TEST_F(Calls, CopyPinnedMemoryWhenTheStreamComesToIt) {
  const CUdeviceptr at = allocate(4);
  int *from = pinned<int>(1), *to = pinned<int>(1);
  *from = 1;
  *to = 0;
  {
    Closed gate(stream);
    EXPECT_EQ(cuMemcpyHtoDAsync(at, from, 4, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync(to, at, 4, stream), CUDA_SUCCESS);
    *from = 2;  // a race on a device: here it is read when the copy runs
    EXPECT_EQ(*to, 0);
  }
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(*to, 2);
  EXPECT_EQ(cuMemFreeHost(from), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(to), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(at), CUDA_SUCCESS);
}

TEST_F(Calls, TakePageableMemoryAtTheCall) {
  const CUdeviceptr at = allocate(4);
  int from = 1;
  {
    Closed gate(stream);
    EXPECT_EQ(cuMemcpyHtoDAsync(at, &from, 4, stream), CUDA_SUCCESS);
    from = 2;
  }
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  int to = 0;
  EXPECT_EQ(cuMemcpyDtoH(&to, at, 4), CUDA_SUCCESS);
  EXPECT_EQ(to, 1);
  EXPECT_EQ(cuMemFree(at), CUDA_SUCCESS);
}

// "For transfers from device memory to device memory, no host-side synchronization is performed." And a fill
// waits only for pinned and managed memory.
TEST_F(Calls, WithinTheDeviceDoNotWait) {
  const CUdeviceptr one = allocate(4), two = allocate(4);
  CUstream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32(one, 5, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32(two, 5, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  {
    Closed gate(blocking);  // the legacy stream comes after it
    EXPECT_EQ(cuMemsetD32(one, 6, 1), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoD(two, one, 4), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  }
  int got = 0;
  EXPECT_EQ(cuMemcpyDtoH(&got, two, 4), CUDA_SUCCESS);
  EXPECT_EQ(got, 6);
  EXPECT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(one), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(two), CUDA_SUCCESS);
}

TEST_F(Calls, ThatFreeWaitForTheDevice) {
  const CUdeviceptr at = allocate(4);
  int* to = pinned<int>(1);
  ASSERT_EQ(cuMemsetD32(at, 5, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  Closed gate(stream);
  ASSERT_EQ(cuMemcpyDtoHAsync(to, at, 4, stream), CUDA_SUCCESS);
  std::thread opens([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.open();
  });
  EXPECT_EQ(cuMemFree(at), CUDA_SUCCESS);
  EXPECT_EQ(*to, 5);
  opens.join();
  EXPECT_EQ(cuMemFreeHost(to), CUDA_SUCCESS);
}

TEST_F(Calls, AllocateAndFreeInStreamOrder) {
  CUdeviceptr at = 0;
  int* to = pinned<int>(1);
  {
    Closed gate(stream);
    ASSERT_EQ(cuMemAllocAsync(&at, 4000, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD32Async(at, 3, 1000, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoHAsync(to, at + 3996, 4, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(at, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(at, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD32Async(at, 3, 1000, stream), CUDA_ERROR_INVALID_VALUE) << "after the free";
  }
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(*to, 3);
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  cuuint64_t reserved = 1, used = 1;
  EXPECT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_SUCCESS);
  EXPECT_EQ(reserved, 0u) << "the threshold is 0";
  EXPECT_EQ(used, 0u);
  EXPECT_EQ(cuMemFreeHost(to), CUDA_SUCCESS);
}

TEST_F(Calls, AnswerPointerQueries) {
  const CUdeviceptr device = allocate(1000);
  int* host = pinned<int>(10);
  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  unsigned type = 0;
  int ordinal = 9;
  unsigned is_managed = 0;
  CUcontext owner = nullptr;
  CUdeviceptr start = 0, device_pointer = 0;
  void* host_pointer = nullptr;
  size_t size = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 999), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 1000),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, device), CUDA_SUCCESS);
  EXPECT_EQ(owner, context);
  EXPECT_EQ(cuPointerGetAttribute(&host_pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, device),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 5), CUDA_SUCCESS);
  EXPECT_EQ(start, device);
  EXPECT_EQ(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, device + 5), CUDA_SUCCESS);
  EXPECT_EQ(size, 1000u);
  const auto at = reinterpret_cast<CUdeviceptr>(host);
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 4), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_MEMORYTYPE_HOST);
  EXPECT_EQ(cuPointerGetAttribute(&device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at + 4),
            CUDA_SUCCESS);
  EXPECT_EQ(device_pointer, at + 4);
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* data[] = {&type, &is_managed, &ordinal};
  EXPECT_EQ(cuPointerGetAttributes(3, which, data, managed), CUDA_SUCCESS);
  EXPECT_EQ(is_managed, 1u);
  EXPECT_EQ(ordinal, 0);
  int local = 0;
  EXPECT_EQ(cuPointerGetAttributes(3, which, data, reinterpret_cast<CUdeviceptr>(&local)), CUDA_SUCCESS);
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(is_managed, 0u);
  EXPECT_EQ(cuMemGetAddressRange(&start, &size, device + 500), CUDA_SUCCESS);
  EXPECT_EQ(start, device);
  EXPECT_EQ(size, 1000u);
  EXPECT_EQ(cuMemGetAddressRange(&start, &size, reinterpret_cast<CUdeviceptr>(&local)), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuMemFreeHost(reinterpret_cast<void*>(device)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(managed), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
}

TEST_F(Calls, ReturnTheAdviceOfEachPage) {
  CUdeviceptr at = 0;
  ASSERT_EQ(cuMemAllocManaged(&at, 8 * 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0}, first{CU_MEM_LOCATION_TYPE_DEVICE, 0},
      second{CU_MEM_LOCATION_TYPE_DEVICE, 1};
  auto ask = [](CUmem_range_attribute which, CUdeviceptr from, size_t size) {
    int got = 77;
    EXPECT_EQ(cuMemRangeGetAttribute(&got, 4, which, from, size), CUDA_SUCCESS);
    return got;
  };
  EXPECT_EQ(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, 8 * 4096), CU_DEVICE_INVALID);
  EXPECT_EQ(cuMemAdvise(at, 8 * 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, first), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAdvise(at + 3 * 4096 + 5, 10, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host), CUDA_SUCCESS);
  EXPECT_EQ(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, 3 * 4096), 0);
  EXPECT_EQ(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at + 3 * 4096, 4096), CU_DEVICE_CPU);
  EXPECT_EQ(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at + 4 * 4096, 4 * 4096), 0);
  EXPECT_EQ(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, 8 * 4096), CU_DEVICE_INVALID) << "they differ";
  EXPECT_EQ(cuMemAdvise(at, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, first), CUDA_SUCCESS);
  EXPECT_EQ(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, 4096), 1);
  EXPECT_EQ(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, 4097), 0);
  EXPECT_EQ(cuMemAdvise(at, 8 * 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, second), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAdvise(at, 8 * 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, host), CUDA_SUCCESS);
  int list[3] = {};
  EXPECT_EQ(cuMemRangeGetAttribute(list, sizeof list, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, 8 * 4096),
            CUDA_SUCCESS);
  EXPECT_EQ(list[0], 1);
  EXPECT_EQ(list[1], CU_DEVICE_CPU);
  EXPECT_EQ(list[2], CU_DEVICE_INVALID);
  EXPECT_EQ(cuMemPrefetchAsync(at, 2 * 4096, second, 0, stream), CUDA_SUCCESS);
  EXPECT_EQ(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 2 * 4096), 1);
  EXPECT_EQ(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 3 * 4096), CU_DEVICE_INVALID);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPrefetchAsync(at, 8 * 4096 + 1, second, 0, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAdvise(at, 1, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, {CU_MEM_LOCATION_TYPE_DEVICE, 5}),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemFree(at), CUDA_SUCCESS);
  const CUdeviceptr plain = allocate(4096);
  EXPECT_EQ(cuMemAdvise(plain, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, first), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(plain), CUDA_SUCCESS);
}

TEST_F(Calls, CopyBetweenPeers) {
  CUcontext peer = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&peer, 1), CUDA_SUCCESS);
  const auto bytes = noise(5000, 3);
  const CUdeviceptr here = allocate(5000);
  ASSERT_EQ(cuCtxSetCurrent(peer), CUDA_SUCCESS);
  const CUdeviceptr there = allocate(5000);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoD(here, bytes.data(), 5000), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyPeer(there, peer, here, context, 5000), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(content(there, 5000), bytes);
  int can = 0;
  EXPECT_EQ(cuDeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cuCtxDisablePeerAccess(peer), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(cuCtxEnablePeerAccess(peer, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(peer, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  unsigned flags = 9;
  EXPECT_EQ(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, there), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
  EXPECT_EQ(cuCtxDisablePeerAccess(peer), CUDA_SUCCESS);
  EXPECT_EQ(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, there), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
  EXPECT_EQ(cuMemFree(here), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(there), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

// "serialized with respect to all pending and future asynchronous work into the current device, srcDevice and
// dstDevice"
TEST_F(Calls, BetweenPeersComeAfterTheWorkOfBoth) {
  CUcontext peer = nullptr;
  CUstream theirs = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&peer, 1), CUDA_SUCCESS);
  const CUdeviceptr here = allocate(4);
  ASSERT_EQ(cuCtxSetCurrent(peer), CUDA_SUCCESS);
  const CUdeviceptr there = allocate(4);
  ASSERT_EQ(cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32(there, 1, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  for (bool typed : {true, false}) {
    Closed gate(theirs);
    ASSERT_EQ(cuMemsetD32Async(there, 2 + typed, 1, theirs), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    std::thread opens([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      gate.open();
    });
    if (typed)
      EXPECT_EQ(cuMemcpyPeer(here, context, there, peer, 4), CUDA_SUCCESS);
    else
      EXPECT_EQ(cuMemcpyDtoD(here, there, 4), CUDA_SUCCESS);
    int got = 0;
    EXPECT_EQ(cuMemcpyDtoH(&got, here, 4), CUDA_SUCCESS);
    EXPECT_EQ(got, 2 + typed);
    opens.join();
    ASSERT_EQ(cuCtxSetCurrent(peer), CUDA_SUCCESS);
  }
  EXPECT_EQ(cuStreamDestroy(theirs), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(there), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(here), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(Calls, MapPhysicalMemory) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  size_t page = 0;
  ASSERT_EQ(cuMemGetAllocationGranularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
  EXPECT_EQ(page, 2 * kMegabyte);
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemAddressReserve(&at, 4 * page, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemCreate(&handle, page, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(at, page, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(at, 1, page), CUDA_ERROR_INVALID_VALUE) << "no access yet";
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(at, page, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(at, 1, page), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(at, 1, page + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(content(at + page - 100, 100), std::vector<unsigned char>(100, 1));
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  ASSERT_EQ(cuMemSetAccess(at, page, &access, 1), CUDA_SUCCESS);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  access.location.id = 1;
  ASSERT_EQ(cuMemSetAccess(at, page, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(content(at, 100), std::vector<unsigned char>(100, 1));
  EXPECT_EQ(cuMemsetD8(at, 1, page), CUDA_ERROR_INVALID_VALUE) << "only another device may write";
  access.location.id = 0;
  ASSERT_EQ(cuMemSetAccess(at, page, &access, 1), CUDA_SUCCESS);
  unsigned long long flags = 0;
  EXPECT_EQ(cuMemGetAccess(&flags, &access.location, at), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle other = 0;
  EXPECT_EQ(cuMemCreate(&other, page, &properties, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemUnmap(at, page), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(at, 4 * page), CUDA_SUCCESS);
}

TEST_F(Calls, GiveAddressesBackWithoutWaitingAndNotUnderWorkThatIsPending) {
  CUdeviceptr at = 0, next = 0;
  ASSERT_EQ(cuMemAddressReserve(&at, 4 * kMegabyte, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&next, 4 * kMegabyte, 0, 0, 0), CUDA_SUCCESS);
  const auto is_there = [&] { return msync(reinterpret_cast<void*>(at), 4096, MS_ASYNC) == 0; };
  {
    Closed gate(stream);
    EXPECT_EQ(cuMemAddressFree(at, 4 * kMegabyte), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAddressFree(at, 4 * kMegabyte), CUDA_ERROR_INVALID_VALUE) << "it is nobody's";
    EXPECT_TRUE(is_there());
  }
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(next, 4 * kMegabyte), CUDA_SUCCESS);
  EXPECT_FALSE(is_there());
}

TEST_F(Calls, CopyToArraysAndFromThem) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = 10;
  descriptor.Height = 4;
  descriptor.Depth = 3;
  descriptor.Format = CU_AD_FORMAT_FLOAT;
  descriptor.NumChannels = 2;
  CUarray array = nullptr;
  ASSERT_EQ(cuArray3DCreate(&array, &descriptor), CUDA_SUCCESS);
  const auto bytes = noise(80 * 4 * 3, 4);
  std::vector<unsigned char> back(bytes.size());
  CUDA_MEMCPY3D what{};
  what.srcMemoryType = CU_MEMORYTYPE_HOST;
  what.srcHost = bytes.data();
  what.srcPitch = 80;
  what.srcHeight = 4;
  what.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  what.dstArray = array;
  what.WidthInBytes = 80;
  what.Height = 4;
  what.Depth = 3;
  ASSERT_EQ(cuMemcpy3D(&what), CUDA_SUCCESS);
  what.dstXInBytes = 1;
  EXPECT_EQ(cuMemcpy3D(&what), CUDA_ERROR_INVALID_VALUE) << "beyond a row";
  what.dstXInBytes = 0;
  what.dstZ = 1;
  EXPECT_EQ(cuMemcpy3D(&what), CUDA_ERROR_INVALID_VALUE) << "beyond the last slice";
  CUDA_MEMCPY3D out{};
  out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  out.srcArray = array;
  out.srcXInBytes = 8;
  out.srcY = 1;
  out.srcZ = 2;
  out.dstMemoryType = CU_MEMORYTYPE_HOST;
  out.dstHost = back.data();
  out.dstPitch = 16;
  out.dstHeight = 2;
  out.WidthInBytes = 16;
  out.Height = 2;
  out.Depth = 1;
  ASSERT_EQ(cuMemcpy3D(&out), CUDA_SUCCESS);
  for (size_t y = 0; y < 2; ++y)
    EXPECT_EQ(std::memcmp(&back[y * 16], &bytes[(2 * 4 + 1 + y) * 80 + 8], 16), 0);
  CUDA_ARRAY3D_DESCRIPTOR told{};
  EXPECT_EQ(cuArray3DGetDescriptor(&told, array), CUDA_SUCCESS);
  EXPECT_EQ(told.Width, 10u);
  EXPECT_EQ(told.Depth, 3u);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemcpy3D(&out), CUDA_ERROR_INVALID_HANDLE);
  descriptor.Format = CU_AD_FORMAT_NV12;
  EXPECT_EQ(cuArray3DCreate(&array, &descriptor), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(Calls, CopyInBatches) {
  const CUdeviceptr one = allocate(100), two = allocate(100);
  std::vector<unsigned char> during(100, 1), later(100, 2);
  {
    Closed gate(stream);
    CUdeviceptr to[] = {one, two};
    CUdeviceptr from[] = {reinterpret_cast<CUdeviceptr>(during.data()),
                          reinterpret_cast<CUdeviceptr>(later.data())};
    size_t sizes[] = {100, 100}, first[] = {0, 1};
    CUmemcpyAttributes attributes[2] = {};
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    EXPECT_EQ(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, first, 2, stream), CUDA_SUCCESS);
    during.assign(100, 3);
    later.assign(100, 4);
    EXPECT_EQ(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, first, 2, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    sizes[1] = 101;
    EXPECT_EQ(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, first, 2, stream), CUDA_ERROR_INVALID_VALUE);
    sizes[1] = 100;
    attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
    EXPECT_EQ(cuMemcpyBatchAsync(to, from, sizes, 2, attributes, first, 2, stream), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(content(one, 100), std::vector<unsigned char>(100, 1)) << "taken at the call";
  EXPECT_EQ(content(two, 100), std::vector<unsigned char>(100, 4)) << "read in stream order";
  EXPECT_EQ(cuMemFree(one), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(two), CUDA_SUCCESS);
}

TEST_F(Calls, ThatAreUnsafeWhileCapturingAreRefused) {
  const CUdeviceptr at = allocate(4);
  int* host = pinned<int>(1);
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  *host = 1;
  EXPECT_EQ(cuMemcpyHtoDAsync(at, host, 4, stream), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  size_t nodes = 0;
  EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
  EXPECT_EQ(nodes, 1u);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  CUdeviceptr other = 0;
  EXPECT_EQ(cuMemAlloc(&other, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_NE(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(at), CUDA_SUCCESS);
}

}  // namespace

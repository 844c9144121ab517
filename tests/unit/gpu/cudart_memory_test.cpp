// links: gpu_cudart gpu_cuda
// The runtime's memory: allocation, copies of rows and planes, arrays, what is known of an address.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace {

#define OK(call) ASSERT_EQ(call, cudaSuccess)

class CudartMemory : public testing::Test {
 protected:
  void SetUp() override { cudaGetLastError(); }
  void TearDown() override { EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess); }
};

std::vector<unsigned char> counted(size_t size) {
  std::vector<unsigned char> bytes(size);
  std::iota(bytes.begin(), bytes.end(), 1);
  return bytes;
}

TEST_F(CudartMemory, SizeZeroGivesANullPointerExceptForManagedMemory) {
  void* pointer = this;
  OK(cudaMalloc(&pointer, 0));
  EXPECT_EQ(pointer, nullptr);
  pointer = this;
  OK(cudaMallocHost(&pointer, 0));
  EXPECT_EQ(pointer, nullptr);
  size_t pitch = 1;
  pointer = this;
  OK(cudaMallocPitch(&pointer, &pitch, 0, 5));
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(cudaMallocManaged(&pointer, 0, cudaMemAttachGlobal), cudaErrorInvalidValue);
  OK(cudaFree(nullptr));
  OK(cudaFreeHost(nullptr));
}

TEST_F(CudartMemory, AResetTakesWhatStreamsAllocated) {
  for (int i = 0; i < 6; ++i) {  // a device has 4 GiB
    void* memory = nullptr;
    OK(cudaMallocAsync(&memory, size_t{1} << 30, nullptr));
    OK(cudaDeviceReset());
  }
}

TEST_F(CudartMemory, OnlyAllocationsAreFreed) {
  char* pointer;
  OK(cudaMalloc(reinterpret_cast<void**>(&pointer), 64));
  EXPECT_EQ(cudaFree(pointer + 8), cudaErrorInvalidValue);
  OK(cudaFree(pointer));
  EXPECT_EQ(cudaFree(pointer), cudaErrorInvalidValue);
}

TEST_F(CudartMemory, OutOfMemoryIsNotSticky) {
  size_t available = 0, total = 0;
  OK(cudaMemGetInfo(&available, &total));
  EXPECT_LE(available, total);
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, 2 * total), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudartMemory, EveryCopyDirectionIsChecked) {
  const auto bytes = counted(100);
  unsigned char *one, *other;
  OK(cudaMalloc(reinterpret_cast<void**>(&one), 100));
  OK(cudaMalloc(reinterpret_cast<void**>(&other), 100));
  std::vector<unsigned char> back(100), again(100);
  OK(cudaMemcpy(one, bytes.data(), 100, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(other, one, 100, cudaMemcpyDeviceToDevice));
  OK(cudaMemcpy(back.data(), other, 100, cudaMemcpyDeviceToHost));
  EXPECT_EQ(back, bytes);
  OK(cudaMemcpy(again.data(), back.data(), 100, cudaMemcpyHostToHost));
  EXPECT_EQ(again, bytes);
  OK(cudaMemset(one, 0xee, 50));
  OK(cudaMemcpy(back.data(), one, 100, cudaMemcpyDefault));
  EXPECT_EQ(back[49], 0xee);
  EXPECT_EQ(back[50], bytes[50]);
  EXPECT_EQ(cudaMemcpy(one, bytes.data(), 100, static_cast<cudaMemcpyKind>(7)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpy(one, bytes.data(), 101, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(one, bytes.data(), 8, cudaMemcpyHostToHost), cudaErrorInvalidValue);
  OK(cudaMemcpy(one, bytes.data(), 0, cudaMemcpyHostToDevice));
  OK(cudaFree(one));
  OK(cudaFree(other));
}

TEST_F(CudartMemory, RowsKeepToTheirPitch) {
  char* rows;
  size_t pitch;
  OK(cudaMallocPitch(reinterpret_cast<void**>(&rows), &pitch, 10, 3));
  EXPECT_GE(pitch, 10u);
  OK(cudaMemset2D(rows, pitch, 4, 10, 3));
  const auto bytes = counted(30);
  OK(cudaMemcpy2D(rows, pitch, bytes.data(), 10, 7, 3, cudaMemcpyHostToDevice));
  unsigned char back[3][12];
  std::memset(back, 9, sizeof back);
  OK(cudaMemcpy2D(back, 12, rows, pitch, 10, 3, cudaMemcpyDeviceToHost));
  for (int y = 0; y < 3; y++)
    for (int x = 0; x < 12; x++)
      EXPECT_EQ(back[y][x], x < 7 ? bytes[10 * y + x] : x < 10 ? 4 : 9) << y << ' ' << x;
  EXPECT_EQ(cudaMemcpy2D(back, 9, rows, pitch, 10, 3, cudaMemcpyDeviceToHost), cudaErrorInvalidPitchValue);
  OK(cudaFree(rows));
}

TEST_F(CudartMemory, PlanesAreCopiedAndFilled) {
  const cudaExtent extent{8, 4, 3};
  cudaPitchedPtr planes;
  OK(cudaMalloc3D(&planes, extent));
  EXPECT_EQ(planes.xsize, 8u);
  EXPECT_EQ(planes.ysize, 4u);
  OK(cudaMemset3D(planes, 5, extent));
  OK(cudaMemset3D(planes, 6, {2, 3, 2}));
  unsigned char back[3][4][8] = {};
  cudaMemcpy3DParms copy{};
  copy.srcPtr = planes;
  copy.dstPtr = {back, 8, 8, 4};
  copy.extent = extent;
  copy.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3D(&copy));
  for (unsigned z = 0; z < 3; z++)
    for (unsigned y = 0; y < 4; y++)
      for (unsigned x = 0; x < 8; x++) EXPECT_EQ(back[z][y][x], x < 2 && y < 3 && z < 2 ? 6 : 5);
  constexpr size_t kHalf = size_t{1} << 63;  // of all numbers
  const auto fill = [&](size_t ysize, cudaExtent size) {
    return cudaMemset3D({planes.ptr, planes.pitch, 8, ysize}, 5, size);
  };
  EXPECT_EQ(fill(kHalf, {8, kHalf, 2}), cudaErrorInvalidValue);
  EXPECT_EQ(fill(4, {8, 5, 2}), cudaErrorInvalidValue) << "planes that overlap";
  EXPECT_EQ(fill(kHalf, {8, 4, 3}), cudaErrorInvalidValue);
  cudaArray_t array;
  const cudaChannelFormatDesc floats{32, 0, 0, 0, cudaChannelFormatKindFloat};
  OK(cudaMalloc3DArray(&array, &floats, {8, 4, 3}));
  cudaMemcpy3DParms wide{};
  wide.srcArray = array;
  wide.dstPtr = copy.dstPtr;
  wide.extent = {size_t{1} << 62, 1, 1};
  wide.kind = cudaMemcpyDeviceToHost;
  EXPECT_EQ(cudaMemcpy3D(&wide), cudaErrorInvalidValue);
  wide.extent.width = 1;
  wide.srcPos.x = size_t{1} << 62;
  EXPECT_EQ(cudaMemcpy3D(&wide), cudaErrorInvalidValue);
  OK(cudaFreeArray(array));
  copy.srcArray = reinterpret_cast<cudaArray_t>(&copy);  // an array and a pointer: which?
  EXPECT_NE(cudaMemcpy3D(&copy), cudaSuccess);
  OK(cudaFree(planes.ptr));
}

TEST_F(CudartMemory, ArraysCountInElements) {
  const cudaChannelFormatDesc pairs{32, 32, 0, 0, cudaChannelFormatKindFloat};
  cudaArray_t array;
  OK(cudaMallocArray(&array, &pairs, 16, 4));
  std::vector<float> in(16 * 4 * 2), out(in.size());
  std::iota(in.begin(), in.end(), 0.f);
  OK(cudaMemcpy2DToArray(array, 0, 0, in.data(), 128, 128, 4, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2DFromArray(out.data(), 128, array, 0, 0, 128, 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(in, out);
  cudaMemcpy3DParms copy{};
  copy.srcArray = array;
  copy.srcPos = {2, 1, 0};
  copy.dstPtr = {out.data(), 64, 64, 2};
  copy.extent = {8, 2, 1};
  copy.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3D(&copy));
  EXPECT_EQ(out[0], in[32 + 4]);
  EXPECT_EQ(out[16], in[64 + 4]);
  cudaChannelFormatDesc channels;
  cudaExtent extent;
  unsigned flags = 7;
  OK(cudaArrayGetInfo(&channels, &extent, &flags, array));
  EXPECT_EQ(channels.y, 32);
  EXPECT_EQ(channels.z, 0);
  EXPECT_EQ(extent.width, 16u);
  EXPECT_EQ(extent.height, 4u);
  EXPECT_EQ(flags, 0u);
  OK(cudaFreeArray(array));
  const cudaChannelFormatDesc three{8, 8, 8, 0, cudaChannelFormatKindUnsigned};
  EXPECT_EQ(cudaMallocArray(&array, &three, 16, 4), cudaErrorInvalidChannelDescriptor);
}

TEST_F(CudartMemory, AnAddressReportsItsKindOfAllocation) {
  void *device, *pinned, *managed;
  OK(cudaMalloc(&device, 64));
  OK(cudaHostAlloc(&pinned, 64, cudaHostAllocMapped));
  OK(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal));
  cudaPointerAttributes known;
  OK(cudaPointerGetAttributes(&known, device));
  EXPECT_EQ(known.type, cudaMemoryTypeDevice);
  EXPECT_EQ(known.device, 0);
  EXPECT_EQ(known.devicePointer, device);
  EXPECT_EQ(known.hostPointer, nullptr);
  OK(cudaPointerGetAttributes(&known, pinned));
  EXPECT_EQ(known.type, cudaMemoryTypeHost);
  EXPECT_EQ(known.hostPointer, pinned);
  OK(cudaPointerGetAttributes(&known, managed));
  EXPECT_EQ(known.type, cudaMemoryTypeManaged);
  EXPECT_EQ(known.hostPointer, managed);
  EXPECT_EQ(known.devicePointer, managed);
  OK(cudaPointerGetAttributes(&known, &known));
  EXPECT_EQ(known.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(known.device, cudaInvalidDeviceId);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  OK(cudaFree(device));
  OK(cudaFreeHost(pinned));
  OK(cudaFree(managed));
}

TEST_F(CudartMemory, RegisteredMemoryIsRegisteredOnce) {
  std::vector<int> memory(4096);
  OK(cudaHostRegister(memory.data(), 16384, cudaHostRegisterMapped));
  EXPECT_EQ(cudaHostRegister(memory.data(), 16384, 0), cudaErrorHostMemoryAlreadyRegistered);
  void* device = nullptr;
  OK(cudaHostGetDevicePointer(&device, memory.data(), 0));
  EXPECT_NE(device, nullptr);
  OK(cudaHostUnregister(memory.data()));
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_F(CudartMemory, AdviceIsRemembered) {
  void* managed;
  OK(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal));
  const cudaMemLocation device{cudaMemLocationTypeDevice, 0};
  OK(cudaMemAdvise(managed, 4096, cudaMemAdviseSetPreferredLocation, device));
  OK(cudaMemPrefetchAsync(managed, 4096, device, 0, nullptr));
  OK(cudaDeviceSynchronize());
  int where = -5;
  OK(cudaMemRangeGetAttribute(&where, sizeof where, cudaMemRangeAttributePreferredLocation, managed, 4096));
  EXPECT_EQ(where, 0);
  OK(cudaMemRangeGetAttribute(&where, sizeof where, cudaMemRangeAttributeLastPrefetchLocation, managed,
                              4096));
  EXPECT_EQ(where, 0);
  OK(cudaFree(managed));
}

}  // namespace

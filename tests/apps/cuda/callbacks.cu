// Host functions and callbacks run in stream order, on a thread other than the caller's.
// run: also=per-thread
#include "check.h"

#include <string>
#include <thread>

struct Notes {
  std::string text;
  const int* data;
  std::thread::id thread;
};

static void CUDART_CB note(void* argument) {
  Notes* notes = static_cast<Notes*>(argument);
  notes->text += std::to_string(notes->data[0]) + ",";
  notes->thread = std::this_thread::get_id();
}

static void CUDART_CB called_back(cudaStream_t, cudaError_t status, void* argument) {
  Notes* notes = static_cast<Notes*>(argument);
  notes->text += (status == cudaSuccess ? "good:" : "bad:") + std::to_string(notes->data[0]) + ",";
}

__global__ void add(int* value, int what) { *value += what; }

int main() {
  cudaStream_t stream;
  CALL(cudaStreamCreate(&stream));
  int* pinned;
  CALL(cudaMallocHost(&pinned, sizeof(int)));
  *pinned = -1;
  Buffer<int> value(1);
  CALL(cudaMemsetAsync(value, 0, sizeof(int), stream));
  Notes notes{"", pinned, std::this_thread::get_id()};
  for (int i = 1; i <= 5; i++) {
    add<<<1, 1, 0, stream>>>(value, i);
    CALL(cudaMemcpyAsync(pinned, value, sizeof(int), cudaMemcpyDeviceToHost, stream));
    if (i % 2)
      CALL(cudaLaunchHostFunc(stream, note, &notes));
    else
      CALL(cudaStreamAddCallback(stream, called_back, &notes, 0));
  }
  CALL(cudaStreamSynchronize(stream));
  EXPECT(notes.text == "1,good:3,6,good:10,15,");
  EXPECT(notes.thread != std::this_thread::get_id());
  CALL(cudaFreeHost(pinned));
  CALL(cudaStreamDestroy(stream));
  digest(notes.text.size());
  return finish();
}

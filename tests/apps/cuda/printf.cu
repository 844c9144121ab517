// printf from kernels: every conversion, strings, many threads. Runs in a child whose output is read; the
// text of each call stays in one piece, and one thread's texts stay in order.
#include "child.h"

#include <algorithm>
#include <sstream>

__global__ void print() {
  printf("%d|%5d|%-5d|%05d|%+d|%u|%x|%X|%o|%c|%s|%%\n", -3, 42, 42, 42, 42, 3000000000u, 0xbeef, 0xbeef, 8,
         'z', "text");
  printf("%f|%.3f|%e|%g|%10.2f|%lld|%llu|%p\n", 1.5, 3.14159, 12345.678, 1e-10, 2.5, -(1ll << 40), 1ull << 63,
         (void*)0x1234);
  printf("%hd|%i|%*d|%.*f|%ld\n", 7, 200, 6, 5, 2, 1.005, -5l);
  printf("no argument, no newline;");
  printf(" done\n");
}

__global__ void print_all() {
  for (int i = 0; i < 3; i++) printf("block %d thread %d line %d\n", blockIdx.x, threadIdx.x, i);
}

__global__ void print_many(int count) {
  for (int i = 0; i < count; i++) printf("text %d of many\n", i);
}

// More than the buffer holds: the oldest texts are dropped, in whole.
void overflow() {
  constexpr int kCount = 20000;
  Ended ended = in_child([] {
    CALL(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 64 << 10));
    print_many<<<1, 1>>>(kCount);
    CALL(cudaDeviceSynchronize());
  });
  expect_child(ended, "printing too much");
  std::istringstream lines(ended.output);
  int number = -1, before = -1, count = 0, end = 0;
  for (std::string line; std::getline(lines, line); before = number, count++) {
    EXPECT(std::sscanf(line.c_str(), "text %d of man%n", &number, &end) == 1 && line.substr(end) == "y");
    EXPECT(before < 0 || number == before + 1);
  }
  EXPECT(count > 10 && count < kCount && number == kCount - 1);
}

int main() {
  overflow();
  Ended ended = in_child([] {
    print<<<1, 1>>>();
    CALL(cudaDeviceSynchronize());
    std::fflush(stdout);
    print_all<<<3, 40>>>();
    CALL(cudaDeviceSynchronize());
  });
  expect_child(ended, "printing");
  char expected[1000];
  std::snprintf(expected, sizeof expected, "%d|%5d|%-5d|%05d|%+d|%u|%x|%X|%o|%c|%s|%%\n", -3, 42, 42, 42, 42,
                3000000000u, 0xbeef, 0xbeef, 8, 'z', "text");
  std::string head = expected;
  std::snprintf(expected, sizeof expected, "%f|%.3f|%e|%g|%10.2f|%lld|%llu|%p\n", 1.5, 3.14159, 12345.678,
                1e-10, 2.5, -(1ll << 40), 1ull << 63, (void*)0x1234);
  head += expected;
  std::snprintf(expected, sizeof expected, "%hd|%i|%*d|%.*f|%ld\n", short{7}, 200, 6, 5, 2, 1.005, -5l);
  head += expected;
  head += "no argument, no newline; done\n";
  if (ended.output.compare(0, head.size(), head) != 0) fail("printed: %s", ended.output.c_str());
  std::istringstream lines(ended.output.substr(head.size()));
  std::vector<std::string> got, all;
  int next[3][40] = {};
  for (std::string line; std::getline(lines, line);) {
    int block, thread, number;
    EXPECT(std::sscanf(line.c_str(), "block %d thread %d line %d", &block, &thread, &number) == 3);
    EXPECT(next[block][thread]++ == number);
    got.push_back(line);
  }
  EXPECT(got.size() == 3 * 40 * 3);
  std::sort(got.begin(), got.end());
  EXPECT(std::unique(got.begin(), got.end()) == got.end());
  digest(head.size());
  return finish();
}

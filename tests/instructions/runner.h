// Shared by all instruction programs: reads the operands of every case, runs its kernel, writes the results.
// A file consists of uint64_t: for each case its operands, one array after another.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kInputs = 640;  // per case, as in cases.py

struct Case {
  const char* name;
  void (*kernel)(const uint64_t* in, uint64_t* out);
  int operands, results;
};

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

template <size_t N>
int run(const Case (&cases)[N], int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: %s OPERANDS RESULTS\n", argv[0]), 2;
  std::FILE* from = std::fopen(argv[1], "rb");
  std::FILE* to = std::fopen(argv[2], "wb");
  if (!from || !to) return std::perror("files"), 2;
  uint64_t *in, *out;
  check(cudaMalloc(&in, 4 * kInputs * sizeof(uint64_t)), "cudaMalloc");
  check(cudaMalloc(&out, 4 * kInputs * sizeof(uint64_t)),
        "cudaMalloc");  // after two results: WIDE in cases.py
  std::vector<uint64_t> buffer(4 * kInputs);
  for (const Case& one : cases) {
    size_t operands = one.operands * kInputs, results = one.results * kInputs;
    if (std::fread(buffer.data(), sizeof(uint64_t), operands, from) != operands)
      return std::perror("operands"), 2;
    check(cudaMemset(out, 0, 2 * kInputs * sizeof(uint64_t)), one.name);
    check(cudaMemcpy(in, buffer.data(), operands * sizeof(uint64_t), cudaMemcpyHostToDevice), one.name);
    one.kernel<<<(kInputs + 127) / 128, 128>>>(in, out);
    check(cudaGetLastError(), one.name);
    check(cudaMemcpy(buffer.data(), out, results * sizeof(uint64_t), cudaMemcpyDeviceToHost), one.name);
    if (std::fwrite(buffer.data(), sizeof(uint64_t), results, to) != results)
      return std::perror("results"), 2;
  }
  return std::fclose(to) ? 2 : 0;
}

// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: ranks=2 ways=static
// Communicators are made in every way, used and destroyed in every step, which must leave nothing behind.
#include "nccl_calls.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  int each = 10;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--each")) each = atoi(argv[i + 1]);
  choose_device();
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    DeviceNonce nonce;
    Buffer<uint32_t> value(std::vector<uint32_t>(1, static_cast<uint32_t>(rank + 1)));
    while (steplog_done < steplog_steps) {
      for (int i = 0; i < each; i++) {
        ncclComm_t whole = communicator(MPI_COMM_WORLD), part, all;
        NCCL(ncclCommSplit(whole, i % 2 ? rank : 0, rank, &part, nullptr));
        NCCL(ncclAllReduce(value, value, 1, ncclUint32, ncclSum, whole, stream));
        NCCL(ncclBroadcast(value, value, 1, ncclUint32, 0, part, stream));
        int device;
        CALL(cudaGetDevice(&device));
        NCCL(ncclCommInitAll(&all, 1, &device));
        NCCL(ncclAllReduce(value, value, 1, ncclUint32, ncclMax, all, stream));
        ncclRedOp_t op;
        float two = 2;
        NCCL(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32, ncclScalarHostImmediate, whole));
        NCCL(ncclRedOpDestroy(op, whole));
        CALL(cudaStreamSynchronize(stream));
        NCCL(ncclCommFinalize(all));
        NCCL(ncclCommDestroy(all));
        if (i % 3)
          NCCL(ncclCommDestroy(part));
        else
          NCCL(ncclCommAbort(part));
        NCCL(ncclCommDestroy(whole));
      }
      mix(value.host());
      steplog_step();
    }
    nonce.back();
  }
  CALL(cudaStreamDestroy(stream));
  steplog_ok();
  MPI_Finalize();
  return 0;
}

/* Functions that libcusparse exports and that cusparse.h no longer declares: pruning in half precision, with
   the prototypes of single precision. Read by castxml, as C. */
#pragma once

#include <cuda_fp16.h>
#include <cusparse.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#ifdef __cplusplus
extern "C" {
#else
typedef unsigned short __half;
#endif

cusparseStatus_t cusparseHpruneCsr2csr(cusparseHandle_t handle, int m, int n, int nnzA,
                                       const cusparseMatDescr_t descrA, const __half* csrSortedValA,
                                       const int* csrSortedRowPtrA, const int* csrSortedColIndA,
                                       const __half* threshold, const cusparseMatDescr_t descrC,
                                       __half* csrSortedValC, const int* csrSortedRowPtrC,
                                       int* csrSortedColIndC, void* pBuffer);
cusparseStatus_t cusparseHpruneCsr2csrByPercentage(cusparseHandle_t handle, int m, int n, int nnzA,
                                                   const cusparseMatDescr_t descrA,
                                                   const __half* csrSortedValA, const int* csrSortedRowPtrA,
                                                   const int* csrSortedColIndA, float percentage,
                                                   const cusparseMatDescr_t descrC, __half* csrSortedValC,
                                                   const int* csrSortedRowPtrC, int* csrSortedColIndC,
                                                   pruneInfo_t info, void* pBuffer);
cusparseStatus_t cusparseHpruneCsr2csrByPercentage_bufferSizeExt(
    cusparseHandle_t handle, int m, int n, int nnzA, const cusparseMatDescr_t descrA,
    const __half* csrSortedValA, const int* csrSortedRowPtrA, const int* csrSortedColIndA, float percentage,
    const cusparseMatDescr_t descrC, const __half* csrSortedValC, const int* csrSortedRowPtrC,
    const int* csrSortedColIndC, pruneInfo_t info, size_t* pBufferSizeInBytes);
cusparseStatus_t cusparseHpruneCsr2csrNnz(cusparseHandle_t handle, int m, int n, int nnzA,
                                          const cusparseMatDescr_t descrA, const __half* csrSortedValA,
                                          const int* csrSortedRowPtrA, const int* csrSortedColIndA,
                                          const __half* threshold, const cusparseMatDescr_t descrC,
                                          int* csrSortedRowPtrC, int* nnzTotalDevHostPtr, void* pBuffer);
cusparseStatus_t cusparseHpruneCsr2csrNnzByPercentage(
    cusparseHandle_t handle, int m, int n, int nnzA, const cusparseMatDescr_t descrA,
    const __half* csrSortedValA, const int* csrSortedRowPtrA, const int* csrSortedColIndA, float percentage,
    const cusparseMatDescr_t descrC, int* csrSortedRowPtrC, int* nnzTotalDevHostPtr, pruneInfo_t info,
    void* pBuffer);
cusparseStatus_t cusparseHpruneCsr2csr_bufferSizeExt(cusparseHandle_t handle, int m, int n, int nnzA,
                                                     const cusparseMatDescr_t descrA,
                                                     const __half* csrSortedValA, const int* csrSortedRowPtrA,
                                                     const int* csrSortedColIndA, const __half* threshold,
                                                     const cusparseMatDescr_t descrC,
                                                     const __half* csrSortedValC, const int* csrSortedRowPtrC,
                                                     const int* csrSortedColIndC, size_t* pBufferSizeInBytes);
cusparseStatus_t cusparseHpruneDense2csr(cusparseHandle_t handle, int m, int n, const __half* A, int lda,
                                         const __half* threshold, const cusparseMatDescr_t descrC,
                                         __half* csrSortedValC, const int* csrSortedRowPtrC,
                                         int* csrSortedColIndC, void* pBuffer);
cusparseStatus_t cusparseHpruneDense2csrByPercentage(cusparseHandle_t handle, int m, int n, const __half* A,
                                                     int lda, float percentage,
                                                     const cusparseMatDescr_t descrC, __half* csrSortedValC,
                                                     const int* csrSortedRowPtrC, int* csrSortedColIndC,
                                                     pruneInfo_t info, void* pBuffer);
cusparseStatus_t cusparseHpruneDense2csrByPercentage_bufferSizeExt(
    cusparseHandle_t handle, int m, int n, const __half* A, int lda, float percentage,
    const cusparseMatDescr_t descrC, const __half* csrSortedValC, const int* csrSortedRowPtrC,
    const int* csrSortedColIndC, pruneInfo_t info, size_t* pBufferSizeInBytes);
cusparseStatus_t cusparseHpruneDense2csrNnz(cusparseHandle_t handle, int m, int n, const __half* A, int lda,
                                            const __half* threshold, const cusparseMatDescr_t descrC,
                                            int* csrRowPtrC, int* nnzTotalDevHostPtr, void* pBuffer);
cusparseStatus_t cusparseHpruneDense2csrNnzByPercentage(cusparseHandle_t handle, int m, int n,
                                                        const __half* A, int lda, float percentage,
                                                        const cusparseMatDescr_t descrC, int* csrRowPtrC,
                                                        int* nnzTotalDevHostPtr, pruneInfo_t info,
                                                        void* pBuffer);
cusparseStatus_t cusparseHpruneDense2csr_bufferSizeExt(
    cusparseHandle_t handle, int m, int n, const __half* A, int lda, const __half* threshold,
    const cusparseMatDescr_t descrC, const __half* csrSortedValC, const int* csrSortedRowPtrC,
    const int* csrSortedColIndC, size_t* pBufferSizeInBytes);

#ifdef __cplusplus
}
#endif

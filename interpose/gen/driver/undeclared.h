/* Functions that libcuda exports and that cuda.h does not declare, or only its headers for displays do. Read
   by castxml, as C. Every version of a function has its own name, because programs import that name: a
   compiler turns cuMemAlloc into cuMemAlloc_v2. */
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From cudaEGL.h, cudaGL.h and cudaVDPAU.h, which include headers that no toolkit has; the versions' names
   are from the headers of typedefs. The toolkit's stub lacks these functions, the driver's library has them.
   Not offered, so their arguments do not matter. */
CUresult cuEGLStreamConsumerAcquireFrame(void);
CUresult cuEGLStreamConsumerConnect(void);
CUresult cuEGLStreamConsumerConnectWithFlags(void);
CUresult cuEGLStreamConsumerDisconnect(void);
CUresult cuEGLStreamConsumerReleaseFrame(void);
CUresult cuEGLStreamProducerConnect(void);
CUresult cuEGLStreamProducerDisconnect(void);
CUresult cuEGLStreamProducerPresentFrame(void);
CUresult cuEGLStreamProducerReturnFrame(void);
CUresult cuEventCreateFromEGLSync(void);
CUresult cuGLCtxCreate(void);
CUresult cuGLCtxCreate_v2(void);
CUresult cuGLGetDevices(void);
CUresult cuGLGetDevices_v2(void);
CUresult cuGLInit(void);
CUresult cuGLMapBufferObject(void);
CUresult cuGLMapBufferObjectAsync(void);
CUresult cuGLMapBufferObjectAsync_v2(void);
CUresult cuGLMapBufferObjectAsync_v2_ptsz(void);
CUresult cuGLMapBufferObject_v2(void);
CUresult cuGLMapBufferObject_v2_ptds(void);
CUresult cuGLRegisterBufferObject(void);
CUresult cuGLSetBufferObjectMapFlags(void);
CUresult cuGLUnmapBufferObject(void);
CUresult cuGLUnmapBufferObjectAsync(void);
CUresult cuGLUnregisterBufferObject(void);
CUresult cuGraphicsEGLRegisterImage(void);
CUresult cuGraphicsGLRegisterBuffer(void);
CUresult cuGraphicsGLRegisterImage(void);
CUresult cuGraphicsResourceGetMappedEglFrame(void);
CUresult cuGraphicsVDPAURegisterOutputSurface(void);
CUresult cuGraphicsVDPAURegisterVideoSurface(void);
CUresult cuVDPAUCtxCreate(void);
CUresult cuVDPAUCtxCreate_v2(void);
CUresult cuVDPAUGetDevice(void);

#ifdef __cplusplus
}
#endif

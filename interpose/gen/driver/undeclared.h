/* What libcuda exports and cuda.h does not declare, or declares for displays. Read by castxml, as C. Every
   version of a function stands under its own name, which is what programs import: cuMemAlloc is cuMemAlloc_v2
   to a compiler. */
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of cudaEGL.h, cudaGL.h and cudaVDPAU.h, which include headers that no toolkit has, with the names that the
   typedefs' headers give their versions. The toolkit's stub lacks them, the driver's library has them. Not
   offered, so what they take is not looked at. */
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

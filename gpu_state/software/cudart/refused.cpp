// Functions of the runtime that are not built, each group with its reason. What a caller gets is
// cudaErrorNotSupported, in the last error too, and the name is said once. Declared here without their
// parameters, which nobody reads: this file includes no header of the toolkit.
#include "gpu_state/software/cudart/refused.h"

#define REFUSED(name) \
  int name() { return cropdl::cudart::refuse(#name); }

extern "C" {

// There is no graphics API, video or embedded system whose objects could be mapped.
REFUSED(cudaGraphicsUnregisterResource)
REFUSED(cudaGraphicsResourceSetMapFlags)
REFUSED(cudaGraphicsMapResources)
REFUSED(cudaGraphicsUnmapResources)
REFUSED(cudaGraphicsResourceGetMappedPointer)
REFUSED(cudaGraphicsSubResourceGetMappedArray)
REFUSED(cudaGraphicsResourceGetMappedMipmappedArray)
REFUSED(cudaGraphicsResourceGetMappedEglFrame)
REFUSED(cudaGraphicsEGLRegisterImage)
REFUSED(cudaGraphicsGLRegisterBuffer)
REFUSED(cudaGraphicsGLRegisterImage)
REFUSED(cudaGraphicsVDPAURegisterOutputSurface)
REFUSED(cudaGraphicsVDPAURegisterVideoSurface)
REFUSED(cudaGLGetDevices)
REFUSED(cudaGLMapBufferObject)
REFUSED(cudaGLMapBufferObjectAsync)
REFUSED(cudaGLRegisterBufferObject)
REFUSED(cudaGLSetBufferObjectMapFlags)
REFUSED(cudaGLSetGLDevice)
REFUSED(cudaGLUnmapBufferObject)
REFUSED(cudaGLUnmapBufferObjectAsync)
REFUSED(cudaGLUnregisterBufferObject)
REFUSED(cudaVDPAUGetDevice)
REFUSED(cudaVDPAUSetVDPAUDevice)
REFUSED(cudaEGLStreamConsumerAcquireFrame)
REFUSED(cudaEGLStreamConsumerConnect)
REFUSED(cudaEGLStreamConsumerConnectWithFlags)
REFUSED(cudaEGLStreamConsumerDisconnect)
REFUSED(cudaEGLStreamConsumerReleaseFrame)
REFUSED(cudaEGLStreamProducerConnect)
REFUSED(cudaEGLStreamProducerDisconnect)
REFUSED(cudaEGLStreamProducerPresentFrame)
REFUSED(cudaEGLStreamProducerReturnFrame)
REFUSED(cudaEventCreateFromEGLSync)
REFUSED(cudaDeviceGetNvSciSyncAttributes)

// No other API's memory or semaphores can be imported.
REFUSED(cudaImportExternalMemory)
REFUSED(cudaExternalMemoryGetMappedBuffer)
REFUSED(cudaExternalMemoryGetMappedMipmappedArray)
REFUSED(cudaDestroyExternalMemory)
REFUSED(cudaImportExternalSemaphore)
REFUSED(cudaSignalExternalSemaphoresAsync)
REFUSED(cudaSignalExternalSemaphoresAsync_ptsz)
REFUSED(cudaWaitExternalSemaphoresAsync)
REFUSED(cudaWaitExternalSemaphoresAsync_ptsz)
REFUSED(cudaDestroyExternalSemaphore)
REFUSED(cudaGraphAddExternalSemaphoresSignalNode)
REFUSED(cudaGraphAddExternalSemaphoresWaitNode)
REFUSED(cudaGraphExternalSemaphoresSignalNodeGetParams)
REFUSED(cudaGraphExternalSemaphoresSignalNodeSetParams)
REFUSED(cudaGraphExternalSemaphoresWaitNodeGetParams)
REFUSED(cudaGraphExternalSemaphoresWaitNodeSetParams)
REFUSED(cudaGraphExecExternalSemaphoresSignalNodeSetParams)
REFUSED(cudaGraphExecExternalSemaphoresWaitNodeSetParams)

// Kernels cannot fetch through textures or surfaces.
REFUSED(cudaCreateTextureObject)
REFUSED(cudaDestroyTextureObject)
REFUSED(cudaGetTextureObjectResourceDesc)
REFUSED(cudaGetTextureObjectResourceViewDesc)
REFUSED(cudaGetTextureObjectTextureDesc)
REFUSED(cudaCreateSurfaceObject)
REFUSED(cudaDestroySurfaceObject)
REFUSED(cudaGetSurfaceObjectResourceDesc)

// Deprecated since CUDA 10.1, and counts through the rows of two arrays: cudaMemcpy2DArrayToArray is there.
REFUSED(cudaMemcpyArrayToArray)
REFUSED(cudaMemcpyArrayToArray_ptds)

// What NVIDIA's own libraries and tools say to each other, in no header.
REFUSED(cudaGetExportTable)
REFUSED(__cudaGetProcAddress)
REFUSED(__cudaRegisterUnifiedTable)
}

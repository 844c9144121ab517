// Runtime functions that are not built, in groups with the reason. A call returns cudaErrorNotSupported, sets
// the last error, and prints the name once. Declared without parameters, which are not used: this file
// includes no header of the toolkit.
#include "gpu_state/software/cudart/refused.h"

#define REFUSED(name) \
  int name() { return cropdl::cudart::refuse(#name); }

extern "C" {

// No graphics API, video or embedded system exists whose objects could be mapped.
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

// Memory and semaphores of other APIs cannot be imported.
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

// Deprecated since CUDA 10.1, and copies linearly across the rows of two arrays; cudaMemcpy2DArrayToArray is
// built.
REFUSED(cudaMemcpyArrayToArray)
REFUSED(cudaMemcpyArrayToArray_ptds)

// Undocumented interface between NVIDIA's own libraries and tools.
REFUSED(cudaGetExportTable)
REFUSED(__cudaGetProcAddress)
REFUSED(__cudaRegisterUnifiedTable)
}

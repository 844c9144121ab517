# Generates the wrappers of NVIDIA's libraries if a CUDA toolkit 13 has the library and its header. Needs no GPU and no driver.
# Sets, for the neighbouring folders and for tests:
#   CROPDL_NVIDIA_LIBRARIES        names of the libraries found: cudart, driver, nccl, ...
#   CROPDL_nvidia_<name>_OUT       folder of the generated files: <name>_functions.h, upper_<name>.cpp, lower_<name>.cpp, calls_<name>.h, exports_<name>.map
#   CROPDL_nvidia_<name>_INCLUDES  include directories of the library's header
#   CROPDL_nvidia_<name>_LIBRARY   the library's file: its symbols are those that programs may import
# and targets cropdl_generated_<name>.
set(CROPDL_NVIDIA_LIBRARIES "" CACHE INTERNAL "")
find_path(CROPDL_CUDA_INCLUDE cuda_runtime_api.h HINTS /usr/local/cuda/include ENV CUDA_HOME PATH_SUFFIXES include)
set(version)
if(EXISTS "${CROPDL_CUDA_INCLUDE}/cuda_runtime_api.h")
  file(STRINGS ${CROPDL_CUDA_INCLUDE}/cuda_runtime_api.h version REGEX "^#define +CUDART_VERSION +")
endif()
set(CROPDL_CUDA_TOOLKIT FALSE CACHE INTERNAL "")
if(version MATCHES " 13[0-9]+" AND CROPDL_SOFTWARE_GPU)
  set(CROPDL_CUDA_TOOLKIT TRUE CACHE INTERNAL "")
endif()

# nvidia_library(NAME HEADER SONAME [LIBRARY name]): the library's tables are in interpose/gen/NAME.
function(nvidia_library name header soname)
  cmake_parse_arguments(nvidia "" "LIBRARY" "" LIBRARY ${name} ${ARGN})
  string(TOUPPER ${name} upper)
  find_path(CROPDL_${upper}_INCLUDE ${header} HINTS ${CROPDL_CUDA_INCLUDE} ENV CUDA_HOME PATH_SUFFIXES include)
  find_library(CROPDL_${upper}_LIBRARY ${nvidia_LIBRARY} HINTS ${CROPDL_CUDA_INCLUDE}/../lib64 ENV CUDA_HOME
               PATH_SUFFIXES lib64 lib stubs lib64/stubs)
  set(include ${CROPDL_${upper}_INCLUDE})
  if(NOT CROPDL_CUDA_TOOLKIT OR NOT include OR NOT CROPDL_${upper}_LIBRARY)
    message(STATUS "CUDA: ${name} is left out: no CUDA toolkit 13 with ${header} and lib${nvidia_LIBRARY} here "
                   "(CROPDL_${upper}_INCLUDE, CROPDL_${upper}_LIBRARY say where)")
    return()
  endif()
  set(tables ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  set(read ${include}/${header})
  if(EXISTS ${tables}/undeclared.h)
    set(read ${tables}/undeclared.h)
  endif()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(includes ${include} ${CROPDL_CUDA_INCLUDE})
  list(REMOVE_DUPLICATES includes)
  list(TRANSFORM includes PREPEND "-I" OUTPUT_VARIABLE flags)
  list(JOIN flags "," flags)
  cropdl_generate(TARGET cropdl_generated_${name} LIBRARY ${tables} OUT ${out}
                  OUTPUTS ${name}_functions.h upper_${name}.cpp lower_${name}.cpp calls_${name}.h exports_${name}.map coverage.tsv
                  OPTIONS --header ${name}=${read},${flags},-Wno-pragma-once-outside-header
                          --library ${name}=${CROPDL_${upper}_LIBRARY})
  set(CROPDL_NVIDIA_LIBRARIES ${CROPDL_NVIDIA_LIBRARIES} ${name} CACHE INTERNAL "")
  set(CROPDL_nvidia_${name}_OUT ${out} CACHE INTERNAL "")
  set(CROPDL_nvidia_${name}_INCLUDES ${includes} CACHE INTERNAL "")
  set(CROPDL_nvidia_${name}_LIBRARY ${CROPDL_${upper}_LIBRARY} CACHE INTERNAL "")
  set(CROPDL_nvidia_${name}_SONAME ${soname} CACHE INTERNAL "")
endfunction()

nvidia_library(cudart cuda_runtime_api.h libcudart.so.13)
nvidia_library(driver cuda.h libcuda.so.1 LIBRARY cuda)
nvidia_library(nccl nccl.h libnccl.so.2)
nvidia_library(cublas cublas_v2.h libcublas.so.13)
nvidia_library(cublasLt cublasLt.h libcublasLt.so.13)
nvidia_library(curand curand.h libcurand.so.10)
# The tested programs do not need these tables, and generating and compiling them takes a minute: only with -DCROPDL_ALL_TABLES=ON.
# They have no shims.
option(CROPDL_ALL_TABLES "Generate, compile and check the tables of cuDNN, cuFFT, cuSOLVER, cuSOLVERMg and cuSPARSE" OFF)
if(CROPDL_ALL_TABLES)
  nvidia_library(cufft cufftXt.h libcufft.so.12)
  nvidia_library(cusparse cusparse.h libcusparse.so.12)
  nvidia_library(cusolver cusolverDn.h libcusolver.so.12)
  nvidia_library(cudnn cudnn.h libcudnn.so.9)
  nvidia_library(cusolverMg cusolverMg.h libcusolverMg.so.12)
endif()

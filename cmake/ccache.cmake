# Compiles through ccache if it is installed. The settings let a fresh clone in another folder use this clone's results:
# paths below the source folder are hashed and recorded relative to it, and file times are not compared (a clone's are all
# new). CROPDL_CACHED_NVCC is nvcc through ccache, for custom commands; call cropdl_find_nvcc() first.
option(CROPDL_CCACHE "Compile through ccache where it is installed" ON)
find_program(CROPDL_CCACHE_PROGRAM ccache)
set(CROPDL_CACHED)
if(CROPDL_CCACHE AND CROPDL_CCACHE_PROGRAM)
  # DEPEND: ccache takes the list of included files from the compiler and does not preprocess. ccache's manual requires
  # pch_defines and time_macros for precompiled headers. Results that were made while a header changed are not kept
  # (include_file_mtime and include_file_ctime would keep them).
  set(CROPDL_CACHED env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CROPDL_CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CROPDL_CACHED})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CROPDL_CACHED})
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.>)
endif()

# Sets CROPDL_NVCC, empty if nvcc is not installed, and CROPDL_CACHED_NVCC.
macro(cropdl_find_nvcc)
  find_program(CROPDL_NVCC nvcc PATHS ${CROPDL_CUDA_ROOT}/bin NO_DEFAULT_PATH)
  set(CROPDL_CACHED_NVCC ${CROPDL_CACHED} ${CROPDL_NVCC})
endmacro()

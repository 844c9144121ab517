# software_gpu_library(TARGET NAME cudart SONAME libcudart.so.13 LIBRARY path HEADERS cuda_runtime_api.h PREFIX "cuda|__cuda"
#                      STATUS_TYPE cudaError_t STATUS 801 [NODE libcudart.so.13] [DIRECTORY …] [SPEAKER "software GPU"] [TYPEDEFS …] [ALSO …]
#                      [BY_HAND …] SOURCES …)
# Makes a shared library in build/software-gpu (or DIRECTORY) under NVIDIA's SONAME, with exactly the exports of NVIDIA's. Functions that SOURCES
# and linked object libraries do not define print their name once and return STATUS. (Static libraries do not work: the linker
# takes no function from them if there is a weak definition.) See make_table.py.
set(CROPDL_MAKE_TABLE ${CMAKE_CURRENT_LIST_DIR}/make_table.py CACHE INTERNAL "")
function(software_gpu_library target)
  cmake_parse_arguments(arg "" "NAME;SONAME;LIBRARY;PREFIX;STATUS_TYPE;STATUS;NODE;DIRECTORY;SPEAKER" "HEADERS;TYPEDEFS;ALSO;BY_HAND;SOURCES" ${ARGN})
  if(NOT arg_DIRECTORY)
    set(arg_DIRECTORY ${CROPDL_SOFTWARE_GPU_DIRECTORY})
  endif()
  set(out ${CMAKE_CURRENT_BINARY_DIR})
  set(made ${out}/${arg_NAME}_not_built.cpp)
  set(options --include ${CROPDL_CUDA_INCLUDE} --prefix ${arg_PREFIX} --status-type ${arg_STATUS_TYPE} --status ${arg_STATUS}
              --compiler ${CMAKE_CXX_COMPILER} --out ${out})
  foreach(pair "header:HEADERS" "typedefs:TYPEDEFS" "also:ALSO" "by-hand:BY_HAND" "node:NODE" "library:LIBRARY" "speaker:SPEAKER")
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 option)
    list(GET pair 1 variable)
    foreach(value ${arg_${variable}})
      list(APPEND options --${option} ${value})
    endforeach()
  endforeach()
  if(arg_TYPEDEFS)
    list(APPEND made ${out}/${arg_NAME}_procedures.cpp)
  endif()
  add_custom_command(
    OUTPUT ${out}/${arg_NAME}.map ${made}
    COMMAND ${CROPDL_PYTHON} ${CROPDL_MAKE_TABLE} ${arg_NAME} ${options}
    # Unchanged files keep their time stamps; without this, the command would run in every build.
    COMMAND ${CMAKE_COMMAND} -E touch ${out}/${arg_NAME}.map ${made}
    DEPENDS ${CROPDL_MAKE_TABLE}
    COMMENT "The table of functions of ${arg_SONAME}"
    VERBATIM)
  add_library(${target} SHARED ${arg_SOURCES} ${made} ${out}/${arg_NAME}.map)
  string(REGEX REPLACE "^lib(.*)\\.so\\.([0-9]+)$" "\\1;\\2" name_and_version ${arg_SONAME})
  list(GET name_and_version 0 name)
  list(GET name_and_version 1 version)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${version} VERSION ${version}
    LIBRARY_OUTPUT_DIRECTORY ${arg_DIRECTORY} LINK_DEPENDS ${out}/${arg_NAME}.map)
  target_include_directories(${target} SYSTEM PRIVATE ${CROPDL_CUDA_INCLUDE})
  target_link_libraries(${target} PRIVATE gpu_settings)
  # nodelete: its threads run until the process ends, even after dlclose(). defs: missing symbols are errors
  # at link time, not at a program's first call.
  target_link_options(${target} PRIVATE -Wl,--version-script=${out}/${arg_NAME}.map -Wl,-Bsymbolic-functions -Wl,-z,nodelete
                                        -Wl,-z,defs)
  add_dependencies(software-gpu ${target})
endfunction()

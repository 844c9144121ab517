# cropdl_precompiled(TARGET [HEADERS...]): precompiles the standard library's larger headers and HEADERS for the target.
# Its files still include what they use. cropdl_precompiled_like(TARGET OTHER) reuses OTHER's precompiled headers; OTHER
# must have the same options.
option(CROPDL_PRECOMPILED "Read large headers once for each of the large targets" ON)
function(cropdl_precompiled_options target)
  # ccache's manual requires -fpch-preprocess. With it GCC 12 warns of overflows in its own std::string, falsely; it does
  # not warn if headers are read as text.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow
                         -Wno-restrict>)
endfunction()
function(cropdl_precompiled target)
  if(CROPDL_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <cstdint> <cstring> <functional> <map> <memory>
                              <mutex> <optional> <set> <string> <string_view> <utility> <vector> ${ARGN})
    cropdl_precompiled_options(${target})
  endif()
endfunction()
function(cropdl_precompiled_like target other)
  if(CROPDL_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM ${other})
    cropdl_precompiled_options(${target})
  endif()
endfunction()

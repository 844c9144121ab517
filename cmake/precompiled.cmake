# cropdl_precompiled(TARGET [HEADERS...]): reads the standard library's larger headers and HEADERS once for the target. Its files
# include what they use all the same. cropdl_precompiled_like(TARGET OTHER) takes what was read for OTHER, whose options must be
# the same.
option(CROPDL_PRECOMPILED "Read large headers once for each of the large targets" ON)
function(cropdl_precompiled_options target)
  # ccache's manual asks for -fpch-preprocess. GCC 12 then finds overflows in its own std::string, which it knows to be none where
  # headers are read as text.
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

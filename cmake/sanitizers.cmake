# cropdl_sanitize(TARGET): address and undefined behaviour sanitizers for code that can run with them (the state
# machine, the image reader and writer, the store). Code that runs with a foreign FS base or places the upper
# half's memory cannot: a sanitizer's runtime controls both.
set(CROPDL_SANITIZER address,undefined CACHE STRING "What CROPDL_ASAN builds with: address,undefined or thread")
function(cropdl_sanitize target)
  if(CROPDL_ASAN)
    # -O1: at -O0 the explorer of the agreement takes minutes. GCC's -Wmaybe-uninitialized gives false warnings on
    # instrumented code (GCC's manual).
    target_compile_options(${target} PUBLIC -O1 -fsanitize=${CROPDL_SANITIZER} -fno-sanitize-recover=all
                           -fno-omit-frame-pointer -Wno-maybe-uninitialized)
    if(CROPDL_SANITIZER STREQUAL "thread")
      # The software device implements kernels' fences by fences. The sanitizer does not model them, so it only detects
      # less.
      target_compile_options(${target} PUBLIC -Wno-tsan)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${CROPDL_SANITIZER})
  endif()
endfunction()

# cropdl_sanitize(TARGET): address and undefined behaviour sanitizers for code that can bear them (the state
# machine, the image reader and writer, the store). Code that runs with a foreign FS base or places the upper
# half's memory cannot: a sanitizer's runtime owns both.
set(CROPDL_SANITIZER address,undefined CACHE STRING "What CROPDL_ASAN builds with: address,undefined or thread")
function(cropdl_sanitize target)
  if(CROPDL_ASAN)
    # -O1: at -O0 the explorer of the agreement takes minutes. GCC's -Wmaybe-uninitialized is known to be wrong about
    # instrumented code (its manual says so).
    target_compile_options(${target} PUBLIC -O1 -fsanitize=${CROPDL_SANITIZER} -fno-sanitize-recover=all
                           -fno-omit-frame-pointer -Wno-maybe-uninitialized)
    if(CROPDL_SANITIZER STREQUAL "thread")
      # Kernels' fences are fences here: the sanitizer does not model them, which costs it what it could see, no more.
      target_compile_options(${target} PUBLIC -Wno-tsan)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${CROPDL_SANITIZER})
  endif()
endfunction()

# cropdl_sanitize(TARGET): address and undefined behaviour sanitizers for code that can bear them (the state
# machine, the image reader and writer, the store). Code that runs with a foreign FS base or places the upper
# half's memory cannot: a sanitizer's runtime owns both.
function(cropdl_sanitize target)
  if(CROPDL_ASAN)
    target_compile_options(${target} PUBLIC -fsanitize=address,undefined -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
  endif()
endfunction()

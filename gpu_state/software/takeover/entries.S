# The functions to which patched code jumps (base/patched_code.h). In assembly, since the caller's registers must be preserved,
# which C++ cannot guarantee.
        .text

# The first call of a runtime function: %rax is its slot. Preserves all argument registers of the System V ABI.
        .globl  cropdl_takeover_first_call
        .hidden cropdl_takeover_first_call
        .type   cropdl_takeover_first_call, @function
cropdl_takeover_first_call:
        .cfi_startproc
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        pushq   %rax
        pushq   %rdi
        pushq   %rsi
        pushq   %rdx
        pushq   %rcx
        pushq   %r8
        pushq   %r9
        pushq   %r10
        subq    $128, %rsp
        movups  %xmm0, (%rsp)
        movups  %xmm1, 16(%rsp)
        movups  %xmm2, 32(%rsp)
        movups  %xmm3, 48(%rsp)
        movups  %xmm4, 64(%rsp)
        movups  %xmm5, 80(%rsp)
        movups  %xmm6, 96(%rsp)
        movups  %xmm7, 112(%rsp)
        movq    %rax, %rdi
        call    cropdl_takeover_find
        movq    %rax, %r11
        movups  (%rsp), %xmm0
        movups  16(%rsp), %xmm1
        movups  32(%rsp), %xmm2
        movups  48(%rsp), %xmm3
        movups  64(%rsp), %xmm4
        movups  80(%rsp), %xmm5
        movups  96(%rsp), %xmm6
        movups  112(%rsp), %xmm7
        addq    $128, %rsp
        popq    %r10
        popq    %r9
        popq    %r8
        popq    %rcx
        popq    %rdx
        popq    %rsi
        popq    %rdi
        popq    %rax
        popq    %rbp
        .cfi_def_cfa %rsp, 8
        jmp     *%r11
        .cfi_endproc
        .size   cropdl_takeover_first_call, .-cropdl_takeover_first_call

# A function that the software device's runtime lacks.
        .globl  cropdl_takeover_not_there
        .hidden cropdl_takeover_not_there
        .type   cropdl_takeover_not_there, @function
cropdl_takeover_not_there:
        .cfi_startproc
        movq    %rax, %rdi
        jmp     cropdl_takeover_say_not_there
        .cfi_endproc
        .size   cropdl_takeover_not_there, .-cropdl_takeover_not_there

# Replaces ld.so's _dl_debug_state(), an empty function. Its callers, compiled together with it, may rely on unchanged registers.
        .globl  cropdl_takeover_objects_changed
        .hidden cropdl_takeover_objects_changed
        .type   cropdl_takeover_objects_changed, @function
cropdl_takeover_objects_changed:
        .cfi_startproc
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        pushq   %rax
        pushq   %rdi
        pushq   %rsi
        pushq   %rdx
        pushq   %rcx
        pushq   %r8
        pushq   %r9
        pushq   %r10
        pushq   %r11
        subq    $520, %rsp
        andq    $-16, %rsp
        fxsave64 (%rsp)
        call    cropdl_takeover_look_again
        fxrstor64 (%rsp)
        leaq    -72(%rbp), %rsp
        popq    %r11
        popq    %r10
        popq    %r9
        popq    %r8
        popq    %rcx
        popq    %rdx
        popq    %rsi
        popq    %rdi
        popq    %rax
        popq    %rbp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        .size   cropdl_takeover_objects_changed, .-cropdl_takeover_objects_changed

        .section .note.GNU-stack,"",@progbits

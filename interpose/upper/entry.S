/* The core's instruction sequences that C cannot express. Upper half, any thread, any FS base. */
#include "interpose/upper/offsets.h"
#include "interpose/upper/unwinding.S"

	.macro FUNCTION name
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.endm

/* Entry of the program's system calls: from a patched site in libc, or from the SIGSYS handler, which sends the thread
   here instead of making the call in the signal frame. So a call runs on the program's stack, a few hundred bytes below
   its red zone. A handler of the program may interrupt it or leave it by longjmp, as natively.
   rax = number, arguments as for `syscall`, rcx = return address, r11 = signals that the program blocks (masked entry).
   `syscall` itself destroys only rcx and r11, so nothing else may change, flags included. */
	.macro BEGIN_ENTRY name
	FUNCTION \name
	.cfi_signal_frame
	.cfi_def_cfa %rsp, 0
	.cfi_register %rip, %rcx
	.endm
	.macro SAVE_CALL
	MOVE_STACK -128                 /* the red zone is the interrupted function's */
	pushfq
	.cfi_adjust_cfa_offset 8
	SAVE %r11, %rcx
	.cfi_rel_offset %rip, 0
	SAVE %rbp, %r9, %r8, %r10, %rdx, %rsi, %rdi, %rax
	mov %rsp, %rdi                  /* struct TrappedCall */
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	and $-16, %rsp
	cld
	.endm
	.macro RESTORE_CALL
	mov %rbp, %rsp
	.cfi_def_cfa_register %rsp
	RESTORE %rax, %rdi, %rsi, %rdx, %r10, %r8, %r9, %rbp, %rcx
	.cfi_register %rip, %rcx
	RESTORE %r11
	popfq
	.cfi_adjust_cfa_offset -8
	MOVE_STACK 128
	.endm

	/* Sets the GS base to rcx. Changes rcx, r11 and the flags; sets rax to 0. */
	.macro SET_GS_BASE
	xor %eax, %eax
	movabs $CONTROL_HAS_FSGSBASE, %r11
	cmpl $0, (%r11)
	je 8f
	wrgsbase %rcx
	jmp 9f
8:	SAVE %rdi, %rsi
	mov %rcx, %rsi
	mov $0x1001, %edi               /* ARCH_SET_GS */
	mov $158, %eax                  /* arch_prctl */
	syscall
	RESTORE %rsi, %rdi
9:
	.endm

	.text
	BEGIN_ENTRY cropdl_core_syscall_entry
	SAVE_CALL
	call cropdl_trapped_call
	RESTORE_CALL
	jmp *%rcx
	.cfi_endproc

/* Entry of calls made in one piece: the SIGSYS handler has left all signals blocked. */
	BEGIN_ENTRY cropdl_core_masked_entry
	SAVE_CALL
	call cropdl_masked_call
	test %eax, %eax
	jnz 1f
	.cfi_remember_state
	RESTORE_CALL
	jmp *%rcx
	.cfi_restore_state

/* clone, fork and vfork, with the registers and the stack pointer of the original call. All signals stay blocked until
   child and parent have their own records and masks, so nothing else uses the record. It holds the return address.
   A child on a new stack finds its record, the mask, the return address and the stack pointer on top of that stack.
   Unwinding ends here where only the record has the return address, and at the beginning of a new stack. */
1:	cmp $2, %eax
	je 2f
	.cfi_remember_state
	RESTORE_CALL
	syscall
	.cfi_undefined %rip
	test %rax, %rax
	jnz parent_goes_on
	pop %rcx                        /* the child on its new stack */
	SET_GS_BASE
	call child_prologue
	lea 8(%rsp), %rsp
	pop %rcx
	pop %rsp
	.cfi_register %rip, %rcx
	jmp *%rcx
	.cfi_restore_state

2:	RESTORE_CALL                    /* no new stack: fork (own copy of memory) or vfork (parent waits) */
	syscall
	.cfi_undefined %rip
	test %rax, %rax
	jnz parent_goes_on
	.cfi_remember_state
	MOVE_STACK -128                 /* vfork shares the stack with the parent */
	push %gs:THREAD_CLONE_RETURN
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rip, 0
	push %gs:THREAD_CLONE_MASK
	.cfi_adjust_cfa_offset 8
	mov %gs:THREAD_CLONE_RECORD, %rcx
	SET_GS_BASE
	call child_prologue
	MOVE_STACK 8
	pop %rcx
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rcx
	MOVE_STACK 128
	jmp *%rcx
	.cfi_restore_state

parent_goes_on:                         /* or failure */
	SAVE_CALL
	call cropdl_parent_goes_on
	RESTORE_CALL
	jmp *%rcx
	.cfi_endproc

child_prologue:                         /* changes only rcx, r11 and rax (= 0); the mask is above the return address */
	.cfi_startproc
	mov 8(%rsp), %rcx
	SAVE %rdi, %rsi, %rdx, %r8, %r9, %r10, %rbp
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	and $-16, %rsp
	mov %rcx, %rdi
	call cropdl_child_begins
	mov %rbp, %rsp
	.cfi_def_cfa_register %rsp
	RESTORE %rbp, %r10, %r9, %r8, %rdx, %rsi, %rdi
	xor %eax, %eax
	ret
	.cfi_endproc

/* Makes a 32-bit system call of the program. `int 0x80` keeps all registers but eax, so the return address is below the
   red zone, where the SIGSYS handler has put it and rsp. */
	FUNCTION cropdl_core_int80
	.cfi_signal_frame
	.cfi_def_cfa %rsp, 136
	.cfi_offset %rip, -136
	int $0x80
	ret $128
	.cfi_endproc

/* long cropdl_descriptor_call(nr, a, b, c, d, e; on the stack: f): makes a system call that may wait long and returns a
   descriptor, and notes the descriptor. A handler that interrupts between the kernel's return and the note makes the note
   (note_descriptor). So the thread may be stopped, or leave by longjmp, anywhere here. */
	.globl cropdl_descriptor_made, cropdl_descriptor_noted
	.hidden cropdl_descriptor_call, cropdl_descriptor_made, cropdl_descriptor_noted
	FUNCTION cropdl_descriptor_call
	mov %rdi, %rax
	mov %rsi, %rdi
	mov %rdx, %rsi
	mov %rcx, %rdx
	mov %r8, %r10
	mov %r9, %r8
	mov 8(%rsp), %r9
	syscall
cropdl_descriptor_made:                 /* from here to the end rax is the result */
	cmp $STATE_MAX_FILES, %rax      /* an error is a large unsigned number */
	jae cropdl_descriptor_noted
	movabs $STATE_FILES, %rcx
	lock bts %rax, (%rcx)
cropdl_descriptor_noted:
	ret
	.cfi_endproc

/* long cropdl_sigwait(set, info, timeout, size): rt_sigtimedwait, then notes that si_pid in `info` is not yet translated
   (ThreadRecord::sender_untranslated). A handler that interrupts between the kernel's return and the note translates it
   (tell_waited). */
	.globl cropdl_sigwait_made, cropdl_sigwait_noted
	.hidden cropdl_sigwait, cropdl_sigwait_made, cropdl_sigwait_noted
	FUNCTION cropdl_sigwait
	mov %rcx, %r10
	mov $128, %eax
	syscall
cropdl_sigwait_made:                    /* from here to the end rax is the result, rsi is `info` */
	test %rax, %rax
	jle cropdl_sigwait_noted
	mov %rsi, %gs:THREAD_SENDER_UNTRANSLATED
cropdl_sigwait_noted:
	ret
	.cfi_endproc

/* sa_restorer. rt_sigreturn finds the frame at rsp (man 2 sigreturn): the registers are in its ucontext
   (arch/x86/include/uapi/asm/sigcontext.h), below by their DWARF numbers (psABI). The nop is for unwinders, to which a
   handler was called by the instruction before its return address. */
	.cfi_startproc
	.cfi_signal_frame
	STACK_IN_FRAME 160
	.irp register, 8, 9, 10, 11, 12, 13, 14, 15
	IN_FRAME \register, (\register-8)*8+40
	.endr
	IN_FRAME 5, 104
	IN_FRAME 4, 112
	IN_FRAME 6, 120
	IN_FRAME 3, 128
	IN_FRAME 1, 136
	IN_FRAME 0, 144
	IN_FRAME 2, 152
	IN_FRAME 7, 160
	IN_FRAME 16, 168
	nop
	.globl cropdl_core_restorer
	.type cropdl_core_restorer, @function
cropdl_core_restorer:
	mov $15, %eax
	syscall
	ud2
	.cfi_endproc

/* Every signal handler begins here, with rdi = signal, rsi = siginfo, rdx = ucontext, rsp = the frame. A function of
   handlers.cpp decides what follows. Then the program's handler is entered exactly as by the kernel, on its frame, which
   may have been moved. So unwinding, and leaving the handler in any manner, work as natively. */
	.macro HANDLER name, decide
	FUNCTION \name
	mov %rsp, %rax
	.cfi_def_cfa %rax, 8
	and $-16, %rsp
	sub $48, %rsp
	mov %rdi, (%rsp)                /* struct Entry */
	mov %rsi, 8(%rsp)
	mov %rdx, 16(%rsp)
	mov %rax, 24(%rsp)
	RETURN_ADDRESS_IN_FRAME 24
	mov %rsp, %rdi
	cld
	call \decide
	mov (%rsp), %rdi
	mov 8(%rsp), %rsi
	mov 16(%rsp), %rdx
	mov 32(%rsp), %rax
	mov 40(%rsp), %rcx
	mov 24(%rsp), %rsp
	.cfi_def_cfa %rsp, 8
	jmp *%rax
	.cfi_endproc
	.endm
	HANDLER cropdl_core_sigsys, cropdl_enter_sigsys
	HANDLER cropdl_core_suspend, cropdl_enter_suspend
	HANDLER cropdl_core_trampoline, cropdl_enter_handler
	HANDLER cropdl_core_trigger, cropdl_enter_trigger
	HANDLER cropdl_core_last_version, cropdl_enter_last_version

/* Runs in place of a handler: returns to the interrupted code. */
	.hidden cropdl_return
	FUNCTION cropdl_return
	MOVE_STACK 8                    /* as if a handler had returned to the restorer */
	jmp cropdl_core_restorer
	.cfi_endproc

/* The proxy vDSO. The real vDSO has another address in every run, so a context within it can neither be saved nor stay
   below a handler. A handler that interrupts such a call finds this frame (ThreadRecord::vdso_frame) and sends the thread
   back to the beginning of the call (begin_vdso_call_anew). Reading a clock twice does no harm. */
	.macro VDSO name
	FUNCTION __vdso_\name
	SAVE %rbx, %rbp, %r12, %r13, %r14, %r15, %rdx, %rsi, %rdi
	lea __vdso_\name(%rip), %rax
	push %rax
	.cfi_adjust_cfa_offset 8
	MOVE_STACK -8
	mov %rsp, %gs:THREAD_VDSO_FRAME /* struct VdsoFrame */
	call cropdl_vdso_\name
	movq $0, %gs:THREAD_VDSO_FRAME
	.irp register, rbx, rbp, r12, r13, r14, r15, rdx, rsi, rdi
	.cfi_restore \register
	.endr
	MOVE_STACK 88
	ret
	.cfi_endproc
	.endm
	VDSO clock_gettime
	VDSO gettimeofday
	VDSO time
	VDSO getcpu
	VDSO clock_getres

/* First call of a patched function: rax is its slot (seam::LateCall). Keeps all registers that may carry an argument
   (psABI) for the function that is found. */
	FUNCTION cropdl_core_late_call
	KEEP_STACK
	.irp register, %rax, %rdi, %rsi, %rdx, %rcx, %r8, %r9, %r10
	push \register
	.endr
	sub $128, %rsp
	.irp number, 0, 1, 2, 3, 4, 5, 6, 7
	movups %xmm\number, 16*\number(%rsp)
	.endr
	mov %rax, %rdi
	call cropdl_find_late_call
	mov %rax, %r11
	.irp number, 0, 1, 2, 3, 4, 5, 6, 7
	movups 16*\number(%rsp), %xmm\number
	.endr
	add $128, %rsp
	.irp register, %r10, %r9, %r8, %rcx, %rdx, %rsi, %rdi, %rax
	pop \register
	.endr
	LEAVE_STACK
	jmp *%r11
	.cfi_endproc

	FUNCTION cropdl_core_no_call
	mov %rax, %rdi
	jmp cropdl_no_call
	.cfi_endproc

/* Replaces ld.so's _dl_debug_state, an empty function. Its callers may rely on unchanged registers. */
	FUNCTION cropdl_core_objects_changed
	KEEP_STACK
	.irp register, %rax, %rdi, %rsi, %rdx, %rcx, %r8, %r9, %r10, %r11
	push \register
	.endr
	sub $520, %rsp
	and $-16, %rsp
	fxsave64 (%rsp)
	call cropdl_objects_changed
	fxrstor64 (%rsp)
	lea -72(%rbp), %rsp
	.irp register, %r11, %r10, %r9, %r8, %rcx, %rdx, %rsi, %rdi, %rax
	pop \register
	.endr
	LEAVE_STACK
	ret
	.cfi_endproc

	.section .note.GNU-stack, "", @progbits

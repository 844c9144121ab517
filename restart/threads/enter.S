/* The two entries into the upper half (LH, main thread; neither returns), and the creation of threads. System
   calls set the FS and GS bases; seam/thread.h says why not instructions, although those would do here. */
	.macro SET_BASE which, value    /* changes rax, rcx, r11, rdi and rsi */
	mov \value, %rsi
	mov $\which, %edi
	mov $158, %eax                  /* arch_prctl */
	syscall
	.endm
	.set SET_GS, 0x1001
	.set SET_FS, 0x1002
	.set FPREGS, 224                /* offset of uc_mcontext.fpregs in ucontext_t */
	.set FRAME_MAGIC, 0x46505853

	.text
/* void cropdl_enter(uint64_t sp rdi, uint64_t entry rsi, record rdx): starts as the kernel starts a program
   (psABI: rdx = 0, no atexit function; rbp = 0). FS base 0, GS base the record. */
	.globl cropdl_enter
	.type cropdl_enter, @function
cropdl_enter:
	mov %rdi, %r12
	mov %rsi, %r13
	SET_BASE SET_GS, %rdx
	SET_BASE SET_FS, $0
	mov %r12, %rsp
	mov %r13, %rsi
	.irp register, eax, ebx, ecx, edx, edi, ebp, r8d, r9d, r10d, r11d, r12d, r13d, r14d, r15d
	xor %\register, %\register
	.endr
	jmp *%rsi

/* void cropdl_continue(uint64_t context rdi, uint64_t fs rsi, record rdx): rt_sigreturn finds the saved
   ucontext at rsp and restores registers, floating point state, signal mask and alternate stack
   (arch/x86/kernel/signal_64.c). It takes tile registers (AMX) only from the frame of a thread that has used
   one (arch/x86/kernel/fpu/signal.c), so this uses one if they are in the frame. */
	.globl cropdl_continue
	.type cropdl_continue, @function
cropdl_continue:
	mov %rdi, %r12
	mov %rsi, %r13
	SET_BASE SET_GS, %rdx
	SET_BASE SET_FS, %r13
	mov %r12, %rsp
	mov FPREGS(%rsp), %rax
	test %rax, %rax
	jz 1f
	cmpl $FRAME_MAGIC, 464(%rax)    /* as in seam/signal_frame.h */
	jne 1f
	testl $1 << 18, 472(%rax)
	jz 1f
	ldtilecfg one_tile(%rip)
	tilezero %tmm0
	tilerelease
1:	mov $15, %eax
	syscall
	ud2

/* long cropdl_clone_thread(uint64_t flags rdi, uint64_t stack rsi, int32_t* tid rdx, fn rcx, record r8):
   creates a thread that the C library does not know. The thread calls fn(record), which must not return; its
   GS base is the record, its FS base the caller's. Returns the system call's result. */
	.globl cropdl_clone_thread
	.type cropdl_clone_thread, @function
cropdl_clone_thread:
	mov %rcx, %r9
	mov $56, %eax
	xor %r10d, %r10d
	syscall
	test %rax, %rax
	jz 1f
	ret
1:	xor %ebp, %ebp
	SET_BASE SET_GS, %r8
	mov %r8, %rdi
	call *%r9
	ud2
	.section .rodata
	.balign 64
one_tile:                               /* palette 1; tile 0 has one row of 64 bytes */
	.byte 1
	.zero 15
	.short 64
	.zero 30
	.byte 1
	.zero 15
	.section .note.GNU-stack, "", @progbits

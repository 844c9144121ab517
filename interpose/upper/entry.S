/* The core's instruction sequences that C cannot express. Upper half, any thread, any FS base. */
#include "interpose/upper/offsets.h"

/* A patched system call site in libc jumps here: rax = number, arguments as for `syscall`, rcx = where to go on.
   `syscall` itself destroys rcx and r11 and nothing else, so nothing else may change. The red zone below rsp is the
   interrupted function's. */
	.text
	.globl cropdl_core_syscall_entry
	.type cropdl_core_syscall_entry, @function
cropdl_core_syscall_entry:
	lea -128(%rsp), %rsp
	push %rcx
	push %rbp
	push %r9
	push %r8
	push %r10
	push %rdx
	push %rsi
	push %rdi
	push %rax
	mov %rsp, %rdi                  /* struct PatchedCall */
	mov %rsp, %rbp
	and $-16, %rsp
	cld
	call cropdl_patched_call
	mov %rbp, %rsp
	add $8, %rsp                    /* rax: the result */
	pop %rdi
	pop %rsi
	pop %rdx
	pop %r10
	pop %r8
	pop %r9
	pop %rbp
	pop %rcx
	lea 128(%rsp), %rsp
	jmp *%rcx

/* sa_restorer. rt_sigreturn finds the frame at rsp (man 2 sigreturn). */
	.globl cropdl_core_restorer
	.type cropdl_core_restorer, @function
cropdl_core_restorer:
	mov $15, %eax
	syscall
	ud2

/* clone, fork and vfork continue here, with the registers of the original call, after the SIGSYS handler has returned:
   a child must not begin inside a signal frame. The parent's record (GS base) holds the return address; a child on
   a new stack finds it, and its own record, in the two words that the handler put on top of that stack.
   Both sides: rcx and r11 are free, as after any `syscall`. */
	.globl cropdl_core_clone
	.type cropdl_core_clone, @function
cropdl_core_clone:
	syscall
	test %rax, %rax
	jz 1f
	jmp *%gs:THREAD_CLONE_RETURN    /* parent, or failure */
1:	pop %rcx                        /* child on a new stack: record, return address */
	wrgsbase %rcx
	call child_prologue
	pop %rcx
	jmp *%rcx

	.globl cropdl_core_fork
	.type cropdl_core_fork, @function
cropdl_core_fork:                       /* no new stack: fork (own copy of memory) or vfork (parent waits) */
	syscall
	test %rax, %rax
	jz 1f
	jmp *%gs:THREAD_CLONE_RETURN
1:	mov %gs:THREAD_CLONE_RETURN, %rcx
	mov %gs:THREAD_CLONE_RECORD, %r11
	wrgsbase %r11
	lea -128(%rsp), %rsp            /* the red zone is the caller's, and vfork shares it with the parent */
	push %rcx
	call child_prologue
	pop %rcx
	lea 128(%rsp), %rsp
	jmp *%rcx

child_prologue:                         /* keeps every register but rcx, r11, rax (= 0) */
	push %rdi
	push %rsi
	push %rdx
	push %r8
	push %r9
	push %r10
	push %rbp
	mov %rsp, %rbp
	and $-16, %rsp
	call cropdl_child_begins
	mov %rbp, %rsp
	pop %rbp
	pop %r10
	pop %r9
	pop %r8
	pop %rdx
	pop %rsi
	pop %rdi
	xor %eax, %eax
	ret

/* long cropdl_on_lower(fn rdi, record rsi, argument rdx): runs fn(record, argument) on the record's LH stack with
   its LH FS base and comes back. */
	.globl cropdl_on_lower
	.type cropdl_on_lower, @function
cropdl_on_lower:
	push %rbp
	push %rbx
	mov %rsp, %rbp
	rdfsbase %rbx
	mov THREAD_LOWER_SP(%rsi), %rsp
	mov THREAD_LOWER_FS(%rsi), %rax
	wrfsbase %rax
	mov %rdi, %rax
	mov %rsi, %rdi
	mov %rdx, %rsi
	call *%rax
	wrfsbase %rbx
	mov %rbp, %rsp
	pop %rbx
	pop %rbp
	ret

	.section .note.GNU-stack, "", @progbits

/* cropdl-run's entry point: ignores SIGUSR1 first (rt_sigaction(10, {SIG_IGN}, 0, 8)), then continues at _start. A
   launcher forwards SIGUSR1 to every process that it has started, and the default action would end the rank. */
	.text
	.globl cropdl_quiet_start
	.type cropdl_quiet_start, @function
cropdl_quiet_start:
	lea ignore(%rip), %rsi
	mov $13, %eax
	mov $10, %edi
	mov %rdx, %r9                   /* the psABI's atexit function; 0 in a static program */
	xor %edx, %edx
	mov $8, %r10d
	syscall
	mov %r9, %rdx
	jmp _start
	.section .rodata
	.balign 8
ignore:	.quad 1, 0, 0, 0
	.section .note.GNU-stack, "", @progbits

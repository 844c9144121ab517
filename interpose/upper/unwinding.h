/* What tells an unwinder (an exception, pthread_cancel, a debugger) where the registers are. For assembly.

   The caller of a system call is known by the exact address at which it goes on, and all its registers count. So
   its frame is a signal frame: an unwinder looks up that address, not the instruction before it. */

	/* push and pop, of registers in turn */
	.macro SAVE registers:vararg
	.irp register, \registers
	push \register
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \register, 0
	.endr
	.endm
	.macro RESTORE registers:vararg
	.irp register, \registers
	pop \register
	.cfi_adjust_cfa_offset -8
	.cfi_restore \register
	.endr
	.endm
	/* lea \change(%rsp), %rsp: no flag may change */
	.macro MOVE_STACK change
	lea \change(%rsp), %rsp
	.cfi_adjust_cfa_offset -(\change)
	.endm

	/* A function that keeps rsp in rbp */
	.macro KEEP_STACK
	SAVE %rbp
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	.endm
	.macro LEAVE_STACK
	pop %rbp
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	.endm

	/* Of a register, or of the stack pointer, that the signal frame holds at \offset from rsp (DWARF 5, 6.4.2):
	   DW_CFA_expression and DW_CFA_def_cfa_expression of DW_OP_breg7 (and DW_OP_deref) */
	.macro IN_FRAME register, offset
	.cfi_escape 0x10, \register, 3, 0x77, (\offset & 0x7f) | 0x80, \offset >> 7
	.endm
	.macro STACK_IN_FRAME offset
	.cfi_escape 0x0f, 4, 0x77, (\offset & 0x7f) | 0x80, \offset >> 7, 0x06
	.endm

	/* The frame of a handler, whose struct Entry at rsp has its address; behind its first word is the stack
	   pointer of a caller: DW_OP_breg7, DW_OP_deref, DW_OP_plus_uconst */
	.macro FRAME_IN_ENTRY offset
	.cfi_escape 0x0f, 5, 0x77, \offset, 0x06, 0x23, 8
	.endm

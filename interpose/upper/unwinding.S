/* Tells an unwinder (an exception, pthread_cancel, a profiler) where the caller and its registers are. For entry.S.

   A system call is not a call: what the program goes on with is an exact address, and all its registers count. So the
   entries are signal frames, as below a handler natively: an unwinder looks up that address, not the byte before it. */

	/* push and pop registers in turn */
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

	/* Adds to rsp. Changes no flag. */
	.macro MOVE_STACK bytes
	lea \bytes(%rsp), %rsp
	.cfi_adjust_cfa_offset -(\bytes)
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

	/* The caller's register, or its rsp, is in memory at rsp + offset (DWARF 5, 6.4.2): DW_CFA_expression,
	   DW_CFA_def_cfa_expression; DW_OP_breg7 offset, and DW_OP_deref. */
	.macro IN_FRAME register, offset
	.cfi_escape 0x10, \register, 3, 0x77, ((\offset) & 0x7f) | 0x80, (\offset) >> 7
	.endm
	.macro STACK_IN_FRAME offset
	.cfi_escape 0x0f, 4, 0x77, ((\offset) & 0x7f) | 0x80, (\offset) >> 7, 0x06
	.endm

	/* In memory at rsp + offset is the address of the word that holds the return address: as above, and
	   DW_OP_plus_uconst 8. */
	.macro RETURN_ADDRESS_IN_FRAME offset
	.cfi_escape 0x0f, 5, 0x77, \offset, 0x06, 0x23, 8
	.endm

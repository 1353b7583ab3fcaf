// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// The offsets from data are those of the type table.
#define data 0x500300

TEXT sleeper<>(SB),NOSPLIT|NOFRAME,$0
	MOVQ SP, BX             // argc, two arguments, 0, the environment
	MOVQ $data, R12
	MOVL $15, DI            // prctl(PR_SET_NAME, name)
	LEAQ 56(R12), SI
	MOVL $157, AX
	SYSCALL
	MOVQ R12, DI            // ppoll(fds, count, NULL, NULL, 0)
	MOVL 40(R12), SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $271, AX
	SYSCALL
again:
	MOVL 48(R12), DI        // execveat(program, "", arguments, environment, AT_EMPTY_PATH)
	LEAQ 52(R12), SI
	LEAQ 8(BX), DX
	LEAQ 32(BX), R10
	MOVL $0x1000, R8
	MOVL $322, AX
	SYSCALL
	LEAQ 72(R12), DI        // nanosleep(pause, NULL)
	XORL SI, SI
	MOVL $35, AX
	SYSCALL
	JMP again

TEXT sleeperEnd<>(SB),NOSPLIT|NOFRAME,$0
	RET

TEXT ·code(SB),NOSPLIT,$0-16
	LEAQ sleeper<>(SB), AX
	MOVQ AX, start+0(FP)
	LEAQ sleeperEnd<>(SB), AX
	MOVQ AX, end+8(FP)
	RET

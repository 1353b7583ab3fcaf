// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// The addresses of the type Words, and the offsets in the type Step.
#define data   0x500300
#define steps  0x500320
#define size   80
#define result 56
#define loads  64
#define next   68
#define target 72

// arg sets the register of an argument, which the argument may be the address of.
#define arg(bit, at, reg) \
	MOVQ at(R12), reg   \
	BTL  $bit, BX       \
	JCC  2(PC)          \
	MOVQ (reg), reg

TEXT program<>(SB),NOSPLIT|NOFRAME,$0
	MOVQ SP, BX               // argc, two arguments, 0, the environment
	MOVQ $data, R13
	LEAQ 8(BX), AX
	MOVQ AX, 0(R13)
	LEAQ 32(BX), AX
	MOVQ AX, 8(R13)
	MOVQ $steps, R12
step:
	MOVL loads(R12), BX
	arg(0, 8, DI)
	arg(1, 16, SI)
	arg(2, 24, DX)
	arg(3, 32, R10)
	arg(4, 40, R8)
	arg(5, 48, R9)
	MOVQ 0(R12), AX
	SYSCALL
	MOVQ AX, result(R12)
	MOVL next(R12), BX
	CMPL BX, $4               // Jump
	JEQ  jump
	CMPL BX, $3               // Parent
	JEQ  parent
	CMPQ AX, $-4095
	JCC  failed               // as numbers without sign
	CMPL BX, $2               // Empty
	JNE  follow
	TESTQ AX, AX
	JEQ  note
follow:
	ADDQ $size, R12
	JMP  step
parent:
	TESTQ AX, AX
	JEQ  follow
jump:
	MOVQ target(R12), R12
	JMP  step
failed:
	NEGQ AX
	CMPL BX, $0               // Follow
	JEQ  follow
	CMPL BX, $5               // Execute
	JNE  note
	CMPQ AX, $13              // EACCES
	JEQ  absent
	CMPQ 24(R13), $0          // an earlier error is kept
	JNE  kept
	CMPQ AX, $2               // ENOENT
	JEQ  absent
	CMPQ AX, $20              // ENOTDIR
	JNE  note
absent:
	MOVQ R12, 16(R13)
	MOVQ AX, 24(R13)
	JMP  follow
kept:
	CMPQ AX, $2
	JEQ  follow
	CMPQ AX, $20
	JEQ  follow
note:
	MOVQ R12, 16(R13)
	MOVQ AX, 24(R13)
	JMP  jump

TEXT programEnd<>(SB),NOSPLIT|NOFRAME,$0
	RET

TEXT ·code(SB),NOSPLIT,$0-16
	LEAQ program<>(SB), AX
	MOVQ AX, start+0(FP)
	LEAQ programEnd<>(SB), AX
	MOVQ AX, end+8(FP)
	RET

// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// The offsets from data are those of the type table.
#define data 0x500300

TEXT sleeper<>(SB),NOSPLIT|NOFRAME,$0
	MOVD RSP, R19           // argc, two arguments, 0, the environment
	MOVD $data, R20
	MOVD $15, R0            // prctl(PR_SET_NAME, name)
	ADD  $56, R20, R1
	MOVD $167, R8
	SVC
	MOVD R20, R0            // ppoll(fds, count, NULL, NULL, 0)
	MOVWU 40(R20), R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	MOVD $73, R8
	SVC
again:
	MOVWU 48(R20), R0       // execveat(program, "", arguments, environment, AT_EMPTY_PATH)
	ADD  $52, R20, R1
	ADD  $8, R19, R2
	ADD  $32, R19, R3
	MOVD $0x1000, R4
	MOVD $281, R8
	SVC
	ADD  $72, R20, R0       // nanosleep(pause, NULL)
	MOVD $0, R1
	MOVD $101, R8
	SVC
	B again

TEXT sleeperEnd<>(SB),NOSPLIT|NOFRAME,$0
	RET

TEXT ·code(SB),NOSPLIT,$0-16
	MOVD $sleeper<>(SB), R0
	MOVD R0, start+0(FP)
	MOVD $sleeperEnd<>(SB), R0
	MOVD R0, end+8(FP)
	RET

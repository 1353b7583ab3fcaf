// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// The offsets from data are those of the type table.
#define data 0x500300

TEXT sleeper<>(SB),NOSPLIT|NOFRAME,$0
	MOVW R13, R8            // argc, two arguments, 0, the environment
	MOVW $data, R9
	MOVW $15, R0            // prctl(PR_SET_NAME, name)
	ADD  $56, R9, R1
	MOVW $172, R7
	SWI  $0
	MOVW R9, R0             // ppoll(fds, count, NULL, NULL, 0)
	MOVW 40(R9), R1
	MOVW $0, R2
	MOVW $0, R3
	MOVW $0, R4
	MOVW $336, R7
	SWI  $0
again:
	MOVW 48(R9), R0         // execveat(program, "", arguments, environment, AT_EMPTY_PATH)
	ADD  $52, R9, R1
	ADD  $4, R8, R2
	ADD  $16, R8, R3
	MOVW $0x1000, R4
	MOVW $387, R7
	SWI  $0
	ADD  $72, R9, R0        // nanosleep(pause, NULL)
	MOVW $0, R1
	MOVW $162, R7
	SWI  $0
	B again

TEXT sleeperEnd<>(SB),NOSPLIT|NOFRAME,$0
	RET

TEXT ·code(SB),NOSPLIT,$0-8
	MOVW $sleeper<>(SB), R0
	MOVW R0, start+0(FP)
	MOVW $sleeperEnd<>(SB), R0
	MOVW R0, end+4(FP)
	RET

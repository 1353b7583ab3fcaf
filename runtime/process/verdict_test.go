// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    facts
		want verdict
	}{
		{"nothing", facts{}, verdictCreated},
		{"a start begins", facts{locked: true}, verdictSettling},
		{"the shim is up", facts{locked: true, process: present, shim: true}, verdictSettling},
		{"runs", facts{locked: true, process: present, started: true, shim: true}, verdictRunning},
		{"runs, lock file removed", facts{process: present, started: true, shim: true}, verdictRunning},
		{"pid.json is broken", facts{locked: true, process: corrupt}, verdictSettling},
		{"pid.json is broken, and the shim says nothing", facts{locked: true, process: corrupt, searched: true}, verdictUnknown},
		{"the shim says that it runs", facts{locked: true, stated: true, shim: true, process: corrupt, exit: corrupt}, verdictRunning},
		{"the shim says that it runs, a record that it exited", facts{locked: true, stated: true, shim: true, exit: present}, verdictRunning},
		{"a record that it exited, no shim is found yet", facts{locked: true, exit: present}, verdictSettling},
		{"the shim just died", facts{locked: true, process: present, started: true}, verdictSettling},
		{"the shim died", facts{process: present, started: true}, verdictLost},
		{"the shim died in the middle of a start", facts{process: present}, verdictLost},
		{"the shim died, pid.json is broken", facts{process: corrupt}, verdictLost},
		{"exited, the shim leaves", facts{exit: present, locked: true, process: present, started: true, shim: true}, verdictRunning},
		{"exited, the shim leaves, pid.json is broken", facts{exit: present, locked: true, process: corrupt, shim: true}, verdictSettling},
		{"exited", facts{exit: present, process: present, started: true}, verdictExited},
		{"retired", facts{exit: present}, verdictExited},
		{"exit.json is broken", facts{exit: corrupt, process: present, started: true}, verdictForgotten},
		{"exit.json is broken, the shim leaves", facts{exit: corrupt, locked: true, process: present, started: true, shim: true}, verdictSettling},
		{"reboot, created", facts{rebooted: true}, verdictCreated},
		{"reboot, ran", facts{rebooted: true, process: present, started: true}, verdictRebooted},
		{"reboot, ran, pid.json is broken", facts{rebooted: true, process: corrupt}, verdictRebooted},
		{"reboot, exit.json is broken", facts{rebooted: true, exit: corrupt}, verdictRebooted},
		{"reboot, exited", facts{rebooted: true, exit: present, process: present}, verdictExited},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, judge(tt.f)) })
	}
}

// TestJudgeNeverSaysCreatedOfWhatMayRun goes through all facts there can be.
func TestJudgeNeverSaysCreatedOfWhatMayRun(t *testing.T) {
	yes := []bool{false, true}
	for _, exit := range []presence{absent, present, corrupt} {
		for _, process := range []presence{absent, present, corrupt} {
			for _, locked := range yes {
				for _, started := range yes {
					for _, shim := range yes {
						f := facts{exit: exit, locked: locked, process: process, started: started, shim: shim}
						if judge(f) == verdictCreated {
							assert.Equal(t, facts{started: started}, f)
						}
						if v := judge(f); v == verdictLost || v == verdictForgotten {
							assert.False(t, locked || shim, "nobody else may be at work: %+v", f)
						}
						assert.Equal(t, exit == present && !shim && !locked, judge(f) == verdictExited, "%+v", f)
						f.stated = true
						assert.Equal(t, verdictRunning, judge(f), "the shim's word counts: %+v", f)
					}
				}
			}
		}
	}
}

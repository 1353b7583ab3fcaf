// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"strings"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// behaviours takes all words: BEHAVIOUR [then BEHAVIOUR]…, one per instance of a container. The
// last applies to all further instances. A behaviour is a comma-separated list of
//
//	serve            runs until it is stopped (the default)
//	exit=DURATION    exits by itself after its start
//	code=N           exit code
//	term=DURATION    time between the stop signal and the exit
//	deaf             ignores the stop signal
//	ready=DURATION   probes succeed this long after the start
//	ill              probes never succeed
//	oom              exits because of the OOM killer
//	cannot-start
func (a *args) behaviours() (scripts []fake.Script) {
	expect := true
	for _, word := range a.rest() {
		if !expect {
			if word != "then" {
				a.fail("%q stands where only \"then\" can", word)
			}
			expect = true
			continue
		}
		scripts = append(scripts, a.behaviour(word))
		expect = false
	}
	if expect {
		a.fail("a behaviour is missing")
	}
	return scripts
}

func (a *args) behaviour(word string) (s fake.Script) {
	for part := range strings.SplitSeq(word, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "serve":
		case "exit":
			s.ExitAfter = max(a.toDuration(value), fake.AtOnce)
		case "code":
			s.ExitCode = int32(min(a.toNumber(value), 255))
		case "term":
			s.TermAfter = a.toDuration(value)
		case "deaf":
			s.TermAfter = fake.Never
		case "ready":
			s.ReadyAfter = a.toDuration(value)
		case "ill":
			s.ReadyAfter = fake.Never
		case "oom":
			s.ExitCode, s.Reason = 137, runtime.ReasonOOMKilled
		case "cannot-start":
			s.StartErr = errors.New("no such program")
		default:
			a.fail("%q is no behaviour", part)
		}
	}
	return s
}

// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Harness describes a kind of backend to the suite.
type Harness struct {
	// Open makes a backend over fresh state, and releases its resources with tb.Cleanup. Open is
	// called once per case, concurrently.
	Open func(tb testing.TB) *Subject

	// Bubble runs a case. For a backend in virtual time, set synctest.Test. Defaults to a direct
	// call of f.
	Bubble func(t *testing.T, f func(t *testing.T))

	// Unit is the unit of time of the cases: their containers sleep, and exit, after a few units.
	// Raise Unit if the backend takes longer than a unit to start or stop a container. Defaults to
	// 100 ms.
	Unit time.Duration

	// Patience is the longest wait for an expected event, and the tolerance of a deadline. Only
	// failing cases wait that long. Defaults to 10 s.
	Patience time.Duration

	// Pod adjusts each pod before a case uses the pod, for example to use the host network. It must
	// not change UID, names and containers. Defaults to no change.
	Pod func(pod *v1.Pod)

	// Refused is a pod with a single container that the backend cannot honour, for a backend with
	// runtime.Checker. Defaults to no checks of refusals.
	Refused *v1.Pod

	// Skip maps the names of skipped cases to the reasons.
	Skip map[string]string
}

// Subject is a backend over a state.
type Subject struct {
	// Runtime is the value under test.
	Runtime runtime.Runtime

	// Reopen drops the Runtime as if its process had been killed with SIGKILL, calls meanwhile, and
	// makes a new Runtime over the same state. If Reopen can prevent further actions of the old
	// value, it does so before it calls meanwhile.
	Reopen func(tb testing.TB, meanwhile func()) runtime.Runtime

	// Reboot is like Reopen after a reboot of the machine: no process is left. nil: the cases about
	// reboots are skipped.
	Reboot func(tb testing.TB) runtime.Runtime

	// Container makes spec behave like b by setting Image and Command. Args, Env and WorkingDir
	// belong to the case. Defaults to Command = Shell(b).
	Container func(b Behaviour, spec *runtime.ContainerSpec)

	// Command returns a command for Exec that behaves like b. Defaults to Shell(b).
	Command func(b Behaviour) []string

	// Logs is an absolute directory for log files, readable by the test.
	Logs string

	// Images are for a backend with runtime.Images. A case without its image is skipped.
	Images Images
}

// Images has references with a tag or digest.
type Images struct {
	// Present is on the node and stays there.
	Present string
	// Absent is not on the node, and cannot be pulled.
	Absent string
	// Pullable can be pulled with Auth.
	Pullable string
	Auth     *runtime.ImageAuth
}

// testCase is a case of the suite. The meaning of a name never changes, so that Harness.Skip stays
// valid.
type testCase struct {
	name string
	run  func(b *bench)
}

// Run runs every case of the suite as a parallel subtest of t.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("runtimetest: Harness.Open is required")
	}
	for name := range h.Skip {
		if !slices.ContainsFunc(cases(), func(c testCase) bool { return c.name == name }) {
			t.Errorf("runtimetest: Harness.Skip names %q, which is no case", name)
		}
	}
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			if reason, ok := h.Skip[c.name]; ok {
				t.Skip(reason)
			}
			t.Parallel()
			h.bubble(t, func(t *testing.T) { runCase(t, h, c) })
		})
	}
}

func (h *Harness) bubble(t *testing.T, f func(t *testing.T)) {
	if h.Bubble == nil {
		f(t)
		return
	}
	h.Bubble(t, f)
}

// runCase runs a case on a fresh subject and cleans up.
func runCase(tb testing.TB, h Harness, c testCase) {
	if h.Unit <= 0 {
		h.Unit = 100 * time.Millisecond
	}
	if h.Patience <= 0 {
		h.Patience = 10 * time.Second
	}
	s := h.Open(tb)
	if s == nil || s.Runtime == nil || s.Logs == "" {
		tb.Fatal("runtimetest: Harness.Open must set Subject.Runtime and Subject.Logs")
	}
	b := &bench{TB: tb, h: h, s: s, rt: s.Runtime}
	tb.Cleanup(b.cleanUp)
	c.run(b)
}

// cases returns the cases of the suite. It is a function, so that the package has no globals.
func cases() []testCase {
	return slices.Concat(
		lifecycleCases(),
		durableCases(),
		stopCases(),
		removeCases(),
		sandboxCases(),
		listCases(),
		outputCases(),
		concurrentCases(),
		watchCases(),
		execCases(),
		streamCases(),
		imageCases(),
		resourceCases(),
		checkCases(),
		rebootCases(),
	)
}

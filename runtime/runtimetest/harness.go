// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// Harness says how to run the suite against one kind of backend.
type Harness struct {
	// Open makes a backend over fresh state. What it acquires it releases with
	// tb.Cleanup. Called once per case, from several goroutines at a time.
	Open func(tb testing.TB) *Subject

	// Bubble runs one case. A backend in virtual time gives synctest.Test.
	// Defaults to calling f directly.
	Bubble func(t *testing.T, f func(t *testing.T))

	// Unit is a short while: what a container of the suite takes to do something
	// unhurried. Defaults to 100 ms.
	Unit time.Duration

	// Patience is how long the suite waits for what must happen, and by how much
	// a deadline may be exceeded. Only a failing case waits that long.
	// Defaults to 10 s.
	Patience time.Duration

	// Pod adjusts each pod before a case uses it (host network, say). It must
	// leave UID, names and containers alone. Defaults to nothing.
	Pod func(pod *v1.Pod)

	// Refused is a pod with one container that the backend cannot honour, for
	// backends that are a runtime.Checker. Defaults to not checking refusals.
	Refused *v1.Pod

	// Skip names cases not to run, each with the reason.
	Skip map[string]string
}

// Subject is one backend over one state.
type Subject struct {
	// Runtime is the value under test.
	Runtime runtime.Runtime

	// Reopen drops the Runtime as if its process had been killed with SIGKILL,
	// calls meanwhile, and makes a new Runtime over the same state. If the old
	// value can be kept from acting any more, that is done before meanwhile.
	Reopen func(tb testing.TB, meanwhile func()) runtime.Runtime

	// Reboot is like Reopen after a reboot of the machine: no process is left.
	// nil: not offered, and the cases about it are skipped.
	Reboot func(tb testing.TB) runtime.Runtime

	// Container makes spec behave like b: it sets Image and Command. Args, Env
	// and WorkingDir are the case's. Defaults to Command = Shell(b).
	Container func(b Behaviour, spec *runtime.ContainerSpec)

	// Command is a command for Exec that behaves like b. Defaults to Shell(b).
	Command func(b Behaviour) []string

	// Logs is an absolute directory for log files that the test can read too.
	Logs string

	// Images are for backends that are a runtime.Images. Cases whose images are
	// not named are skipped.
	Images Images
}

// Images are references that a backend is asked about, each with a tag or digest.
type Images struct {
	// Present is on the node and stays there.
	Present string
	// Absent is not on the node, and cannot be pulled.
	Absent string
	// Pullable can be pulled with Auth.
	Pullable string
	Auth     *runtime.ImageAuth
}

// Case is one thing the suite checks. Its name never changes its meaning, so
// that Harness.Skip stays right.
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

// runCase runs one case on a fresh subject and cleans up after it.
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

// cases lists the suite. A function, so that the package has no globals.
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

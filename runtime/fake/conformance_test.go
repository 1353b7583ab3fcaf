// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/runtime/runtimetest"
)

func TestConformance(t *testing.T) {
	runtimetest.Run(t, runtimetest.Harness{
		Open:   openSubject,
		Bubble: synctest.Test,
		Refused: &v1.Pod{Spec: v1.PodSpec{
			HostPID:    true,
			Containers: []v1.Container{{Name: "main"}},
		}},
	})
}

func openSubject(tb testing.TB) *runtimetest.Subject {
	world, err := fake.NewWorld(fake.WorldOptions{WriteLogs: true})
	require.NoError(tb, err)
	open := func() runtime.Runtime {
		rt, err := fake.New(fake.Options{World: world, Check: refuseHostPID})
		require.NoError(tb, err)
		return rt
	}
	acts := &acts{world: world}
	return &runtimetest.Subject{
		Runtime: open(),
		Reopen: func(_ testing.TB, meanwhile func()) runtime.Runtime {
			meanwhile()
			return open()
		},
		Reboot: func(testing.TB) runtime.Runtime {
			world.Reboot()
			return open()
		},
		Container: acts.container,
		Command:   acts.command,
		Logs:      tb.TempDir(),
	}
}

func refuseHostPID(pod *v1.Pod) error {
	if !pod.Spec.HostPID {
		return nil
	}
	return &runtime.UnsupportedError{Runtime: "fake", Fields: []string{"spec.hostPID"}}
}

// acts gives every behaviour an image, and a script for it.
type acts struct {
	world *fake.World
	mu    sync.Mutex
	known []runtimetest.Behaviour
}

func (a *acts) add(b runtimetest.Behaviour) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = append(a.known, b)
	return fmt.Sprintf("act-%d", len(a.known)-1)
}

func (a *acts) container(b runtimetest.Behaviour, spec *runtime.ContainerSpec) {
	spec.Image = a.add(b)
	a.world.Script(fake.Target{Image: spec.Image}, a.script(b))
}

func (a *acts) command(b runtimetest.Behaviour) []string { return []string{a.add(b)} }

func (a *acts) script(b runtimetest.Behaviour) fake.Script {
	s := fake.Script{
		ExitAfter: b.ExitAfter, ExitCode: b.ExitCode,
		TermAfter: b.TermAfter, TermCode: b.TermCode,
		Output: func(spec runtime.ContainerSpec) []fake.Line { return prints(b, spec) },
		Exec:   a.exec,
		Memory: 1 << 20, CPU: 100,
	}
	if b.CannotStart {
		s.StartErr = errors.New("no such program")
	}
	if b.IgnoreTerm {
		s.TermAfter = fake.Never
	}
	return s
}

func prints(b runtimetest.Behaviour, spec runtime.ContainerSpec) []fake.Line {
	stdout, stderr := b.Output(spec)
	var out []fake.Line
	for _, text := range stdout {
		out = append(out, fake.Line{Text: text})
	}
	for _, text := range stderr {
		out = append(out, fake.Line{Stderr: true, Text: text})
	}
	return out
}

func (a *acts) exec(ctx context.Context, spec runtime.ContainerSpec, cmd []string) fake.ExecResult {
	var n int
	if _, err := fmt.Sscanf(cmd[0], "act-%d", &n); err != nil {
		return fake.ExecResult{Err: err}
	}
	a.mu.Lock()
	b := a.known[n]
	a.mu.Unlock()
	if b.CannotStart {
		return fake.ExecResult{Err: errors.New("no such program")}
	}
	if b.ExitAfter == 0 {
		<-ctx.Done()
	}
	stdout, stderr := b.Output(spec)
	return fake.ExecResult{Stdout: text(stdout), Stderr: text(stderr), ExitCode: int(b.ExitCode)}
}

func text(lines []string) []byte {
	var b []byte
	for _, l := range lines {
		b = append(append(b, l...), '\n')
	}
	return b
}

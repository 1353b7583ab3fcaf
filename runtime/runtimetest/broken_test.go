// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/runtime/stats"
)

// broken is a backend with faults: each func replaces the method of its name.
type broken struct {
	*fake.Runtime
	acts *acts

	run     func(b *broken, ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error)
	stopSB  func(b *broken, ctx context.Context, id runtime.SandboxID) error
	rmSB    func(b *broken, ctx context.Context, id runtime.SandboxID) error
	create  func(b *broken, ctx context.Context, sb runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error)
	start   func(b *broken, ctx context.Context, id runtime.ContainerID) error
	stop    func(b *broken, ctx context.Context, id runtime.ContainerID, grace time.Duration) error
	remove  func(b *broken, ctx context.Context, id runtime.ContainerID) error
	list    func(b *broken, ctx context.Context, opts runtime.ListOptions) ([]*runtime.PodStatus, error)
	podStat func(b *broken, ctx context.Context, uid types.UID) (*runtime.PodStatus, error)
	watch   func(b *broken, ctx context.Context) iter.Seq2[types.UID, error]
	exec    func(b *broken, ctx context.Context, id runtime.ContainerID, cmd []string) ([]byte, []byte, int, error)
	check   func(b *broken, pod *v1.Pod) error
	update  func(b *broken, ctx context.Context, id runtime.ContainerID, want v1.ResourceRequirements) error
	usage   func(b *broken, ctx context.Context, id runtime.ContainerID) (int64, error)
	stats   func(b *broken, ctx context.Context, id runtime.ContainerID) (*stats.Container, error)
	all     func(b *broken, ctx context.Context) ([]stats.Pod, error)
	stream  func(b *broken, u *url.URL, err error) (*url.URL, error) // replaces the returned URL
	imageID func(b *broken, image string) (string, error)
	pull    func(b *broken, ctx context.Context, image string, auth *runtime.ImageAuth) (string, error)
	reopen  func(b *broken) // after a reopen
	reboot  func(b *broken) // instead of a reboot
}

func (b *broken) RunSandbox(ctx context.Context, spec runtime.SandboxSpec) (runtime.SandboxID, error) {
	if b.run != nil {
		return b.run(b, ctx, spec)
	}
	return b.Runtime.RunSandbox(ctx, spec)
}

func (b *broken) StopSandbox(ctx context.Context, id runtime.SandboxID) error {
	if b.stopSB != nil {
		return b.stopSB(b, ctx, id)
	}
	return b.Runtime.StopSandbox(ctx, id)
}

func (b *broken) RemoveSandbox(ctx context.Context, id runtime.SandboxID) error {
	if b.rmSB != nil {
		return b.rmSB(b, ctx, id)
	}
	return b.Runtime.RemoveSandbox(ctx, id)
}

func (b *broken) CreateContainer(ctx context.Context, sb runtime.SandboxID, spec runtime.ContainerSpec) (runtime.ContainerID, error) {
	if b.create != nil {
		return b.create(b, ctx, sb, spec)
	}
	return b.Runtime.CreateContainer(ctx, sb, spec)
}

func (b *broken) StartContainer(ctx context.Context, id runtime.ContainerID) error {
	if b.start != nil {
		return b.start(b, ctx, id)
	}
	return b.Runtime.StartContainer(ctx, id)
}

func (b *broken) StopContainer(ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
	if b.stop != nil {
		return b.stop(b, ctx, id, grace)
	}
	return b.Runtime.StopContainer(ctx, id, grace)
}

func (b *broken) RemoveContainer(ctx context.Context, id runtime.ContainerID) error {
	if b.remove != nil {
		return b.remove(b, ctx, id)
	}
	return b.Runtime.RemoveContainer(ctx, id)
}

func (b *broken) List(ctx context.Context, opts runtime.ListOptions) ([]*runtime.PodStatus, error) {
	if b.list != nil {
		return b.list(b, ctx, opts)
	}
	return b.Runtime.List(ctx, opts)
}

func (b *broken) PodStatus(ctx context.Context, uid types.UID) (*runtime.PodStatus, error) {
	if b.podStat != nil {
		return b.podStat(b, ctx, uid)
	}
	return b.Runtime.PodStatus(ctx, uid)
}

func (b *broken) Watch(ctx context.Context) iter.Seq2[types.UID, error] {
	if b.watch != nil {
		return b.watch(b, ctx)
	}
	return b.Runtime.Watch(ctx)
}

func (b *broken) Exec(ctx context.Context, id runtime.ContainerID, cmd []string) ([]byte, []byte, int, error) {
	if b.exec != nil {
		return b.exec(b, ctx, id, cmd)
	}
	return b.Runtime.Exec(ctx, id, cmd)
}

func (b *broken) CheckPod(pod *v1.Pod) error {
	if b.check != nil {
		return b.check(b, pod)
	}
	return b.Runtime.CheckPod(pod)
}

// acts plays behaviours on a fake.
type acts struct {
	mu    sync.Mutex
	world *fake.World
	known []Behaviour
}

func (a *acts) add(b Behaviour) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known = append(a.known, b)
	return fmt.Sprint(len(a.known) - 1)
}

func (a *acts) get(name string) Behaviour {
	a.mu.Lock()
	defer a.mu.Unlock()
	var n int
	_, _ = fmt.Sscan(name, &n)
	return a.known[n]
}

func (a *acts) container(b Behaviour, spec *runtime.ContainerSpec) {
	spec.Image = a.add(b)
	s := fake.Script{ExitAfter: b.ExitAfter, ExitCode: b.ExitCode, TermAfter: b.TermAfter, TermCode: b.TermCode, Memory: 1 << 20, CPU: 100}
	if b.IgnoreTerm {
		s.TermAfter = fake.Never
	}
	if b.CannotStart {
		s.StartErr = errors.New("no such program")
	}
	s.Output = func(spec runtime.ContainerSpec) (out []fake.Line) {
		stdout, stderr := b.Output(spec)
		for _, text := range stdout {
			out = append(out, fake.Line{Text: text})
		}
		for _, text := range stderr {
			out = append(out, fake.Line{Stderr: true, Text: text})
		}
		return out
	}
	s.Exec = func(ctx context.Context, spec runtime.ContainerSpec, cmd []string) (res fake.ExecResult) {
		b := a.get(cmd[0])
		if b.CannotStart {
			return fake.ExecResult{Err: errors.New("no such program")}
		}
		if b.ExitAfter == 0 {
			<-ctx.Done()
		}
		stdout, stderr := b.Output(spec)
		for _, text := range stdout {
			res.Stdout = append(res.Stdout, text+"\n"...)
		}
		for _, text := range stderr {
			res.Stderr = append(res.Stderr, text+"\n"...)
		}
		res.ExitCode = int(b.ExitCode)
		return res
	}
	a.world.Script(fake.Target{Image: spec.Image}, s)
}

// harness returns the harness of a backend with these faults.
func (b *broken) harness() Harness {
	return Harness{
		Refused: &v1.Pod{Spec: v1.PodSpec{HostPID: true, Containers: []v1.Container{{Name: "main"}}}},
		Open: func(tb testing.TB) *Subject {
			world, err := fake.NewWorld(fake.WorldOptions{WriteLogs: true})
			require.NoError(tb, err)
			b.acts = &acts{world: world}
			over := func(world *fake.World) runtime.Runtime {
				b.Runtime, err = fake.New(fake.Options{World: world, Check: refuseHostPID})
				require.NoError(tb, err)
				next := *b
				return &next
			}
			return &Subject{
				Runtime: over(world),
				Reopen: func(_ testing.TB, meanwhile func()) runtime.Runtime {
					meanwhile()
					next := over(world)
					if b.reopen != nil {
						b.reopen(next.(*broken))
					}
					return next
				},
				Reboot: func(testing.TB) runtime.Runtime {
					next := over(world)
					if b.reboot != nil {
						b.reboot(next.(*broken))
					} else {
						world.Reboot()
					}
					return next
				},
				Container: b.acts.container,
				Command:   func(behave Behaviour) []string { return []string{b.acts.add(behave)} },
				Logs:      tb.TempDir(),
				Images:    Images{Present: "localhost/here:1", Absent: "localhost/nowhere:1", Pullable: "localhost/there:1", Auth: &runtime.ImageAuth{Username: "u", Password: "correct-horse"}},
			}
		},
	}
}

func refuseHostPID(pod *v1.Pod) error {
	if !pod.Spec.HostPID {
		return nil
	}
	return &runtime.UnsupportedError{Runtime: "fake", Fields: []string{"spec.hostPID"}}
}

// recorder stands in for the testing.TB of a case that is meant to fail.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) FailNow()         { goruntime.Goexit() }
func (r *recorder) Skip(args ...any) { r.Errorf("skipped: %v", args); r.FailNow() }
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Context() context.Context {
	return context.Background()
}

// record runs a case against a backend with faults and returns the failures.
func record(t *testing.T, b broken, c testCase) []string {
	t.Helper()
	rec := &recorder{}
	synctest.Test(t, func(t *testing.T) {
		rec.TB = t
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				for _, f := range slices.Backward(rec.cleanups) {
					f()
				}
			}()
			runCase(rec, b.harness(), c)
		}()
		<-done
	})
	return rec.failures
}

// TestEveryCaseSucceeds is the suite on a backend without faults.
func TestEveryCaseSucceeds(t *testing.T) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { require.Empty(t, record(t, broken{}, c)) })
	}
}

// TestEveryCaseCanFail runs each case against a backend that breaks the case's rule.
func TestEveryCaseCanFail(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			for name := range strings.FieldsSeq(m.caught) {
				i := slices.IndexFunc(cases(), func(c testCase) bool { return c.name == name })
				require.GreaterOrEqual(t, i, 0, "%s is no case", name)
				seen[name] = true
				b := broken{}
				m.spoil(&b)
				failures := record(t, b, cases()[i])
				require.NotEmpty(t, failures, "%s did not notice", name)
				t.Logf("%s: %s", name, strings.Join(strings.Fields(failures[0]), " "))
			}
		})
	}
	for _, c := range cases() {
		require.True(t, seen[c.name], "no fault shows that %s can fail", c.name)
	}
}

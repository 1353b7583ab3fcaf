// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

var errBoom = errors.New("boom")

// calls makes each call of the seam, on new things that are there.
func calls(n *node) map[fake.Op]func(context.Context) error {
	sb := n.sandbox("u", 0)
	stopped, removed := n.sandbox("u", 1), n.sandbox("u", 2)
	made, running, gone := n.create(sb, "made", 0), n.run(sb, "running", 0), n.create(sb, "gone", 0)
	return map[fake.Op]func(context.Context) error{
		fake.OpRunSandbox: func(ctx context.Context) error {
			_, err := n.RunSandbox(ctx, sandboxSpec("v", 0))
			return err
		},
		fake.OpStopSandbox:   func(ctx context.Context) error { return n.StopSandbox(ctx, stopped) },
		fake.OpRemoveSandbox: func(ctx context.Context) error { return n.RemoveSandbox(ctx, removed) },
		fake.OpCreateContainer: func(ctx context.Context) error {
			_, err := n.CreateContainer(ctx, sb, runtime.ContainerSpec{Name: "new"})
			return err
		},
		fake.OpStartContainer:  func(ctx context.Context) error { return n.StartContainer(ctx, made) },
		fake.OpStopContainer:   func(ctx context.Context) error { return n.StopContainer(ctx, running, time.Minute) },
		fake.OpRemoveContainer: func(ctx context.Context) error { return n.RemoveContainer(ctx, gone) },
		fake.OpList: func(ctx context.Context) error {
			_, err := n.List(ctx, runtime.ListOptions{})
			return err
		},
		fake.OpPodStatus: func(ctx context.Context) error {
			_, err := n.PodStatus(ctx, "u")
			return err
		},
		fake.OpExec: func(ctx context.Context) error {
			_, _, _, err := n.Exec(ctx, running, []string{"true"})
			return err
		},
		fake.OpUpdateResources: func(ctx context.Context) error {
			return n.UpdateResources(ctx, running, v1.ResourceRequirements{})
		},
		fake.OpMemoryUsage: func(ctx context.Context) error {
			_, err := n.MemoryUsage(ctx, running)
			return err
		},
		fake.OpContainerStats: func(ctx context.Context) error {
			_, err := n.ContainerStats(ctx, running)
			return err
		},
		fake.OpListStats: func(ctx context.Context) error {
			_, err := n.ListStats(ctx)
			return err
		},
		fake.OpExecURL: func(ctx context.Context) error {
			_, err := n.ExecURL(ctx, running, []string{"true"}, runtime.Streams{Stdout: true})
			return err
		},
		fake.OpAttachURL: func(ctx context.Context) error {
			_, err := n.AttachURL(ctx, running, runtime.Streams{Stdout: true})
			return err
		},
		fake.OpPortForwardURL: func(ctx context.Context) error {
			_, err := n.PortForwardURL(ctx, sb, nil)
			return err
		},
		fake.OpWatch: func(ctx context.Context) error {
			for _, err := range n.Watch(ctx) {
				if err != nil {
					return err
				}
				return nil
			}
			return ctx.Err()
		},
	}
}

func TestFaultStrikesEveryCall(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		for op := range calls(n) {
			call := calls(n)[op]
			in := n.inject(fake.Fault{On: fake.Target{Op: op}, Err: errBoom, Latency: time.Second, Nth: 1})
			before := time.Now()
			require.ErrorIs(t, call(t.Context()), errBoom, "%s", op)
			assert.Equal(t, time.Second, time.Since(before), "%s", op)
			require.Equal(t, 1, in.Hits())
			require.NoError(t, call(t.Context()), "%s: a failed call had no effect, and the second one is not struck", op)
			in.Clear()
		}
	})
}

func TestFaultHangsUntilTheContextEnds(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		for op := range calls(n) {
			call := calls(n)[op]
			in := n.inject(fake.Fault{On: fake.Target{Op: op}, HangUntilCtx: true})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			before := time.Now()
			require.ErrorIs(t, call(ctx), context.DeadlineExceeded, "%s", op)
			assert.Equal(t, time.Hour, time.Since(before), "%s", op)
			cancel()
			in.Clear()
			require.NoError(t, call(t.Context()), "%s: the hanging call had no effect", op)
		}
	})
}

func TestFaultLatencyEndsWithTheContext(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		id := n.create(n.sandbox("u", 0), "web", 0)
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer}, Latency: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, n.StartContainer(ctx, id), context.DeadlineExceeded)
		after(time.Hour)
		assert.Equal(t, runtime.StateCreated, n.latest("u", "web").State)
	})
}

func TestFaultDoneButReplyLost(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault fake.Fault
		want  error
	}{
		{"its own error", fake.Fault{}, fake.ErrReplyLost},
		{"the fault's error", fake.Fault{Err: errBoom}, errBoom},
		{"no reply at all", fake.Fault{HangUntilCtx: true}, context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
				tt.fault.DoneButReplyLost = true
				tt.fault.On.Op = fake.OpRunSandbox
				n.inject(tt.fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				id, err := n.RunSandbox(ctx, sandboxSpec("u", 0))
				require.ErrorIs(t, err, tt.want)
				assert.Empty(t, id, "the reply, and with it the ID, is lost")
				assert.NotNil(t, n.status("u").Current(), "but the sandbox is there")

				tt.fault.On.Op = fake.OpStartContainer
				n.inject(tt.fault)
				web := n.create(n.status("u").Current().ID, "web", 0)
				ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.ErrorIs(t, n.StartContainer(ctx, web), tt.want)
				assert.Equal(t, runtime.StateRunning, n.latest("u", "web").State)
			})
		})
	}
}

func TestFaultPicksItsCalls(t *testing.T) {
	start := fake.Target{Op: fake.OpStartContainer}
	for _, tt := range []struct {
		name  string
		fault fake.Fault
		want  string // x: struck; one letter per start, a second apart
	}{
		{"all", fake.Fault{On: start}, "xxxxxx"},
		{"the third", fake.Fault{On: start, Nth: 3}, "--x---"},
		{"two from the third on", fake.Fault{On: start, Nth: 3, Times: 2}, "--xx--"},
		{"the first four", fake.Fault{On: start, Times: 4}, "xxxx--"},
		{"for three seconds", fake.Fault{On: start, For: 3 * time.Second}, "xxx---"},
		{"by container", fake.Fault{On: fake.Target{Op: fake.OpStartContainer, Container: "b"}}, "-x-x-x"},
		{"by image", fake.Fault{On: fake.Target{Image: "image-of-b", Op: fake.OpStartContainer}}, "-x-x-x"},
		{"the second of a container", fake.Fault{On: fake.Target{Op: fake.OpStartContainer, Container: "b"}, Nth: 2}, "---x--"},
		{"by pod", fake.Fault{On: fake.Target{Op: fake.OpStartContainer, Pod: "pod-v"}}, "---xxx"},
		{"by UID", fake.Fault{On: fake.Target{Op: fake.OpStartContainer, UID: "u"}}, "xxx---"},
		{"by a function", fake.Fault{Match: func(c fake.Call) bool { return c.UID == "u" && c.Container == "b" && c.Op == fake.OpStartContainer }}, "-x----"},
		{"another call", fake.Fault{On: fake.Target{Op: fake.OpList}}, "------"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
				var ids []runtime.ContainerID
				for _, uid := range []types.UID{"u", "v"} {
					sb := n.sandbox(uid, 0)
					for i := range 3 {
						ids = append(ids, n.create(sb, string("aba"[i%2]), int32(i)))
					}
				}
				// a b a in pod u, then b a b in pod v.
				ids[3], ids[4], ids[5] = n.create(n.status("v").Current().ID, "b", 9), ids[3], n.create(n.status("v").Current().ID, "b", 10)
				tt.fault.Err = errBoom
				in := n.inject(tt.fault)
				got := ""
				for _, id := range ids {
					if errors.Is(n.StartContainer(t.Context(), id), errBoom) {
						got += "x"
					} else {
						got += "-"
					}
					after(time.Second)
				}
				assert.Equal(t, tt.want, got)
				want := 0
				for _, c := range tt.want {
					if c == 'x' {
						want++
					}
				}
				assert.Equal(t, want, in.Hits())
			})
		})
	}
}

func TestFirstInjectedFaultWins(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		first := n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Err: errBoom})
		second := n.inject(fake.Fault{Err: errors.New("second")})
		_, err := n.PodStatus(t.Context(), "u")
		require.ErrorIs(t, err, errBoom)
		assert.Equal(t, 0, second.Hits())
		first.Clear()
		_, err = n.PodStatus(t.Context(), "u")
		require.ErrorContains(t, err, "second")
	})
}

func TestInjectRefusesFaultsThatCannotBeMeant(t *testing.T) {
	world, err := fake.NewWorld(fake.WorldOptions{})
	require.NoError(t, err)
	for name, f := range map[string]fake.Fault{
		"no effect":             {On: fake.Target{Op: fake.OpList}},
		"negative Nth":          {Err: errBoom, Nth: -1},
		"negative Times":        {Err: errBoom, Times: -1},
		"negative For":          {Err: errBoom, For: -1},
		"negative Latency":      {Latency: -1},
		"not a call":            {On: fake.Target{Op: fake.OpExited}, Err: errBoom},
		"unknown call":          {On: fake.Target{Op: "Start"}, Err: errBoom},
		"unknown lie":           {Lie: 200},
		"a lie told by a start": {On: fake.Target{Op: fake.OpStartContainer}, Lie: fake.Omit},
		"a lie with an error":   {Lie: fake.Omit, Err: errBoom},
	} {
		_, err := world.Inject(f)
		require.Error(t, err, name)
	}
}

// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// machine is a fake runtime with some containers that run.
func machine(t *testing.T) (*fake.Runtime, []runtime.ContainerID) {
	t.Helper()
	rt, err := fake.New(fake.Options{})
	require.NoError(t, err)
	rt.Script(fake.Target{Container: "job"}, fake.Exit(time.Minute, 0))
	var ids []runtime.ContainerID
	for _, pod := range []string{"p1", "p2"} {
		sandbox, err := rt.RunSandbox(t.Context(), runtime.SandboxSpec{UID: types.UID(pod), Namespace: "ns", Name: pod})
		require.NoError(t, err)
		for _, name := range []string{"web", "job", "silent"} {
			spec := runtime.ContainerSpec{Name: name, LogPath: fmt.Sprintf("/logs/%s/%s/0.log", pod, name)}
			if name == "silent" {
				spec.LogPath = ""
			}
			id, err := rt.CreateContainer(t.Context(), sandbox, spec)
			require.NoError(t, err)
			require.NoError(t, rt.StartContainer(t.Context(), id))
			ids = append(ids, id)
		}
	}
	return rt, ids
}

func TestRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, ids := machine(t)
		web := Running(rt, "p1", ids[0])
		require.NoError(t, rt.LoseTrack("p1", "web"))
		got, err := web(t.Context())
		require.NoError(t, err)
		require.True(t, got, "nobody knows that it has ended")
		job := Running(rt, "p1", ids[1])
		for _, want := range []bool{true, false} {
			got, err := job(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, got)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		require.NoError(t, rt.RemoveContainer(t.Context(), ids[1]))
		got, err = job(t.Context())
		require.NoError(t, err)
		require.False(t, got)
		_, err = rt.Inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus}, Err: errors.New("down")})
		require.NoError(t, err)
		_, err = job(t.Context())
		require.ErrorContains(t, err, "down")
	})
}

func TestRunningLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, ids := machine(t)
		list := RunningLogs(rt)
		_, err := rt.Inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus, UID: "p2"}, Times: 1, Err: errors.New("down")})
		require.NoError(t, err)
		first := []Log{{ids[1], "/logs/p1/job/0.log"}, {ids[0], "/logs/p1/web/0.log"}}
		got, err := list(t.Context())
		require.ErrorContains(t, err, "pod p2: down")
		require.ElementsMatch(t, first, got)

		all := append(first, Log{ids[4], "/logs/p2/job/0.log"}, Log{ids[3], "/logs/p2/web/0.log"})
		got, err = list(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, all, got)
		require.Equal(t, 3, rt.Count(fake.Target{Op: fake.OpPodStatus}))
		got, err = list(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, all, got)
		require.Equal(t, 3, rt.Count(fake.Target{Op: fake.OpPodStatus}), "what is known is not asked for again")

		time.Sleep(time.Minute)
		synctest.Wait()
		got, err = list(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, []Log{{ids[0], "/logs/p1/web/0.log"}, {ids[3], "/logs/p2/web/0.log"}}, got, "only what runs")

		_, err = rt.Inject(fake.Fault{On: fake.Target{Op: fake.OpList}, Err: errors.New("down")})
		require.NoError(t, err)
		_, err = list(t.Context())
		require.ErrorContains(t, err, "down")
	})
}

// counted is a runtime that counts changes.
type counted struct {
	*fake.Runtime
	changes uint64
	known   bool
}

func (c *counted) Changes() (uint64, bool) { return c.changes, c.known }

// Logs are listed anew after a change, after a minute, after an error, and while changes are missed.
func TestRunningLogsWithoutChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, ids := machine(t)
		c := &counted{Runtime: rt, known: true}
		list := RunningLogs(c)
		listed := func(want int) {
			t.Helper()
			before := rt.Count(fake.Target{Op: fake.OpList})
			got, err := list(t.Context())
			require.NoError(t, err)
			require.Len(t, got, 4)
			require.Equal(t, want, rt.Count(fake.Target{Op: fake.OpList})-before)
		}
		_, err := rt.Inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus, UID: "p2"}, Times: 1, Err: errors.New("down")})
		require.NoError(t, err)
		_, err = list(t.Context())
		require.ErrorContains(t, err, "down")
		listed(1)
		listed(0)
		c.changes++
		listed(1)
		listed(0)
		c.known = false
		listed(1)
		listed(1)
		c.known = true
		time.Sleep(59 * time.Second)
		synctest.Wait()
		listed(0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got, err := list(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, []Log{{ids[0], "/logs/p1/web/0.log"}, {ids[3], "/logs/p2/web/0.log"}}, got, "the jobs have ended")
	})
}

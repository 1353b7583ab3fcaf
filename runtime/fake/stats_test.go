// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

func TestStats(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		n.Script(fake.Target{}, fake.Script{Memory: 100, CPU: 1500})
		sb := n.sandbox("u", 0)
		var ids []runtime.ContainerID
		for _, name := range []string{"b", "a", "made"} {
			id, err := n.CreateContainer(t.Context(), sb, runtime.ContainerSpec{Name: name})
			require.NoError(t, err)
			ids = append(ids, id)
		}
		require.NoError(t, n.StartContainer(t.Context(), ids[0]))
		time.Sleep(time.Second)
		require.NoError(t, n.StartContainer(t.Context(), ids[1]))
		time.Sleep(2 * time.Second)

		st, err := n.ContainerStats(t.Context(), ids[0])
		require.NoError(t, err)
		require.Equal(t, uint64(4500*time.Millisecond), st.CPU.UsageNanoseconds)
		require.Equal(t, time.Now(), st.CPU.At)
		pods, err := n.ListStats(t.Context())
		require.NoError(t, err)
		require.Len(t, pods, 1)
		require.Equal(t, sb, pods[0].Sandbox)
		require.Equal(t, uint64(7500*time.Millisecond), pods[0].CPU.UsageNanoseconds)
		require.Equal(t, uint64(200), pods[0].Memory.WorkingSet)
		require.Len(t, pods[0].Containers, 2)
		require.Equal(t, "a", pods[0].Containers[0].Name)

		_, err = n.ContainerStats(t.Context(), ids[2])
		require.ErrorContains(t, err, "created, not running")
		require.NoError(t, n.StopSandbox(t.Context(), sb))
		pods, err = n.ListStats(t.Context())
		require.NoError(t, err)
		require.Empty(t, pods)
		_, err = n.Inject(fake.Fault{On: fake.Target{Op: fake.OpListStats}, Err: errors.New("no")})
		require.NoError(t, err)
		_, err = n.ListStats(t.Context())
		require.ErrorContains(t, err, "no")
	})
}

func TestStreamURLs(t *testing.T) {
	inBubble(t, fake.WorldOptions{}, func(t *testing.T, n *node) {
		sb := n.sandbox("u", 0)
		id, err := n.CreateContainer(t.Context(), sb, runtime.ContainerSpec{Name: "c"})
		require.NoError(t, err)
		out := runtime.Streams{Stdout: true}
		_, err = n.ExecURL(t.Context(), id, []string{"ls"}, out)
		require.ErrorContains(t, err, "created, not running")
		require.NoError(t, n.StartContainer(t.Context(), id))
		u, err := n.ExecURL(t.Context(), id, []string{"ls"}, out)
		require.NoError(t, err)
		require.Equal(t, "fake://fake/exec/"+id.ID+"/1", u.String())
		u, err = n.AttachURL(t.Context(), id, out)
		require.NoError(t, err)
		require.Equal(t, "fake://fake/attach/"+id.ID+"/2", u.String())
		u, err = n.PortForwardURL(t.Context(), sb, nil)
		require.NoError(t, err)
		require.Equal(t, "fake://fake/port-forward/"+string(sb)+"/3", u.String())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = n.AttachURL(ctx, id, out)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, n.StopSandbox(t.Context(), sb))
		_, err = n.PortForwardURL(t.Context(), sb, nil)
		require.ErrorContains(t, err, "not ready")
	})
}

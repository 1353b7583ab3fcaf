// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// A pod survives a restart of containerd, and the same Backend works again afterwards.
func TestContainerdIsKilled(t *testing.T) {
	t.Parallel()
	c := containerdtest.Start(t, containerdtest.Options{})
	n := newNodeOn(t, c, cri.Options{})
	p := pod("outlives", "trap 'exit 5' TERM; sleep 1000 & wait")
	p.Spec.HostNetwork = true
	id := n.start(p)

	var broken chan error
	if w, ok := n.rt.(runtime.Watcher); ok {
		broken = make(chan error, 1)
		watching := make(chan struct{})
		go func() {
			first := true
			for _, err := range w.Watch(t.Context()) {
				if first {
					close(watching)
				}
				if first = false; err != nil {
					broken <- err
				}
			}
		}()
		<-watching
	}
	require.NoError(t, c.Kill())
	if broken != nil {
		assert.ErrorIs(t, <-broken, cri.ErrUnavailable, "a watch says that it broke")
	}
	began := time.Now()
	_, err := n.rt.PodStatus(t.Context(), p.UID)
	require.ErrorIs(t, err, cri.ErrUnavailable)
	assert.ErrorIs(t, n.rt.StopContainer(t.Context(), id, time.Minute), cri.ErrUnavailable)
	assert.Less(t, time.Since(began), 30*time.Second, "nobody waits for what is down")

	require.NoError(t, c.Restart(t.Context()))
	back := time.Now()
	var st *runtime.PodStatus
	for err != nil && time.Since(back) < 5*time.Second {
		st, err = n.rt.PodStatus(t.Context(), p.UID)
	}
	require.NoError(t, err)
	require.NotNil(t, st.Current())
	assert.Equal(t, runtime.StateRunning, st.Active("main").State)
	assert.Equal(t, id, st.Active("main").ID)
	require.NoError(t, n.rt.StopContainer(t.Context(), id, time.Minute))
	assert.EqualValues(t, 5, n.ended(p).ExitCode)
}

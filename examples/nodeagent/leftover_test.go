// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// The agent is killed while containerd starts a container, and containerd forgets the task. The pod
// recovers without help, and no container runs twice at a time.
func TestAPodOfWhichContainerdForgotATask(t *testing.T) {
	t.Parallel()
	c := containerdtest.Start(t, containerdtest.Options{})
	p := newProxy(t, c.Socket)
	s := newStation(t, on(p.Endpoint(), c))
	t.Cleanup(p.Release)
	s.start()
	starting := p.Hold("StartContainer", "")
	manifest, pids := s.service("web", forever)
	s.write("web.yaml", manifest)
	waitCaught(s, starting)
	containers := s.containersOf(c)
	require.Len(s, containers, 1)
	s.kill()
	_, err := c.Ctr(t.Context(), "tasks", "start", "--detach", "--null-io", containers[0].GetId())
	require.NoError(s, err)
	forgotten := s.waitStarts(pids, 1)[0]
	p.Release()

	s.start()
	successor := s.waitStarts(pids, 2)[1]
	require.False(s, alive(forgotten))
	s.waitPhase("web-n", v1.PodRunning)
	require.True(s, alive(successor))
	require.Equal(s, []int{forgotten, successor}, s.started(pids))
	require.Len(s, s.log.about("deleted the task that containerd had left behind", ""), 1)
	for _, left := range s.containersOf(c) {
		require.NotEqual(s, containers[0].GetId(), left.GetId())
	}
}

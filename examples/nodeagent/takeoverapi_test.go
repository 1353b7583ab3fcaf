// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
)

// A pod of an API server that a kubelet has started goes on under this agent, in the same containers.
// After the end of the agent the kubelet finds what it left.
func TestAPodOfAKubeletAndItsAPIServerIsTakenOver(t *testing.T) {
	instance := containerd.Get(t)
	c := newClustered(t, on(instance.Endpoint(), instance))
	pids := c.dir + "/kept.pids"
	pod := c.bindPod("kept", func(pod *v1.Pod) {
		pod.Labels = map[string]string{"app": "web"}
		pod.Spec.HostNetwork, pod.Spec.HostPID = true, true
		pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", "exit 1"} // the kubelet's instance runs
	})
	f := newForeignPod(c.station, instance, pod, "api")
	id := f.runs(3, containermeta.Hash(&pod.Spec.Containers[0]), "echo $$ >> "+pids+"; "+forever)
	pid := c.waitStarts(pids, 1)[0]
	before := container(c.station, f)

	for range 2 { // the second time after a start of the kubelet that changed nothing
		c.start(append(c.flags, "--keep-pods")...)
		told := c.told("kept", "is told", func(p *v1.Pod) bool { return running(p) && len(p.Status.ContainerStatuses) == 1 })
		require.Equal(t, "containerd://"+id, told.Status.ContainerStatuses[0].ContainerID)
		require.EqualValues(t, 3, told.Status.ContainerStatuses[0].RestartCount)
		c.interrupt()
		require.True(t, alive(pid))
		require.Equal(t, before, container(c.station, f))
		require.Len(t, c.sandboxesOf(instance), 1)
	}
	c.start(c.flags...)
	require.NoError(t, c.api.Delete(t.Context(), "kept", metav1.DeleteOptions{}))
	c.gone("kept")
	require.False(t, alive(pid))
	c.eventually("nothing is left", func() bool { return len(c.leftovers(instance)) == 0 })
}

// container returns the only container of the pod, with labels and annotations.
func container(s *station, f *foreign) *cri.Container {
	s.Helper()
	all := s.containersOf(f.containerd)
	require.Len(s, all, 1)
	return all[0]
}

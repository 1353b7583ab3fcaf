// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
)

// The kubelet (1.36) can take the pods back: labels and annotations of sandboxes and containers are
// complete, under the kubelet's names. The names are written out here.
func TestWhatThisAgentMakesIsWhatAnotherCanTakeOver(t *testing.T) {
	c := containerd.Get(t)
	s := newStation(t, on(c.Endpoint(), c))
	text, pids := s.service("mine", forever)
	s.write("mine.yaml", text)
	s.start()
	s.waitStarts(pids, 1)
	pod := s.waitPhase("mine-n", v1.PodRunning)
	uid := string(pod.UID)

	sandboxes, containers := s.sandboxesOf(c), s.containersOf(c)
	require.Len(t, sandboxes, 1)
	require.Len(t, containers, 1)
	labels := map[string]string{
		"io.kubernetes.pod.name":      "mine-n",
		"io.kubernetes.pod.namespace": "default",
		"io.kubernetes.pod.uid":       uid,
	}
	require.Equal(t, labels, sandboxes[0].Labels)
	require.Equal(t, "mine-n", sandboxes[0].Metadata.Name)
	require.Equal(t, "default", sandboxes[0].Metadata.Namespace)
	require.Equal(t, uid, sandboxes[0].Metadata.Uid)
	require.Zero(t, sandboxes[0].Metadata.Attempt)
	require.Equal(t, "file", sandboxes[0].Annotations["kubernetes.io/config.source"])
	require.NotEmpty(t, sandboxes[0].Annotations["kubernetes.io/config.seen"])
	require.NotEmpty(t, sandboxes[0].Annotations["kubernetes.io/config.hash"])

	labels["io.kubernetes.container.name"] = "main"
	found := containers[0]
	require.Equal(t, labels, found.Labels)
	require.Equal(t, "main", found.Metadata.Name)
	require.Zero(t, found.Metadata.Attempt)
	require.Equal(t, containermeta.Hash(&pod.Spec.Containers[0]), found.Annotations["io.kubernetes.container.hash"])
	require.Equal(t, "0", found.Annotations["io.kubernetes.container.restartCount"])
	require.Equal(t, "/dev/termination-log", found.Annotations["io.kubernetes.container.terminationMessagePath"])
	require.Equal(t, "File", found.Annotations["io.kubernetes.container.terminationMessagePolicy"])
	require.Equal(t, "2", found.Annotations["io.kubernetes.pod.terminationGracePeriod"])

	status, err := c.Runtime.ContainerStatus(t.Context(), &cri.ContainerStatusRequest{ContainerId: found.Id})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(s.root, "logs", "default_mine-n_"+uid, "main", "0.log"), status.Status.LogPath)
	s.remove("mine.yaml")
	s.eventually("nothing is left", func() bool { return len(s.leftovers(c)) == 0 })
}

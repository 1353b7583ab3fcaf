// SPDX-License-Identifier: Apache-2.0

//go:build !noimages && !noimagearchives && !nokinds && !nolocalapi

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	oci "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// An agent that is not root, whose user has subordinate IDs, runs an image whose program starts as root and changes its
// user. Another agent takes the pod over, and removes the pod with the other user's files.
func TestUsersOfImages(t *testing.T) {
	if _, err := exec.LookPath("newuidmap"); err != nil {
		t.Skip(err)
	}
	ids := filepath.Join(t.TempDir(), "ids")
	require.NoError(t, os.WriteFile(ids, []byte("65534:400000:1000\n"), 0o644))
	n := newImageNode(t, "/etc/subuid", ids, "/etc/subgid", ids)
	if n == nil {
		return
	}
	n.save("registry.example/server:1", n.image(oci.Config{Cmd: []string{"served"}}, nil, nil))
	n.write("server.yaml", `apiVersion: v1
kind: Pod
metadata: {name: server}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 2
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - name: main
    image: registry.example/server:1
    env: [{name: DATA, value: /data}, {name: WRITE, value: /data/private /data}]
    volumeMounts: [{name: data, mountPath: /data}]
`)
	flags := []string{"--images", "--image-archives", n.archives}
	n.start(flags...)
	pod := n.waitPhase("server-n", v1.PodRunning)
	n.eventually("its log is complete", func() bool { return strings.HasSuffix(n.text("server-n"), "waits\n") })
	assert.Equal(t, "become <nil>\nargs [served]\nids 33 44\ndir /\nwrite /data/private <nil>\nwrite /data <nil>\nwaits\n", n.text("server-n"))
	private := filepath.Join(n.root, "pods", string(pod.UID), "volumes/kubernetes.io~empty-dir/data/private")
	_, err := os.ReadDir(private)
	require.ErrorIs(t, err, os.ErrPermission)

	n.kill()
	n.start(flags...)
	assert.Equal(t, mainOf(pod).ContainerID, mainOf(n.waitPhase("server-n", v1.PodRunning)).ContainerID)
	n.remove("server.yaml")
	n.eventually("the pod and its volume are gone", func() bool {
		_, err := os.Stat(filepath.Join(n.root, "pods", string(pod.UID)))
		return os.IsNotExist(err)
	})
	n.eventually("its records are gone", func() bool {
		left, err := os.ReadDir(filepath.Join(n.root, "process"))
		return err == nil && len(left) == 0
	})
	n.interrupt()
	assert.Empty(t, n.processes())
}

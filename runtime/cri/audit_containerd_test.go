// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// cutNode is a node whose pod calls are cut short.
type cutNode struct {
	*node
	c *containerdtest.Instance
}

// runCut makes a sandbox with a container. The client dies at a random instant.
func (n *cutNode) runCut(round int, lifetime time.Duration) {
	ctx, cancel := context.WithTimeout(n.Context(), lifetime)
	defer cancel()
	uid := fmt.Sprintf("uid-%d", round)
	labels := map[string]string{
		containermeta.LabelPodUID: uid, containermeta.LabelPodNamespace: "default", containermeta.LabelPodName: "cut", containermeta.LabelContainerName: "c",
	}
	config := &api.PodSandboxConfig{
		Labels:       labels,
		Metadata:     &api.PodSandboxMetadata{Name: "cut", Namespace: "default", Uid: uid},
		LogDirectory: filepath.Join(n.root, "logs", "default_cut_"+uid),
		Linux: &api.LinuxPodSandboxConfig{SecurityContext: &api.LinuxSandboxSecurityContext{
			NamespaceOptions: &api.NamespaceOption{Network: api.NamespaceMode_NODE},
		}},
	}
	sandbox, err := n.c.Runtime.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Config: config})
	if err != nil {
		return
	}
	container, err := n.c.Runtime.CreateContainer(ctx, &api.CreateContainerRequest{
		PodSandboxId: sandbox.GetPodSandboxId(), SandboxConfig: config, Config: &api.ContainerConfig{
			Metadata: &api.ContainerMetadata{Name: "c"}, Image: &api.ImageSpec{Image: containerdtest.BusyboxImage},
			Command: []string{"sleep", "1000"}, LogPath: "c.log", Labels: labels,
		},
	})
	if err == nil {
		_, _ = n.c.Runtime.StartContainer(ctx, &api.StartContainerRequest{ContainerId: container.GetContainerId()})
	}
}

// removeListed removes all objects listed by the CRI, through the backend. The result is true if
// the list was empty.
func (n *cutNode) removeListed() bool {
	n.Helper()
	sandboxes, err := n.c.Runtime.ListPodSandbox(n.Context(), &api.ListPodSandboxRequest{})
	require.NoError(n, err)
	for _, s := range sandboxes.GetItems() {
		_ = n.rt.StopSandbox(n.Context(), runtime.SandboxID(s.GetId()))
		_ = n.rt.RemoveSandbox(n.Context(), runtime.SandboxID(s.GetId()))
	}
	return len(sandboxes.GetItems()) == 0
}

// settle waits until no leftover of pods exists, or the leftovers stay for seconds.
func (n *cutNode) settle() {
	n.Helper()
	n.await(n.removeListed)
	for range 20 {
		if n.removeListed() && len(n.traces()) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// The faults themselves: the client of a pod's calls, or containerd, is killed at any instant. The
// auditor finds and ends the leftovers containerd cannot end by any call: 10 s later no process, no
// folder and no mount is left.
func TestLeftoversOfCutCalls(t *testing.T) {
	if os.Getenv("KEELSON_E2E") != "1" {
		t.Skip("takes minutes: runs with KEELSON_E2E=1, as in make e2e")
	}
	for name, kills := range map[string]bool{"client": false, "containerd": true} {
		t.Run(name, func(t *testing.T) {
			c := containerdtest.Start(t, containerdtest.Options{})
			n := &cutNode{newNodeOn(t, c, cri.Options{}), c}
			collected := map[runtime.LeftoverKind]int{}
			for round := range 120 {
				lifetime := time.Millisecond + rand.N(200*time.Millisecond)
				if kills {
					done := make(chan struct{})
					go func() { defer close(done); time.Sleep(lifetime); assert.NoError(t, c.Kill()) }()
					n.runCut(round, time.Minute)
					<-done
					require.NoError(t, c.Restart(t.Context()))
				} else {
					n.runCut(round, lifetime)
				}
				n.settle()
				deadline := time.Now().Add(20 * time.Second)
				for left := n.traces(); len(left) > 0; left = n.traces() {
					require.True(t, time.Now().Before(deadline), "round %d: left are %v", round, left)
					n.removeListed() // a call may have completed without its client
					found, err := n.rt.(runtime.Auditor).Leftovers(t.Context())
					require.NoError(t, err)
					for _, l := range found {
						collected[l.Kind]++
						assert.True(t, l.Ours, "%s: %s", l, l.Why)
						require.NoError(t, n.rt.(runtime.Auditor).Collect(t.Context(), l), "%s: %s", l, l.Why)
					}
					time.Sleep(100 * time.Millisecond)
				}
			}
			t.Logf("collected %v", collected)
		})
	}
}

// traces are the processes, folders and mounts of pods.
func (n *cutNode) traces() (left []string) {
	pids := n.c.PIDs()
	for _, pid := range append(pids.Shims, pids.Containers...) {
		left = append(left, fmt.Sprint("process ", pid))
	}
	dir := filepath.Dir(n.c.Socket)
	for _, pattern := range []string{
		"state/io.containerd.runtime.v2.task/k8s.io/*", "root/io.containerd.runtime.v2.task/k8s.io/*", "runc/k8s.io/*",
		"state/io.containerd.grpc.v1.cri/*/*",
	} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(n, err)
		left = append(left, paths...)
	}
	return left
}

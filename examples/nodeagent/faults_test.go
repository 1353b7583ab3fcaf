// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// on returns the backend for the container runtime c at endpoint.
func on(endpoint string, c *containerdtest.Instance) backend {
	b := backends["containerd-hostnet"]
	b.flags = func(*testing.T) []string {
		return []string{"--container-runtime-endpoint", endpoint, "--keep-pods=false", keepImages}
	}
	b.left = func(s *station) int { return len(s.sandboxesOf(c)) }
	return b
}

// slowly skips t unless KEELSON_E2E is 1, because these tests are slow together.
func slowly(t *testing.T) {
	t.Helper()
	if os.Getenv("KEELSON_E2E") != "1" {
		t.Skip("takes long: runs with KEELSON_E2E=1, as in make e2e")
	}
}

func (s *station) sandboxesOf(c *containerdtest.Instance) []*cri.PodSandbox {
	s.Helper()
	r, err := c.Runtime.ListPodSandbox(s.Context(), &cri.ListPodSandboxRequest{})
	require.NoError(s, err)
	return r.Items
}

func (s *station) containersOf(c *containerdtest.Instance) []*cri.Container {
	s.Helper()
	r, err := c.Runtime.ListContainers(s.Context(), &cri.ListContainersRequest{})
	require.NoError(s, err)
	return r.Containers
}

// health returns the result of /healthz within a second.
func (s *station) health() error { return s.ask("/healthz", time.Second) }

// ask returns an error if the agent does not answer ok in time.
func (s *station) ask(path string, within time.Duration) error {
	client := http.Client{Timeout: within}
	r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, text)
	}
	return err
}

// mainOf returns the status of a service's container.
func mainOf(pod v1.Pod) v1.ContainerStatus {
	if len(pod.Status.ContainerStatuses) != 1 {
		return v1.ContainerStatus{}
	}
	return pod.Status.ContainerStatuses[0]
}

// instance is a running service.
type instance struct {
	name, file, pids string
	pid              int
	container        string // ID
}

// services writes n manifests and waits until their pods run.
func (s *station) services(prefix string, n int) []*instance {
	s.Helper()
	runs := make([]*instance, n)
	for i := range runs {
		name := fmt.Sprintf("%s%d", prefix, i)
		manifest, pids := s.service(name, forever)
		s.write(name+".yaml", manifest)
		runs[i] = &instance{name: name + "-n", file: name + ".yaml", pids: pids}
	}
	for _, r := range runs {
		pod := s.waitPhase(r.name, v1.PodRunning)
		r.pid = s.waitStarts(r.pids, 1)[0]
		r.container = idOf(pod)
		require.Zero(s, mainOf(pod).RestartCount, r.name)
	}
	return runs
}

func idOf(pod v1.Pod) string {
	_, id, _ := strings.Cut(mainOf(pod).ContainerID, "://")
	return id
}

// checkUntouched fails unless the same process still runs in the same container with the status
// running.
func (s *station) checkUntouched(r *instance) {
	s.Helper()
	pod := s.pods()[r.name]
	require.Equal(s, []int{r.pid}, s.started(r.pids), r.name)
	require.True(s, alive(r.pid), r.name)
	require.True(s, isReady(pod), r.name)
	require.Equal(s, r.container, idOf(pod), r.name)
	require.Zero(s, mainOf(pod).RestartCount, r.name)
}

// checkLogDoesNotRepeatItself fails if a pod has the same warning or error twice in succession since
// the mark, or more than four that differ only in their errors. Entries without a pod count as
// entries of one pod. The socket of a runtime that restarts refuses connections, is missing, and
// refuses again: these are three different entries.
func (s *station) checkLogDoesNotRepeatItself(mark int) {
	s.Helper()
	const most = 4
	type kind struct{ message, pod string }
	errs := make(map[kind][]string)
	for line := range strings.Lines(s.log.String()[mark:]) {
		var entry struct{ Level, Msg, Pod, PodUID, Error string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Level != "warn" && entry.Level != "error" {
			continue
		}
		k := kind{entry.Msg, entry.Pod + entry.PodUID}
		errs[k] = append(errs[k], entry.Error)
	}
	for k, said := range errs {
		require.Len(s, slices.Compact(slices.Clone(said)), len(said), "the log repeats %q of %q: %q", k.message, k.pod, said)
		require.LessOrEqual(s, len(said), most, "the log says %q of %q too often: %q", k.message, k.pod, said)
	}
}

// resident returns the agent's resident memory in KiB.
func (s *station) resident() int {
	s.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.agent.Process.Pid))
	require.NoError(s, err)
	_, rest, ok := strings.Cut(string(data), "VmRSS:")
	require.True(s, ok)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(s, err)
	return kib
}

// leftovers returns remains of pods in the runtime and on the disk.
func (s *station) leftovers(c *containerdtest.Instance) []string {
	s.Helper()
	var left []string
	for _, x := range s.containersOf(c) {
		left = append(left, "container "+x.GetLabels()["io.kubernetes.pod.name"])
	}
	for _, x := range s.sandboxesOf(c) {
		left = append(left, "sandbox "+x.GetMetadata().GetName())
	}
	for _, pattern := range []string{"logs/*", "pods/*", "keelson/*/*"} {
		paths, err := filepath.Glob(filepath.Join(s.root, pattern))
		require.NoError(s, err)
		left = append(left, paths...)
	}
	return left
}

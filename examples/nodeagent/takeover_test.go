// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/internal/containermeta"
	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// foreign is a pod as created by the kubelet. Labels, annotations and log paths are written out
// here, independently of the packages under test.
type foreign struct {
	*station
	containerd *containerdtest.Instance
	pod        *v1.Pod
	config     *cri.PodSandboxConfig
	sandbox    string
}

// newForeign creates the sandbox for the pod of a manifest file, which may not exist yet.
func newForeign(s *station, c *containerdtest.Instance, file, text string) *foreign {
	s.Helper()
	origin := manifest.Origin{Kind: manifest.OriginFile, Location: filepath.Join(s.manifests, file)}
	pod, err := (&manifest.Decoder{NodeName: "n"}).Pod([]byte(text), origin)
	require.NoError(s, err)
	return newForeignPod(s, c, pod, "file")
}

// newForeignPod creates the sandbox for a pod from a source.
func newForeignPod(s *station, c *containerdtest.Instance, pod *v1.Pod, source string) *foreign {
	s.Helper()
	f := &foreign{station: s, containerd: c, pod: pod}
	logs := filepath.Join(s.root, "logs", pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
	require.NoError(s, os.MkdirAll(logs, 0o755))
	f.config = &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: pod.Name, Uid: string(pod.UID), Namespace: pod.Namespace},
		LogDirectory: logs,
		Labels:       f.labels(),
		Annotations: map[string]string{
			"kubernetes.io/config.source": source,
			"kubernetes.io/config.seen":   time.Now().Format(time.RFC3339Nano),
			"kubernetes.io/config.hash":   string(pod.UID),
		},
		Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: onHost()}},
	}
	r, err := c.Runtime.RunPodSandbox(s.Context(), &cri.RunPodSandboxRequest{Config: f.config})
	require.NoError(s, err)
	f.sandbox = r.PodSandboxId
	return f
}

func onHost() *cri.NamespaceOption {
	return &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_NODE, Ipc: cri.NamespaceMode_POD}
}

func (f *foreign) labels() map[string]string {
	return map[string]string{
		"io.kubernetes.pod.name":      f.pod.Name,
		"io.kubernetes.pod.namespace": f.pod.Namespace,
		"io.kubernetes.pod.uid":       string(f.pod.UID),
	}
}

// runs starts an instance of the pod's container and returns its ID.
func (f *foreign) runs(count int, hash, script string) string {
	f.Helper()
	labels := f.labels()
	maps.Copy(labels, map[string]string{"io.kubernetes.container.name": "main"})
	number := strconv.Itoa(count)
	require.NoError(f, os.MkdirAll(filepath.Join(f.config.LogDirectory, "main"), 0o755))
	created, err := f.containerd.Runtime.CreateContainer(f.Context(), &cri.CreateContainerRequest{
		PodSandboxId: f.sandbox, SandboxConfig: f.config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "main", Attempt: uint32(count)},
			Image:    &cri.ImageSpec{Image: containerdtest.BusyboxImage},
			Command:  []string{"/bin/sh", "-c", script},
			Labels:   labels,
			Annotations: map[string]string{
				"io.kubernetes.container.hash":                     hash,
				"io.kubernetes.container.restartCount":             number,
				"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
				"io.kubernetes.container.terminationMessagePolicy": "File",
				"io.kubernetes.pod.terminationGracePeriod":         "2",
			},
			LogPath: filepath.Join("main", number+".log"),
			Mounts:  []*cri.Mount{{HostPath: f.dir, ContainerPath: f.dir}},
			Linux:   &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: onHost()}},
		},
	})
	require.NoError(f, err)
	_, err = f.containerd.Runtime.StartContainer(f.Context(), &cri.StartContainerRequest{ContainerId: created.ContainerId})
	require.NoError(f, err)
	return created.ContainerId
}

// Pods started by another agent, such as the kubelet, go on under this agent.
func TestPodsOfAnotherAgentAreTakenOver(t *testing.T) {
	c := containerd.Get(t)
	s := newStation(t, on(c.Endpoint(), c))
	kept, keptPIDs := s.service("kept", forever)
	changed, changedPIDs := s.service("changed", forever)
	script := func(pids string) string { return "echo $$ >> " + pids + "; " + forever }

	f := newForeign(s, c, "kept.yaml", kept)
	hash := containermeta.Hash(&f.pod.Spec.Containers[0])
	f.runs(1, hash, "echo earlier; exit 3")
	s.eventually("the first instance has ended", func() bool { return s.running(c, f.sandbox) == 0 })
	id := f.runs(2, hash, script(keptPIDs))
	pid := s.waitStarts(keptPIDs, 1)[0]
	g := newForeign(s, c, "changed.yaml", changed)
	old := g.runs(0, "abad1dea", script(changedPIDs))
	s.waitStarts(changedPIDs, 1)

	s.write("kept.yaml", kept)
	s.write("changed.yaml", changed)
	s.start()
	pod := s.waitPhase("kept-n", v1.PodRunning)
	require.Equal(t, f.pod.UID, pod.UID)
	require.Equal(t, id, idOf(pod))
	require.EqualValues(t, 2, mainOf(pod).RestartCount)
	require.NotNil(t, mainOf(pod).LastTerminationState.Terminated)
	require.EqualValues(t, 3, mainOf(pod).LastTerminationState.Terminated.ExitCode)

	s.Log("one whose definition was another is restarted, in its sandbox")
	s.waitStarts(changedPIDs, 2)
	s.eventually("it runs", func() bool {
		pod := s.pods()["changed-n"]
		return isReady(pod) && idOf(pod) != old && mainOf(pod).RestartCount == 1
	})
	require.Len(t, s.sandboxesOf(c), 2, "no other sandboxes were made")
	require.Equal(t, []int{pid}, s.started(keptPIDs), "never restarted")
	require.True(t, alive(pid))

	s.Log("its restart goes on counting")
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	s.eventually("it is restarted", func() bool {
		pod := s.pods()["kept-n"]
		return isReady(pod) && mainOf(pod).RestartCount == 3
	})
	require.FileExists(t, filepath.Join(f.config.LogDirectory, "main", "3.log"))

	s.remove("kept.yaml")
	s.remove("changed.yaml")
	s.eventually("nothing is left", func() bool { return len(s.leftovers(c)) == 0 })
}

// running counts the running containers of a sandbox.
func (s *station) running(c *containerdtest.Instance, sandbox string) int {
	s.Helper()
	n := 0
	for _, x := range s.containersOf(c) {
		if x.PodSandboxId == sandbox && x.State == cri.ContainerState_CONTAINER_RUNNING {
			n++
		}
	}
	return n
}

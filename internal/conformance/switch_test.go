// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/apiservertest"
)

// switchPods are pods whose restart would be noticed: a pod with a network, volumes, probes, an init
// container and a sidecar, a pod that was restarted once, and a pod that must not run again.
const switchPods = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: prepare, image: "localhost/busybox:1", command: [sh, -c, "echo prepared >> /scratch/init"], volumeMounts: [{name: scratch, mountPath: /scratch}]}
  - {name: helper, image: "localhost/busybox:1", restartPolicy: Always, command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.2; done"]}
  containers:
  - name: main
    image: localhost/busybox:1
    command: [sh, -c, "mkdir -p /www; trap 'exit 0' TERM; httpd -p 80 -h /www; echo started; while :; do sleep 0.2; done"]
    readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 1}
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
    startupProbe: {exec: {command: ["true"]}, periodSeconds: 1}
    volumeMounts: [{name: settings, mountPath: /settings}, {name: scratch, mountPath: /scratch}]
  volumes: [{name: settings, configMap: {name: settings}}, {name: scratch, emptyDir: {medium: Memory}}]
---
apiVersion: v1
kind: Pod
metadata: {name: restarted}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: localhost/busybox:1
    command: [sh, -c, "[ -e /scratch/again ] && exec sleep 100000; touch /scratch/again; exit 3"]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumes: [{name: scratch, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: completed}
spec:
  restartPolicy: OnFailure
  containers: [{name: main, image: "localhost/busybox:1", command: [sh, -c, "echo done"]}]
`

// switched is a cluster whose node changes its agent.
type switched struct {
	*testing.T
	*cluster
}

// newSwitched starts a cluster in a mount namespace, or skips the test. The test returns if the
// result is nil: then the test has run in another process.
func newSwitched(t *testing.T, first string) *switched {
	programs, coredns := os.Getenv(apiservertest.DirVariable), os.Getenv(corednsVariable)
	if _, err := os.Stat(filepath.Join(programs, "kubelet")); err != nil || coredns == "" || os.Geteuid() != 0 {
		t.Skip("needs root, the kubelet and CoreDNS: KEELSON_APISERVER_DIR=$(e2e/conformance.sh) KEELSON_COREDNS=$(e2e/program.sh coredns)")
	}
	args := os.Args
	t.Cleanup(func() { os.Args = args })
	os.Args = []string{args[0], "-test.run=^" + t.Name() + "$", "-test.v"}
	inside, err := enterNamespace(t.Context(), false)
	require.NoError(t, err)
	if !inside {
		return nil
	}
	dir := t.TempDir()
	agent := filepath.Join(dir, "nodeagent")
	out, err := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", agent, "../../examples/nodeagent").CombinedOutput()
	require.NoError(t, err, string(out))
	c, err := startCluster(t.Context(), options{programs: programs, coredns: coredns, agent: agent}, first, dir, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the agent's log:\n%s", c.agent.logTail())
		}
		require.NoError(t, c.stop())
	})
	s := &switched{t, c}
	s.kubectl("create", "configmap", "settings", "--from-literal=colour=blue")
	file := filepath.Join(dir, "pods.yaml")
	require.NoError(t, os.WriteFile(file, []byte(switchPods), 0o600))
	require.Eventually(t, func() bool {
		_, err := c.server.Kubectl(t.Context(), "apply", "-f", file)
		return err == nil
	}, time.Minute, time.Second, "the service account is there")
	s.waitSettled()
	return s
}

func (s *switched) kubectl(args ...string) string {
	s.Helper()
	out, err := s.server.Kubectl(s.Context(), args...)
	require.NoError(s, err)
	return string(out)
}

// pods returns the pods by name.
func (s *switched) pods() map[string]*v1.Pod {
	s.Helper()
	core, err := s.server.Core()
	require.NoError(s, err)
	list, err := core.Pods("default").List(s.Context(), metav1.ListOptions{})
	require.NoError(s, err)
	all := map[string]*v1.Pod{}
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all
}

// waitSettled waits until all pods have reached their final states.
func (s *switched) waitSettled() {
	s.Helper()
	ready := func(p *v1.Pod) bool {
		return p != nil && slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
		})
	}
	require.Eventually(s, func() bool {
		pods := s.pods()
		return ready(pods["web"]) && ready(pods["restarted"]) && pods["restarted"].Status.ContainerStatuses[0].RestartCount > 0 &&
			pods["completed"] != nil && pods["completed"].Status.Phase == v1.PodSucceeded
	}, 2*time.Minute, 500*time.Millisecond, "the pods have settled")
}

// containers returns the state of all containers by ID, as containerd has it.
func (s *switched) containers() map[string]cri.ContainerState {
	s.Helper()
	list, err := s.containerd.Runtime.ListContainers(s.Context(), &cri.ListContainersRequest{})
	require.NoError(s, err)
	all := map[string]cri.ContainerState{}
	for _, c := range list.Containers {
		all[c.Metadata.Name+" "+c.Id] = c.State
	}
	return all
}

// to stops the agent as systemd does, and starts the named one.
func (s *switched) to(name string) {
	s.Helper()
	s.Logf("from %s to %s", s.options.name, name)
	require.NoError(s, s.agent.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.agent.exited:
	case <-time.After(time.Minute):
		s.Fatal("the agent does not end")
	}
	s.options.name = name
	s.options.log += "." + name
	var err error
	s.agent, err = startAgent(s.options)
	require.NoError(s, err)
	core, err := s.server.Core()
	require.NoError(s, err)
	require.Eventually(s, func() bool {
		node, err := core.Nodes().Get(s.Context(), nodeName, metav1.GetOptions{})
		return err == nil && nodeReady(node) && strings.HasSuffix(node.Status.NodeInfo.KubeletVersion, keelson) == (name == keelson)
	}, startTimeout, 200*time.Millisecond, "the node is ready")
}

// statuses returns the statuses of the containers of all pods, without conditions. A container
// without resources has an empty element for resources from the kubelet, and none from the agent.
func (s *switched) statuses() map[string][]v1.ContainerStatus {
	s.Helper()
	all := map[string][]v1.ContainerStatus{}
	for name, pod := range s.pods() {
		all[name] = slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
		for i := range all[name] {
			all[name][i].Resources = nil
		}
	}
	return all
}

// keeps switches to an agent that must leave all containers and their statuses as they are, and
// must serve logs and commands of them.
func (s *switched) keeps(name string) {
	s.Helper()
	file := []string{"exec", "web", "--", "cat", "/scratch/init"}
	containers, statuses, prepared := s.containers(), s.statuses(), s.kubectl(file...)
	s.to(name)
	time.Sleep(15 * time.Second) // several probes, and a relist
	s.waitSettled()
	require.Equal(s, containers, s.containers())
	require.Equal(s, statuses, s.statuses())
	require.Equal(s, prepared, s.kubectl(file...))
	require.Equal(s, "blue", s.kubectl("exec", "web", "--", "cat", "/settings/colour"))
	require.Equal(s, "done\n", s.kubectl("logs", "completed"))
	require.Contains(s, s.kubectl("logs", "web"), "started\n")
}

// restarts ends a container, which the agent starts again in the sandbox of the pod.
func (s *switched) restarts() {
	s.Helper()
	before := s.pods()["web"]
	main := before.Status.ContainerStatuses[0]
	_, _ = s.server.Kubectl(s.Context(), "exec", "web", "--", "sh", "-c", "kill 1") // may end before it answers
	require.Eventually(s, func() bool {
		web := s.pods()["web"]
		return web.Status.ContainerStatuses[0].RestartCount == main.RestartCount+1 && web.Status.ContainerStatuses[0].Ready
	}, time.Minute, 500*time.Millisecond, "the container is restarted")
	require.Equal(s, before.Status.PodIP, s.pods()["web"].Status.PodIP)
	require.Equal(s, before.Status.InitContainerStatuses[0].ContainerID, s.pods()["web"].Status.InitContainerStatuses[0].ContainerID)
	require.Contains(s, s.kubectl("logs", "web", "--previous"), "started\n")
}

// removes deletes all pods, of which nothing may be left.
func (s *switched) removes() {
	s.Helper()
	s.kubectl("delete", "pods", "--all", "--timeout=60s")
	require.Eventually(s, func() bool { return len(s.containers()) == 0 }, 2*time.Minute, time.Second, "the containers are removed")
	require.Eventually(s, func() bool {
		folders, err := filepath.Glob(filepath.Join(s.dir, "root", "pods", "*"))
		return err == nil && len(folders) == 0
	}, 2*time.Minute, time.Second, "the folders of the pods are removed")
}

// A node whose kubelet is replaced by this agent, and back, keeps the containers of its pods. Each
// agent goes on with them.
func TestASwitchFromTheKubeletAndBackKeepsPods(t *testing.T) {
	s := newSwitched(t, kubelet)
	if s == nil {
		return
	}
	s.keeps(keelson)
	s.restarts()
	s.keeps(kubelet)
	s.restarts()
	s.keeps(keelson)
	s.removes()
}

// A node whose agent is replaced by the kubelet, and back, keeps the containers of its pods. The kubelet
// would restart the containers of a pod without the kubelet's cgroup.
func TestASwitchToTheKubeletAndBackKeepsPods(t *testing.T) {
	s := newSwitched(t, keelson)
	if s == nil {
		return
	}
	s.keeps(kubelet)
	s.restarts()
	s.keeps(keelson)
	s.restarts()
	s.to(kubelet)
	s.waitSettled()
	s.removes()
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
	"github.com/keelson-dev/keelson/internal/testport"
	"github.com/keelson-dev/keelson/runtime/process"
)

// asAgent is the environment variable that turns the test binary into the node agent.
const asAgent = "KEELSON_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	process.Main()
	if os.Getenv(asAgent) != "" {
		main()
		return
	}
	// A process of this binary under the race detector otherwise sleeps for a second at its end: each
	// agent, each shim of the process backend, and so each end of a container. Users come first.
	_ = os.Setenv("GORACE", strings.TrimSpace("atexit_sleep_ms=0 "+os.Getenv("GORACE")))
	// Threads of tests enter other namespaces. The main thread, whose namespaces /proc/self shows, is none of them.
	goruntime.LockOSThread()
	_ = flag.Set("test.parallel", "4") // tests wait for processes, not for a processor; the command line comes first
	os.Exit(hostnet.After(containerd.Main(m)))
}

// Each containerd is started by the first test that uses it. A backend has an instance of its own,
// because the tests of the backends run beside each other, and an agent ends pods that it does not know.
var containerd, hostnet containerdtest.Shared

// backend is the container runtime of a test, with the manifest fields that make containers visible
// to the test: the host's process IDs, and a folder of the host.
type backend struct {
	flags           func(t *testing.T) []string
	spec, container string               // added to manifests; %s is the folder
	left            func(s *station) int // what of the pods runs
	exact           bool                 // a start goes on when the agent that asked for it dies
}

// keepImages prevents garbage collection on a full disk, because the tests' image cannot be pulled
// again.
const keepImages = "--image-gc-high-threshold=100"

var backends = map[string]backend{
	"process": {
		flags: func(*testing.T) []string { return nil },
		left:  func(s *station) int { return len(s.processes()) },
		exact: true,
	},
	"containerd": {
		flags: func(t *testing.T) []string {
			return []string{"--container-runtime-endpoint", containerd.Get(t).Endpoint(), "--keep-pods=false", keepImages}
		},
		spec: `
  hostPID: true
  volumes: [{name: out, hostPath: {path: %[1]s}}]`,
		container: `
      volumeMounts: [{name: out, mountPath: %[1]s}]`,
		left: func(s *station) int { return readySandboxes(s, containerd.Get(s.T)) },
	},
	"containerd-hostnet": {
		flags: func(t *testing.T) []string {
			return []string{"--container-runtime-endpoint", hostnet.Get(t).Endpoint(), "--keep-pods=false", keepImages}
		},
		spec: `
  hostPID: true
  hostNetwork: true
  volumes: [{name: out, hostPath: {path: %[1]s}}]`,
		container: `
      volumeMounts: [{name: out, mountPath: %[1]s}]`,
		left: func(s *station) int { return readySandboxes(s, hostnet.Get(s.T)) },
	},
}

// onEach runs a test on every backend, on all of them at the same time.
func onEach(t *testing.T, test func(s *station)) {
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newStation(t, backends[name]))
		})
	}
}

func readySandboxes(s *station, c *containerdtest.Instance) int {
	s.Helper()
	r, err := c.Runtime.ListPodSandbox(s.Context(), &cri.ListPodSandboxRequest{})
	require.NoError(s, err)
	ready := 0
	for _, sandbox := range r.Items {
		if sandbox.State == cri.PodSandboxState_SANDBOX_READY {
			ready++
		}
	}
	return ready
}

// patience is the timeout for events that are immediate on an idle machine.
const patience = time.Minute

// station is a folder of manifests with a real agent process.
type station struct {
	*testing.T
	backend              backend
	dir, manifests, root string
	port                 int

	agent *exec.Cmd
	log   *tail
}

func newStation(t *testing.T, b backend) *station {
	t.Helper()
	b.flags(t) // skips if the backend cannot be had
	s := &station{T: t, backend: b, dir: t.TempDir(), port: testport.Free(t)}
	s.manifests, s.root = filepath.Join(s.dir, "manifests"), filepath.Join(s.dir, "root")
	require.NoError(t, os.Mkdir(s.manifests, 0o755))
	t.Cleanup(func() {
		defer func() {
			if t.Failed() {
				t.Logf("the agent's log:\n%s", s.log)
			}
		}()
		if s.agent != nil {
			s.interrupt()
		} else if entries, _ := os.ReadDir(s.root); len(entries) > 0 {
			require.NoError(t, os.RemoveAll(s.manifests)) // what runs is to end, and nothing to begin
			require.NoError(t, os.Mkdir(s.manifests, 0o755))
			s.start()
			s.interrupt()
		}
	})
	return s
}

// start runs the agent and waits until it answers requests.
func (s *station) start(flags ...string) {
	s.Helper()
	args := append([]string{s.manifests, "--root-dir", s.root, "--read-only-port", strconv.Itoa(s.port), "--hostname-override", "n"}, s.backend.flags(s.T)...)
	args = append(args, flags...)
	s.agent = exec.Command(os.Args[0], args...)
	s.agent.Env = append(os.Environ(), asAgent+"=1")
	if s.log == nil {
		s.log = &tail{}
	}
	s.agent.Stderr = s.log
	require.NoError(s, s.agent.Start())
	s.eventually("the agent answers", func() bool {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", s.port))
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// interrupt ends the agent as Ctrl-C does. An agent that does not end prints its goroutines to the
// log.
func (s *station) interrupt() {
	s.Helper()
	agent := s.agent
	s.agent = nil
	require.NoError(s, agent.Process.Signal(os.Interrupt))
	hung := time.AfterFunc(2*patience, func() { _ = agent.Process.Signal(syscall.SIGQUIT) })
	err := agent.Wait()
	require.True(s, hung.Stop(), "the agent ends in time")
	require.NoError(s, err, "the agent ends well")
}

// kill kills the agent with SIGKILL.
func (s *station) kill() {
	s.Helper()
	require.NoError(s, s.agent.Process.Kill())
	_ = s.agent.Wait()
	s.agent = nil
}

// write writes a manifest as most programs do: truncate and write.
func (s *station) write(name, content string) {
	s.Helper()
	require.NoError(s, os.WriteFile(filepath.Join(s.manifests, name), []byte(content), 0o644))
}

func (s *station) remove(name string) {
	s.Helper()
	require.NoError(s, os.Remove(filepath.Join(s.manifests, name)))
}

// pods returns the pods of /pods by name.
func (s *station) pods() map[string]v1.Pod {
	s.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/pods", s.port))
	require.NoError(s, err)
	defer r.Body.Close()
	var list v1.PodList
	require.NoError(s, json.NewDecoder(r.Body).Decode(&list))
	require.Equal(s, "PodList", list.Kind)
	pods := make(map[string]v1.Pod, len(list.Items))
	for _, p := range list.Items {
		pods[p.Name] = p
	}
	return pods
}

func (s *station) eventually(what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// waitPhase waits until a pod has a phase and, if it is Running, is ready.
func (s *station) waitPhase(name string, phase v1.PodPhase) v1.Pod {
	s.Helper()
	var pod v1.Pod
	s.eventually(name+" is "+string(phase), func() bool {
		pod = s.pods()[name]
		return pod.Status.Phase == phase && (phase != v1.PodRunning || isReady(pod))
	})
	return pod
}

func isReady(pod v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// service returns a manifest with a container that appends its process ID to a file at each start
// and then runs body. ("$$" is Kubernetes' escape for "$" in a command.)
func (s *station) service(name, body string) (manifest, pids string) {
	pids = filepath.Join(s.dir, name+".pids")
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 2%s
  containers:
    - name: main
      image: localhost/busybox:1%s
      command: ["/bin/sh", "-c", "echo $$$$ >> %s; %s"]
`, name, inFolder(s.backend.spec, s.dir), inFolder(s.backend.container, s.dir), pids, body), pids
}

func inFolder(format, dir string) string {
	return strings.ReplaceAll(format, "%[1]s", dir)
}

// started returns the process IDs written by a service.
func (s *station) started(path string) []int {
	s.Helper()
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(s, err)
	var pids []int
	for _, line := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(line)
		require.NoError(s, err)
		pids = append(pids, pid)
	}
	return pids
}

func (s *station) waitStarts(path string, n int) []int {
	s.Helper()
	s.eventually(fmt.Sprintf("%s was started %d times", filepath.Base(path), n), func() bool { return len(s.started(path)) >= n })
	return s.started(path)
}

// alive reports whether a process runs. A zombie does not count.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, ok := strings.Cut(string(data), ") ")
	return !ok || state[0] != 'Z'
}

// tail stores the agent's log.
type tail struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// about returns the log lines with all of words.
func (t *tail) about(words ...string) []string {
	var lines []string
	scan := bufio.NewScanner(strings.NewReader(t.String()))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		all := true
		for _, w := range words {
			all = all && strings.Contains(scan.Text(), w)
		}
		if all {
			lines = append(lines, scan.Text())
		}
	}
	return lines
}

// processes returns the processes of containers and shims with a working directory below the
// station's root.
func (s *station) processes() []string {
	s.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/cwd")
	require.NoError(s, err)
	var found []string
	for _, e := range entries {
		if target, err := os.Readlink(e); err == nil && strings.HasPrefix(target, s.root) {
			found = append(found, filepath.Base(filepath.Dir(e)))
		}
	}
	return found
}

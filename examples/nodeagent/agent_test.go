// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/runtime/process"
)

// asAgent makes the test binary be the node agent.
const asAgent = "KEELSON_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	process.Main()
	if os.Getenv(asAgent) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// patience is how long something may take that takes no time on a quiet machine.
const patience = 30 * time.Second

// station is a folder of manifests with a real agent process on it.
type station struct {
	*testing.T
	dir, manifests, root string
	port                 int

	agent *exec.Cmd
	log   *tail
}

func newStation(t *testing.T) *station {
	t.Helper()
	s := &station{T: t, dir: t.TempDir(), port: freePort(t)}
	s.manifests, s.root = filepath.Join(s.dir, "manifests"), filepath.Join(s.dir, "root")
	require.NoError(t, os.Mkdir(s.manifests, 0o755))
	t.Cleanup(func() {
		if s.agent != nil {
			s.interrupt()
		} else if entries, _ := os.ReadDir(s.root); len(entries) > 0 {
			s.start()
			s.interrupt()
		}
		if t.Failed() {
			t.Logf("the agent's log:\n%s", s.log)
		}
	})
	return s
}

// start runs the agent on the manifests and waits until it answers.
func (s *station) start(flags ...string) {
	s.Helper()
	args := append([]string{s.manifests, "--root-dir", s.root, "--read-only-port", strconv.Itoa(s.port), "--hostname-override", "n"}, flags...)
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

// interrupt ends the agent as Ctrl-C does.
func (s *station) interrupt() {
	s.Helper()
	require.NoError(s, s.agent.Process.Signal(os.Interrupt))
	require.NoError(s, s.agent.Wait(), "the agent ends well")
	s.agent = nil
}

// kill ends the agent as the kernel would.
func (s *station) kill() {
	s.Helper()
	require.NoError(s, s.agent.Process.Kill())
	_ = s.agent.Wait()
	s.agent = nil
}

// write puts a manifest in place as most programs do: truncate and write.
func (s *station) write(name, content string) {
	s.Helper()
	require.NoError(s, os.WriteFile(filepath.Join(s.manifests, name), []byte(content), 0o644))
}

func (s *station) remove(name string) {
	s.Helper()
	require.NoError(s, os.Remove(filepath.Join(s.manifests, name)))
}

// pods returns what /pods says, by name.
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

// service is a manifest whose container adds its process ID to a file at each
// start, then runs body. ("$$" is how Kubernetes writes "$" in a command.)
func (s *station) service(name, body string) (manifest, pids string) {
	pids = filepath.Join(s.dir, name+".pids")
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 2
  containers:
    - name: main
      image: localhost/busybox:1
      command: ["/bin/sh", "-c", "echo $$$$ >> %s; %s"]
`, name, pids, body), pids
}

// started returns the process IDs that a service wrote.
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

// alive reports whether a process runs; a zombie does not.
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

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// tail keeps what the agent logs.
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

// about returns the log lines that mention all of words.
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

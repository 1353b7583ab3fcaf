// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/testport"
)

// webPod listens on a port that another pod has, too. Its name is its answer.
const webPod = `apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  hostNetwork: false
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: none
    command: [/bin/sh, -c, "echo %[1]s > /tmp/name; exec busybox httpd -f -p 80 -h /tmp"]
    ports: [{containerPort: 80, hostPort: %[2]d}]
    readinessProbe: {httpGet: {path: /name, port: 80}, periodSeconds: 1}
    lifecycle: {postStart: {sleep: {seconds: 1}}, preStop: {httpGet: {path: /name, port: 80}}}
`

// TestPodNetworks runs two pods with the same port under --pod-network=pasta. The agent reaches both for
// their probes, clients reach both by their host ports, and a killed agent and a killed pasta leave both
// reachable.
func TestPodNetworks(t *testing.T) {
	for _, program := range []string{networkPasta, "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	require.NoError(t, tun.Close())
	s := newStation(t, backends["process"])
	s.backend.flags = func(*testing.T) []string { return []string{"--pod-network=pasta"} }
	ports := map[string]int{"one": testport.Free(t), "two": testport.Free(t)}
	answers := func() {
		t.Helper()
		for name, port := range ports {
			s.waitPhase(name+"-n", v1.PodRunning)
			s.eventually(name+" answers", func() bool {
				r, err := (&http.Client{Timeout: 5 * time.Second}).Get(fmt.Sprintf("http://127.0.0.1:%d/name", port))
				if err != nil {
					return false
				}
				defer r.Body.Close()
				raw, _ := io.ReadAll(r.Body)
				return string(raw) == name+"\n"
			})
		}
	}
	for name, port := range ports {
		s.write(name+".yaml", fmt.Sprintf(webPod, name, port))
	}
	s.start()
	answers()
	s.kill()
	s.start()
	answers()
	before := s.pods()["one-n"].Status.ContainerStatuses[0].ContainerID
	of := pastas(s)
	require.Len(t, of, 2)
	for pid, args := range of {
		if strings.Contains(args, fmt.Sprintf("\x00%d:80\x00", ports["one"])) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	s.eventually("the pod without pasta has another container", func() bool {
		list := s.pods()["one-n"].Status.ContainerStatuses
		return len(list) == 1 && list[0].ContainerID != before
	})
	answers()
	s.remove("one.yaml")
	s.remove("two.yaml")
	s.eventually("no pod is left", func() bool { return len(s.pods()) == 0 && len(s.processes()) == 0 })
	assert.Empty(t, pastas(s))
}

// pastas returns the arguments of the station's processes of pasta by their PIDs.
func pastas(s *station) map[int]string {
	s.Helper()
	found := map[int]string{}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(s, err)
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		program, _, _ := strings.Cut(string(raw), "\x00")
		if filepath.Base(program) == networkPasta && strings.Contains(string(raw), s.root) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(s, err)
			found[pid] = string(raw)
		}
	}
	return found
}

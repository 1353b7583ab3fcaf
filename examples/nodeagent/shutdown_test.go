// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/shutdown"
)

// A process that ignores SIGTERM, with an hour of grace, does not delay the shutdown.
func TestShutdownGracePeriodEndsTheDeaf(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	pod := func(name, more, trap string) string {
		return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  terminationGracePeriodSeconds: 3600%[2]s
  containers:
  - name: main
    image: host
    command: ["/bin/sh", "-c", "trap '%[3]s' TERM; echo $$$$ >> %[4]s; while true; do sleep 0.1; done"]
`, name, more, trap, filepath.Join(s.dir, name+".pids"))
	}
	ended := filepath.Join(s.dir, "order")
	s.write("deaf.yaml", pod("deaf", "", ""))
	s.write("polite.yaml", pod("polite", "", "echo polite >> "+ended+"; exit 0"))
	s.write("dns.yaml", pod("dns", "\n  priorityClassName: system-node-critical", "kill -0 $(cat "+s.dir+"/deaf.pids) && echo early >> "+ended+"; echo dns >> "+ended+"; exit 0"))
	s.start("--shutdown-grace-period", "8s", "--shutdown-grace-period-critical-pods", "4s")
	deaf := s.waitStarts(filepath.Join(s.dir, "deaf.pids"), 1)[0]
	for _, name := range []string{"polite", "dns"} {
		s.waitStarts(filepath.Join(s.dir, name+".pids"), 1)
	}
	began := time.Now()
	s.interrupt() // fails after a minute
	require.GreaterOrEqual(t, time.Since(began), 3*time.Second, "it had its time")
	s.eventually("nothing runs", func() bool { return !alive(deaf) && len(s.processes()) == 0 })
	said := linesOf(t, ended)
	if len(s.log.about("could not stop a pod")) > 0 {
		// The kill took more than a second on this machine, so the other classes had no time left.
		said = slices.DeleteFunc(said, func(word string) bool { return word == "early" })
	}
	require.Equal(t, []string{"polite", "dns"}, said, "the critical one after all others")
}

// With --stop-timeout the agent does not wait for an hour of grace, and leaves running pods for the
// next agent.
func TestStopTimeoutEndsTheWait(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	s.write("deaf.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: deaf}
spec:
  terminationGracePeriodSeconds: 3600
  containers:
  - name: main
    image: host
    command: ["/bin/sh", "-c", "trap '' TERM; echo $$$$ >> %[1]s/pids; while true; do sleep 0.1; done"]
`, s.dir))
	s.start("--stop-timeout", "2s")
	deaf := s.waitStarts(filepath.Join(s.dir, "pids"), 1)[0]
	began := time.Now()
	s.interrupt() // fails after a minute
	require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	require.True(t, alive(deaf), "its own time is not over")
	s.start("--shutdown-grace-period", "2s")
	s.interrupt()
	require.False(t, alive(deaf), "the next agent knew it")
}

// A configuration file's grace periods are those of a machine that shuts down: the end of the agent
// alone leaves the pods running.
func TestShutdownGracePeriodOfTheMachine(t *testing.T) {
	s := newStation(t, backends["process"])
	config := filepath.Join(s.dir, "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
		"healthzPort: 0\npodLogsDir: logs\nshutdownGracePeriod: 4s\nshutdownGracePeriodCriticalPods: 1s\n"), 0o600))
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	systemd := func(state string) {
		script := "#!/bin/sh\n[ \"$*\" = is-system-running ] || exit 9\necho " + state + "\n[ " + state + " = running ]\n"
		require.NoError(t, os.WriteFile(filepath.Join(bin, "systemctl"), []byte(script), 0o755))
	}
	flags := []string{"--config", config, "--container-runtime-endpoint", "process"}
	manifest, pids := s.service("deaf", "trap '' TERM; "+forever)
	s.write("deaf.yaml", strings.Replace(manifest, "GracePeriodSeconds: 2", "GracePeriodSeconds: 3600", 1))
	for _, state := range []string{"running", "degraded", "starting"} {
		systemd(state)
		s.start(flags...)
		pid := s.waitStarts(pids, 1)[0]
		s.interrupt()
		require.True(t, alive(pid), state)
	}
	pid := s.started(pids)[0]
	require.NoError(t, os.Remove(filepath.Join(bin, "systemctl")))
	t.Setenv("PATH", bin)
	s.start(flags...)
	s.interrupt()
	require.True(t, alive(pid), "no systemd")
	require.Len(t, s.log.about("cannot ask systemd"), 1)

	t.Setenv("PATH", bin+":/usr/bin:/bin")
	systemd("stopping")
	s.start(flags...)
	s.interrupt() // fails after a minute
	require.False(t, alive(pid), "an hour of its own is more than the machine has")
	require.Len(t, s.started(pids), 1)
}

// After SIGUSR1 the end of the agent is the end of its pods, in spite of --keep-pods.
func TestSIGUSR1EndsThePodsWithTheAgent(t *testing.T) {
	t.Parallel()
	s := newStation(t, backends["process"])
	manifest, pids := s.service("steady", forever)
	s.write("steady.yaml", manifest)
	s.start("--keep-pods")
	pid := s.waitStarts(pids, 1)[0]
	s.interrupt()
	require.True(t, alive(pid))
	s.start("--keep-pods")
	require.NoError(t, s.agent.Process.Signal(syscall.SIGUSR1))
	require.NoError(t, s.health())
	require.True(t, alive(pid), "the signal alone ends nothing")
	s.interrupt()
	require.False(t, alive(pid))
	require.Len(t, s.started(pids), 1)
}

func TestShutdownFlags(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name  string
		args  []string
		want  []shutdown.Class
		time  time.Duration // for all
		keep  bool          // the pods, when only the agent stops
		error string
	}{
		{name: "none"},
		{name: "one class", args: []string{"--shutdown-grace-period=30s"},
			want: []shutdown.Class{{Priority: math.MinInt32, Grace: 30 * time.Second}}, time: 30 * time.Second},
		{name: "two", args: []string{"--shutdown-grace-period=30s", "--shutdown-grace-period-critical-pods=10s"},
			want: []shutdown.Class{{Priority: math.MinInt32, Grace: 20 * time.Second}, {Priority: 2_000_000_000, Grace: 10 * time.Second}}, time: 30 * time.Second},
		{name: "by priority", args: []string{"--shutdown-grace-period-by-pod-priority=0=20,1000=5"},
			want: []shutdown.Class{{Priority: 0, Grace: 20 * time.Second}, {Priority: 1000, Grace: 5 * time.Second}}, time: 25 * time.Second},
		{name: "all at once", args: []string{"--stop-timeout=45s"}, time: 45 * time.Second},
		{name: "once, and stopped", args: []string{"--runonce", "--stop-timeout=45s"}, time: 45 * time.Second},
		{name: "in two ways", args: []string{"--stop-timeout=45s", "--shutdown-grace-period=30s"}, error: "--stop-timeout goes without"},
		{name: "in less than no time", args: []string{"--stop-timeout=-1s"}, error: "want 0 or more"},
		{name: "stopping what is kept", args: []string{"--stop-timeout=45s", "--keep-pods"}, error: "give one of them"},
		{name: "both", args: []string{"--shutdown-grace-period=30s", "--shutdown-grace-period-by-pod-priority=0=20"}, error: "goes without"},
		{name: "no priority", args: []string{"--shutdown-grace-period-by-pod-priority=high=20"}, error: "want a priority"},
		{name: "no time", args: []string{"--shutdown-grace-period-by-pod-priority=0=0"}, error: "seconds from 1"},
		{name: "critical only", args: []string{"--shutdown-grace-period-critical-pods=10s"}, error: "a second or more"},
		{name: "only with the machine", args: []string{"--shutdown-grace-period=30s", "--keep-pods"}, keep: true,
			want: []shutdown.Class{{Priority: math.MinInt32, Grace: 30 * time.Second}}, time: 30 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, endpoint := range []string{"process", "unix:///run/containerd/containerd.sock"} {
				f, err := parseFlags(append([]string{dir, "--container-runtime-endpoint", endpoint}, tc.args...))
				if tc.error != "" {
					require.ErrorContains(t, err, tc.error)
					continue
				}
				require.NoError(t, err)
				classes, err := f.shutdown.classes()
				require.NoError(t, err)
				require.ElementsMatch(t, tc.want, classes)
				require.Equal(t, tc.time, f.shutdown.longest(), "what the service manager is told")
				require.Equal(t, tc.keep || endpoint != "process" && tc.time == 0, f.keepPods, "who asks for an end in time does not keep the pods")
			}
		})
	}
}

func linesOf(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.Fields(string(data))
}

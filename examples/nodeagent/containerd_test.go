// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containerdtest"
)

// containerd crashes while 30 pods run, and restarts. The pods are not affected, and the agent
// notices the end of a container during the outage.
func TestContainerdCrashesUnder30Pods(t *testing.T) {
	t.Parallel()
	count := 8
	if os.Getenv("KEELSON_E2E") == "1" {
		count = 30
	}
	c := containerdtest.Start(t, containerdtest.Options{})
	p := newProxy(t, c.Socket)
	s := newStation(t, on(p.Endpoint(), c))
	t.Cleanup(func() { // the agent stops its pods
		p.Shut()
		require.NoError(s, p.Open())
		require.NoError(t, c.Restart(context.Background()))
	})
	s.start()
	runs := s.services("web", count)
	victim, others := runs[0], runs[1:]
	late, latePIDs := s.service("late", forever)
	settle(s, p)

	mark := len(s.log.String())
	require.NoError(t, c.Kill())
	down := time.Now()
	s.write("late.yaml", late)
	require.NoError(t, syscall.Kill(victim.pid, syscall.SIGKILL))
	for time.Since(down) < 6*time.Second {
		require.NoError(t, s.ask("/livez", time.Second), "the agent itself is well")
		time.Sleep(200 * time.Millisecond)
	}
	n, byMethod := p.since(down)
	rate := float64(n) / time.Since(down).Seconds()
	t.Logf("while containerd was down: %.1f calls a second: %v", rate, byMethod)
	require.LessOrEqual(t, rate, 5.0, "a storm of calls")
	require.Len(t, s.pods(), count+1)

	p.Shut() // the agent has to connect again, too
	time.Sleep(2 * time.Second)
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		time.Sleep(100 * time.Millisecond)
		require.NoError(s, p.Open())
	}()
	require.NoError(t, c.Restart(t.Context()))
	<-opened
	back := time.Now()
	s.eventually("the one that died runs again, and the one that came meanwhile", func() bool {
		pod := s.pods()[victim.name]
		return mainOf(pod).RestartCount == 1 && isReady(pod) && isReady(s.pods()["late-n"])
	})
	t.Logf("statuses are true %s after containerd's return", time.Since(back).Round(time.Millisecond))
	last := mainOf(s.pods()[victim.name]).LastTerminationState.Terminated
	require.NotNil(t, last)
	known, err := c.Runtime.ContainerStatus(t.Context(), &cri.ContainerStatusRequest{ContainerId: victim.container})
	require.NoError(t, err)
	require.Equal(t, known.Status.ExitCode, last.ExitCode)
	require.WithinDuration(t, time.Unix(0, known.Status.FinishedAt), last.FinishedAt.Time, time.Second)
	if !c.HasEvents { // containerd 2 does not ask the shim of what has ended, and says 255
		require.EqualValues(t, 137, last.ExitCode, "its true exit code")
		require.WithinDuration(t, down, last.FinishedAt.Time, patience)
	}
	require.Len(t, s.waitStarts(victim.pids, 2), 2)
	require.Len(t, s.waitStarts(latePIDs, 1), 1)
	for _, r := range others {
		s.checkUntouched(r)
	}
	s.checkLogDoesNotRepeatItself(mark)
	require.LessOrEqual(t, strings.Count(s.log.String()[mark:], "\n"), 30, "the log is short:\n%s", s.log.String()[mark:])
}

// settle waits until the agent only makes its periodic calls.
func settle(s *station, p *proxy) {
	s.Helper()
	s.eventually("the agent only looks", func() bool {
		began := time.Now()
		time.Sleep(1500 * time.Millisecond)
		_, byMethod := p.since(began)
		return byMethod["PodSandboxStatus"] == 0 && byMethod["StartContainer"] == 0
	})
}

// containerd hangs for 20 s and then continues.
func TestContainerdIsStoppedFor20Seconds(t *testing.T) {
	slowly(t)
	c := containerdtest.Start(t, containerdtest.Options{})
	p := newProxy(t, c.Socket)
	s := newStation(t, on(p.Endpoint(), c))
	s.start()
	runs := s.services("web", 8)
	killed, removed, others := runs[0], runs[1], runs[2:]
	late, latePIDs := s.service("late", forever)
	settle(s, p)
	before := s.resident()

	mark := len(s.log.String())
	require.NoError(t, syscall.Kill(c.PID(), syscall.SIGSTOP))
	resume := func() { require.NoError(t, syscall.Kill(c.PID(), syscall.SIGCONT)) }
	t.Cleanup(resume)
	stopped := time.Now()
	require.NoError(t, syscall.Kill(killed.pid, syscall.SIGKILL))
	s.write("late.yaml", late)
	s.remove(removed.file)
	unwell := make(chan error, 1)
	go func() { unwell <- s.ask("/healthz", 10*time.Second) }()
	for time.Since(stopped) < 20*time.Second {
		require.NoError(t, s.ask("/livez", time.Second), "the agent itself is well")
		_ = s.pods()
		time.Sleep(500 * time.Millisecond)
	}
	require.ErrorContains(t, <-unwell, "the container runtime is down", "an answer within 10 s, not the client's timeout")
	now, peak := p.UnderWay()
	t.Logf("calls under way: %d, at most %d; resident memory: %d KiB before, %d KiB after", now, peak, before, s.resident())
	// Two lists for each pod with pending work, and the periodic lists.
	require.LessOrEqual(t, now, 16, "calls pile up")
	require.Less(t, s.resident(), before+20<<10, "memory piles up")

	resume()
	back := time.Now()
	s.eventually("everything is true again", func() bool {
		pods := s.pods()
		_, still := pods[removed.name]
		return !still && !alive(removed.pid) && isReady(pods["late-n"]) &&
			mainOf(pods[killed.name]).RestartCount == 1 && isReady(pods[killed.name])
	})
	t.Logf("everything is true %s after containerd goes on", time.Since(back).Round(time.Millisecond))
	require.EqualValues(t, 137, mainOf(s.pods()[killed.name]).LastTerminationState.Terminated.ExitCode)
	require.Len(t, s.waitStarts(latePIDs, 1), 1)
	for _, r := range others {
		s.checkUntouched(r)
	}
	s.checkLogDoesNotRepeatItself(mark)
}

// The shim between containerd and a container dies, with and without the container.
func TestShimIsKilled(t *testing.T) {
	t.Parallel()
	c := containerdtest.Start(t, containerdtest.Options{})
	s := newStation(t, on(c.Endpoint(), c))
	s.start()
	runs := s.services("web", 2)
	victim, other := runs[0], runs[1]
	shim := parent(s, victim.pid)
	require.Contains(t, command(s, shim), "containerd-shim")
	killed := time.Now()
	require.NoError(t, syscall.Kill(shim, syscall.SIGKILL))
	s.eventually("the pod runs again", func() bool {
		pod := s.pods()[victim.name]
		return len(s.started(victim.pids)) == 2 && isReady(pod) && idOf(pod) != victim.container
	})
	t.Logf("runs again %s after its shim was killed", time.Since(killed).Round(time.Millisecond))
	pids := s.started(victim.pids)
	s.eventually("the old process is gone", func() bool { return !alive(pids[0]) })
	require.True(t, alive(pids[1]))
	pod := s.pods()[victim.name]
	require.EqualValues(t, 1, mainOf(pod).RestartCount)
	require.NotNil(t, mainOf(pod).LastTerminationState.Terminated)
	require.NotZero(t, mainOf(pod).LastTerminationState.Terminated.ExitCode)
	s.checkUntouched(other)
	s.remove(victim.file)
	s.remove(other.file)
	s.eventually("nothing is left", func() bool { return len(s.leftovers(c)) == 0 })
}

func parent(s *station, pid int) int {
	s.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	require.NoError(s, err)
	_, rest, _ := strings.Cut(string(data), "PPid:")
	parent, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(s, err)
	return parent
}

func command(s *station, pid int) string {
	s.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	require.NoError(s, err)
	return strings.ReplaceAll(string(data), "\x00", " ")
}

// Nothing is left of removed pods: running, crashing, unable to start, ended, with init containers
// and volumes.
func TestNothingIsLeftOfRemovedPods(t *testing.T) {
	t.Parallel()
	c := containerdtest.Start(t, containerdtest.Options{})
	s := newStation(t, on(c.Endpoint(), c))
	s.start()
	runs := s.services("web", 3)
	ends := map[string]string{
		"crashes":  "exit 3",
		"stubborn": "trap '' TERM; while true; do sleep 0.2; done",
	}
	var files []string
	for name, body := range ends {
		manifest, pids := s.service(name, body)
		s.write(name+".yaml", manifest)
		files = append(files, name+".yaml")
		s.waitStarts(pids, 1)
	}
	for name, text := range map[string]string{
		"done":    "restartPolicy: Never\n  initContainers: [{name: first, image: localhost/busybox:1, command: [/bin/true]}]\n  containers: [{name: main, image: localhost/busybox:1, command: [/bin/true]}]",
		"volumes": "volumes: [{name: v, emptyDir: {}}]\n  terminationGracePeriodSeconds: 1\n  containers: [{name: main, image: localhost/busybox:1, command: [sleep, '1000'], volumeMounts: [{name: v, mountPath: /v}]}]",
		"broken":  "terminationGracePeriodSeconds: 1\n  containers: [{name: main, image: localhost/busybox:1, command: [/no/such/program]}]",
		"noimage": "containers: [{name: main, image: localhost/nothing:1, imagePullPolicy: Never}]",
	} {
		s.write(name+".yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: "+name+"}\nspec:\n  "+text+"\n")
		files = append(files, name+".yaml")
	}
	s.waitPhase("done-n", v1.PodSucceeded)
	s.waitPhase("volumes-n", v1.PodRunning)
	s.eventually("the broken ones say so", func() bool {
		pods := s.pods()
		return mainOf(pods["broken-n"]).State.Waiting != nil && mainOf(pods["noimage-n"]).State.Waiting != nil &&
			mainOf(pods["noimage-n"]).State.Waiting.Reason == "ErrImageNeverPull"
	})
	require.NotEmpty(t, s.leftovers(c))

	removed := time.Now()
	for _, name := range files {
		s.remove(name)
	}
	for _, r := range runs {
		s.remove(r.file)
	}
	s.eventually("nothing is left", func() bool { return len(s.leftovers(c)) == 0 && len(s.pods()) == 0 })
	t.Logf("nothing is left %s after the manifests are gone", time.Since(removed).Round(time.Millisecond))
	for _, r := range runs {
		require.False(t, alive(r.pid))
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// Hanging calls for a pod delay only the pod itself. Other pods start, restart, are edited and
// stopped, and the agent reports itself healthy. When the calls continue, the pod continues too.
func TestACallThatHangsHoldsUpItsOwnPodOnly(t *testing.T) {
	for name, of := range map[string]struct {
		stick func(s *station, p *proxy) (h *hold, recovered func() bool)
		slow  bool // there is one like it that is not
	}{
		"CreateContainer": {stuckInStart("CreateContainer", 2), false},
		"StartContainer":  {stuckInStart("StartContainer", 2), true},
		"RunPodSandbox":   {stuckInStart("RunPodSandbox", 2), true},
		"ListContainers":  {stuckInLook, true},
		"StopContainer":   {stuckInStop("StopContainer"), false},
		"StopPodSandbox":  {stuckInStop("StopPodSandbox"), true},
		"RemoveContainer": {stuckInStop("RemoveContainer"), true},
		"ContainerStatus": {stuckInStatus, false},
	} {
		t.Run(name, func(t *testing.T) {
			if of.slow {
				slowly(t)
			}
			c := containerd.Get(t)
			p := newProxy(t, c.Socket)
			s := newStation(t, on(p.Endpoint(), c))
			t.Cleanup(p.Release)
			s.start()
			runs := s.services("web", 2)
			stuck, recovered := of.stick(s, p)
			waitCaught(s, stuck)
			checkOthersGoOn(s, runs)
			require.False(t, recovered(), "it was not held up at all")
			p.Release()
			began := time.Now()
			s.eventually("the pod recovers", recovered)
			t.Logf("recovered %s after the release", time.Since(began).Round(time.Millisecond))
			s.checkLogDoesNotRepeatItself(0)
		})
	}
}

// checkOthersGoOn starts, edits, crashes and removes other pods.
func checkOthersGoOn(s *station, runs []*instance) {
	s.Helper()
	restarted, removed := runs[0], runs[1]
	began := time.Now()
	step := func(what string, ok func() bool) {
		s.Helper()
		s.eventually(what, ok)
		require.NoError(s, s.health(), "after: %s", what)
		s.Logf("%s: after %s", what, time.Since(began).Round(time.Millisecond))
	}
	manifest, pids := s.service("other", forever)
	s.write("other.yaml", manifest)
	step("another pod starts", func() bool { return isReady(s.pods()["other-n"]) && len(s.started(pids)) == 1 })
	require.NoError(s, syscall.Kill(restarted.pid, syscall.SIGKILL))
	step("a container is restarted", func() bool {
		pod := s.pods()[restarted.name]
		return mainOf(pod).RestartCount == 1 && isReady(pod)
	})
	s.remove(removed.file)
	step("a pod is removed", func() bool { _, there := s.pods()[removed.name]; return !there && !alive(removed.pid) })
	step("its logs are, too", func() bool {
		left, err := filepath.Glob(filepath.Join(s.root, "logs", "*_"+removed.name+"_*"))
		require.NoError(s, err)
		return len(left) == 0
	})
	s.write("other.yaml", strings.Replace(manifest, "sleep 1", "sleep 2", 1))
	step("another pod is edited", func() bool { return isReady(s.pods()["other-n"]) && len(s.started(pids)) == 2 })
}

// sleepers returns a pod with the given number of containers, named c0 and so on.
func sleepers(uid string, containers int) string {
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: stuck, uid: " + uid + "}\n" +
		"spec:\n  terminationGracePeriodSeconds: 1\n  hostNetwork: true\n  containers:\n"
	for i := range containers {
		text += fmt.Sprintf("    - {name: c%d, image: localhost/busybox:1, command: [sleep, '1000']}\n", i)
	}
	return text
}

// newUID returns a UID unused by earlier tests.
func newUID() string { return fmt.Sprintf("stuck-%d", time.Now().UnixNano()) }

func stuckInStart(method string, containers int) func(s *station, p *proxy) (*hold, func() bool) {
	return func(s *station, p *proxy) (*hold, func() bool) {
		uid := newUID()
		contains := uid
		if method == "StartContainer" {
			contains = "" // the only start there is until it is caught
		}
		h := p.Hold(method, contains)
		s.write("stuck.yaml", sleepers(uid, containers))
		if method == "StartContainer" {
			waitCaught(s, h)
			p.Limit(h)
		}
		return h, func() bool { return isReady(s.pods()["stuck-n"]) }
	}
}

// stuckInStop removes the pod and lets its stop hang.
func stuckInStop(method string) func(s *station, p *proxy) (*hold, func() bool) {
	return func(s *station, p *proxy) (*hold, func() bool) {
		uid := newUID()
		s.write("stuck.yaml", sleepers(uid, 2))
		pod := s.waitPhase("stuck-n", v1.PodRunning)
		c := containerd.Get(s.T)
		id := idOfContainer(pod, "c0")
		if method == "StopPodSandbox" {
			for _, x := range s.sandboxesOf(c) {
				if x.GetMetadata().GetUid() == uid {
					id = x.GetId()
				}
			}
		}
		h := p.Hold(method, id)
		s.remove("stuck.yaml")
		return h, func() bool {
			left, err := filepath.Glob(filepath.Join(s.root, "*", "*"+uid+"*"))
			require.NoError(s, err)
			_, there := s.pods()["stuck-n"]
			return !there && len(left) == 0
		}
	}
}

// stuckInLook lets the listing of the pod's containers hang.
func stuckInLook(s *station, p *proxy) (*hold, func() bool) {
	uid := newUID()
	h := p.Hold("ListContainers", uid)
	s.write("stuck.yaml", sleepers(uid, 2))
	return h, func() bool { return isReady(s.pods()["stuck-n"]) }
}

// stuckInStatus lets the status of an ended container hang, also for listings of pods.
func stuckInStatus(s *station, p *proxy) (*hold, func() bool) {
	manifest, pids := s.service("stuck", forever)
	s.write("stuck.yaml", manifest)
	pod := s.waitPhase("stuck-n", v1.PodRunning)
	pid := s.waitStarts(pids, 1)[0]
	h := p.Hold("ContainerStatus", idOf(pod))
	require.NoError(s, syscall.Kill(pid, syscall.SIGKILL))
	return h, func() bool { pod := s.pods()["stuck-n"]; return mainOf(pod).RestartCount == 1 && isReady(pod) }
}

func idOfContainer(pod v1.Pod, name string) string {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == name {
			_, id, _ := strings.Cut(c.ContainerID, "://")
			return id
		}
	}
	return ""
}

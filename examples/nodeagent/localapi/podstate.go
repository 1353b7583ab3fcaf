// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"cmp"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// summary is the state of a pod in a few words, as kubectl shows it.
type summary struct {
	status       string
	ready, total int
	restarts     int32
	lastRestart  time.Time
}

// count adds the restarts of a container.
func (s *summary) count(c *v1.ContainerStatus) {
	s.restarts += c.RestartCount
	if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(s.lastRestart) {
		s.lastRestart = t.FinishedAt.Time
	}
}

// summarize follows the columns of kubectl get pods (1.36): the status is the reason of the pod, of an
// init container that has not completed, or of the first container that waits or has ended.
func summarize(pod *v1.Pod) summary {
	s := summary{status: cmp.Or(pod.Status.Reason, string(pod.Status.Phase), string(v1.PodPending)), total: len(pod.Spec.Containers)}
	specs := map[string]*v1.Container{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		specs[c.Name] = c
		if podfacts.IsSidecar(c) {
			s.total++
		}
	}
	initialized, done := true, 0
	var init, main summary // restarts before and after the initialization
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		init.count(c)
		sidecar := specs[c.Name] != nil && podfacts.IsSidecar(specs[c.Name])
		if sidecar {
			main.count(c)
			if c.Ready {
				s.ready++
			}
		}
		t, w := c.State.Terminated, c.State.Waiting
		switch {
		case !initialized:
		case t != nil && t.ExitCode == 0, sidecar && c.Started != nil && *c.Started:
			done++
		case t != nil:
			s.status, initialized = "Init:"+ended(t), false
		case w != nil && w.Reason != "" && w.Reason != "PodInitializing":
			s.status, initialized = "Init:"+w.Reason, false
		default:
			s.status, initialized = fmt.Sprintf("Init:%d/%d", done, len(pod.Spec.InitContainers)), false
		}
	}
	if initialized || podfacts.IsTrue(pod.Status.Conditions, v1.PodInitialized) {
		s.ofContainers(pod, &main)
		s.restarts, s.lastRestart = main.restarts, main.lastRestart
	} else {
		s.restarts, s.lastRestart = init.restarts, init.lastRestart
	}
	if pod.DeletionTimestamp != nil && !podfacts.IsTerminal(pod.Status.Phase) {
		s.status = "Terminating"
	}
	return s
}

// ofContainers adds the state of the regular containers.
func (s *summary) ofContainers(pod *v1.Pod, counts *summary) {
	running := false
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &pod.Status.ContainerStatuses[i]
		counts.count(c)
		if c.Ready && c.State.Running != nil {
			running = true
			s.ready++
		}
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.status = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.status = ended(c.State.Terminated)
		}
	}
	if s.status == "Completed" && running {
		s.status = "NotReady"
		if podfacts.IsTrue(pod.Status.Conditions, v1.PodReady) {
			s.status = "Running"
		}
	}
}

// ended returns the reason of the end of a container.
func ended(t *v1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

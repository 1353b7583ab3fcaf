// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// A forbidden start beside a running init container is found.
func TestCheckSeesWhatOvertakesAnInitContainer(t *testing.T) {
	for _, c := range []struct {
		name, first string
		then        func(*tale)
		want        string
	}{
		{"one after the other", "init", func(s *tale) {
			s.of("init", 1, fake.OpExited, "1")
			s.of("side", 1, fake.OpStartContainer, "3")
			s.of("c", 1, fake.OpStartContainer, "2")
		}, ""},
		{"at once", "init", func(s *tale) { s.of("c", 1, fake.OpStartContainer, "2") },
			"start of 2 (default/p p-1/c) while init container init of its pod still ran"},
		{"at the same instant", "init", func(s *tale) {
			s.of("c", 0, fake.OpStartContainer, "2")
			s.of("init", 0, fake.OpExited, "1")
		}, "start of 2"},
		{"beside a sidecar", "side", func(s *tale) { s.of("c", 1, fake.OpStartContainer, "2") }, ""},
		{"the manifest has it no more", "init", func(s *tale) {
			s.mark(0.5, nodetest.MarkAgentStarted)
			s.told(0.5, manifest("p-1", "2"))
			s.of("c", 1, fake.OpStartContainer, "2")
		}, ""},
		{"by somebody else", "init", func(s *tale) { s.of("c", 1, fake.OpReplaced, "2") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			always := v1.ContainerRestartPolicyAlways
			pod := manifest("p-1", "1")
			pod.Spec.InitContainers = []v1.Container{{Name: "init"}, {Name: "side", RestartPolicy: &always}}
			s := &tale{}
			s.told(0, pod)
			s.of(c.first, 0, fake.OpStartContainer, "1")
			c.then(s)
			err := nodetest.Check(s.h)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// of records an event of an instance of a container of p-1.
func (t *tale) of(container string, at float64, op fake.Op, id string) {
	t.happens(at, op, "p-1", id, "code 0 (Completed)")
	t.h.Calls[len(t.h.Calls)-1].Container = container
}

// A forbidden creation of a regular container without its sidecar is found.
func TestCheckSeesWhatOvertakesASidecar(t *testing.T) {
	stops := func(s *tale, at float64, id string) { s.of("c", at, fake.OpStopContainer, id) }
	for _, c := range []struct {
		name   string
		probed bool
		then   func(*tale, *v1.Pod)
		want   string
	}{
		{"the sidecar first", false, func(s *tale, _ *v1.Pod) { s.makes("side", 0, "1"); s.makes("c", 1, "2") }, ""},
		{"no sidecar", false, func(s *tale, _ *v1.Pod) { s.makes("c", 1, "2") }, "2 (default/p p-1/c) is made before sidecar side"},
		{"both end, and start side by side", false, func(s *tale, _ *v1.Pod) {
			s.makes("side", 0, "1")
			s.makes("c", 1, "2")
			s.of("side", 2, fake.OpExited, "1")
			s.of("c", 2, fake.OpExited, "2")
			s.makes("c", 3, "3")
			s.makes("side", 3, "4")
		}, "3 (default/p p-1/c) is made while sidecar side of its pod is down, since 2.000s"},
		{"both end, one after the other", false, func(s *tale, _ *v1.Pod) {
			s.makes("side", 0, "1")
			s.makes("c", 1, "2")
			s.of("side", 2, fake.OpExited, "1")
			s.of("c", 3, fake.OpExited, "2")
			s.makes("side", 3, "3")
			s.makes("c", 3, "4")
		}, ""},
		{"the sidecar ends while the other is stopped to be restarted", false, func(s *tale, _ *v1.Pod) {
			s.makes("side", 0, "1")
			s.makes("c", 1, "2")
			stops(s, 2, "2")
			s.of("side", 3, fake.OpExited, "1")
			s.of("c", 4, fake.OpExited, "2")
			s.makes("c", 4, "3")
		}, ""},
		{"the sidecar has been down for long", false, func(s *tale, _ *v1.Pod) {
			s.makes("side", 0, "1")
			s.of("side", 1, fake.OpExited, "1")
			s.makes("c", 30, "2")
		}, "is down"},
		{"before it is known", false, func(s *tale, _ *v1.Pod) {
			s.makes("side", 0, "1")
			s.of("side", 1, fake.OpExited, "1")
			s.makes("c", 2, "2")
		}, ""},
		{"not started yet", true, func(s *tale, _ *v1.Pod) { s.makes("side", 0, "1"); s.makes("c", 1, "2") },
			"before sidecar side of its pod has passed its startup probe"},
		{"started", true, func(s *tale, pod *v1.Pod) {
			s.makes("side", 0, "1")
			status := v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{Name: "side", ContainerID: "fake://1", Started: new(true)}}}
			s.h.Statuses = append(s.h.Statuses, nodetest.Published{At: time.Second, Pod: pod, Status: status})
			s.makes("c", 1, "2")
		}, ""},
		{"a later manifest has no sidecar", false, func(s *tale, _ *v1.Pod) {
			s.mark(0.5, nodetest.MarkAgentStarted)
			s.told(0.5, manifest("p-1", "2"))
			s.makes("c", 1, "2")
		}, ""},
		{"by somebody else", false, func(s *tale, _ *v1.Pod) { s.of("c", 1, fake.OpReplaced, "2") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			always := v1.ContainerRestartPolicyAlways
			pod := manifest("p-1", "1")
			pod.Spec.InitContainers = []v1.Container{{Name: "side", RestartPolicy: &always}}
			if c.probed {
				pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
			}
			s := &tale{}
			s.told(0, pod)
			c.then(s, pod)
			err := nodetest.Check(s.h)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// makes creates and starts a container of p-1.
func (t *tale) makes(container string, at float64, id string) {
	t.of(container, at, fake.OpCreateContainer, id)
	t.of(container, at, fake.OpStartContainer, id)
}

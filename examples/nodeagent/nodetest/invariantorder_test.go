// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// What is started while an init container runs is found, unless it may be.
func TestCheckSeesWhatOvertakesAnInitContainer(t *testing.T) {
	for _, c := range []struct {
		name, first string
		then        func(*tale)
		want        string
	}{
		{"one after the other", "init", func(s *tale) {
			s.of("init", 1, fake.OpExited, "1")
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

// of is what happens to an instance of a container of p-1.
func (t *tale) of(container string, at float64, op fake.Op, id string) {
	t.happens(at, op, "p-1", id, "code 0 (Completed)")
	t.h.Calls[len(t.h.Calls)-1].Container = container
}

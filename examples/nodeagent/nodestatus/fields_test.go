// SPDX-License-Identifier: Apache-2.0

package nodestatus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
)

// Tools and tests of Kubernetes search for the kubelet's words.
func TestWordsOfConditions(t *testing.T) {
	pressure := func(under bool) map[v1.NodeConditionType]bool {
		return map[v1.NodeConditionType]bool{v1.NodeMemoryPressure: under, v1.NodeDiskPressure: under, v1.NodePIDPressure: under}
	}
	for _, c := range []struct {
		under    bool
		notReady error
		want     []string
	}{
		{false, nil, []string{
			"MemoryPressure False KubeletHasSufficientMemory: kubelet has sufficient memory available",
			"DiskPressure False KubeletHasNoDiskPressure: kubelet has no disk pressure",
			"PIDPressure False KubeletHasSufficientPID: kubelet has sufficient PID available",
			"Ready True KubeletReady: kubelet is posting ready status",
		}},
		{true, errors.New("container runtime is down"), []string{
			"MemoryPressure True KubeletHasInsufficientMemory: kubelet has insufficient memory available",
			"DiskPressure True KubeletHasDiskPressure: kubelet has disk pressure",
			"PIDPressure True KubeletHasInsufficientPID: kubelet has insufficient PID available",
			"Ready False KubeletNotReady: container runtime is down",
		}},
	} {
		prepare := func(_ *server, o *nodestatus.Options) {
			o.Facts = func(context.Context) nodestatus.Facts {
				return nodestatus.Facts{Pressure: pressure(c.under), NotReady: c.notReady}
			}
		}
		on(t, prepare, func(t *testing.T, m *machine) {
			var got []string
			for _, c := range m.node.Status.Conditions {
				got = append(got, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// What the runtime and the node can do is in the status, and leaves it again.
func TestAbilitiesAreTold(t *testing.T) {
	on(t, nil, func(t *testing.T, m *machine) {
		handler := func(name string) v1.NodeRuntimeHandler {
			return v1.NodeRuntimeHandler{Name: name, Features: &v1.NodeRuntimeHandlerFeatures{UserNamespaces: new(true)}}
		}
		m.edit(func() {
			m.facts.KubeletPort = 10250
			m.facts.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: new(true)}
			m.facts.RuntimeHandlers = []v1.NodeRuntimeHandler{handler("runc"), handler("")}
			m.facts.DeclaredFeatures = []string{"B", "A"}
		})
		m.Poke()
		synctest.Wait()
		status := m.node.Status
		assert.EqualValues(t, 10250, status.DaemonEndpoints.KubeletEndpoint.Port)
		assert.Equal(t, m.facts.Features, status.Features)
		assert.Equal(t, []v1.NodeRuntimeHandler{handler(""), handler("runc")}, status.RuntimeHandlers)
		assert.Equal(t, []string{"A", "B"}, status.DeclaredFeatures)

		m.edit(func() {
			m.facts.KubeletPort, m.facts.Features, m.facts.RuntimeHandlers, m.facts.DeclaredFeatures = 0, nil, nil, nil
		})
		m.Poke()
		synctest.Wait()
		status = m.node.Status
		assert.Zero(t, status.DaemonEndpoints)
		assert.Nil(t, status.Features)
		assert.Empty(t, status.RuntimeHandlers)
		assert.Empty(t, status.DeclaredFeatures)
	})
}

// A server that drops a field, since it is older or lacks a feature gate, is not sent the field every ten seconds.
func TestAFieldThatTheServerDrops(t *testing.T) {
	drop := func(s *server, o *nodestatus.Options) {
		o.Nodes = dropping{nodes{s}}
	}
	on(t, drop, func(t *testing.T, m *machine) {
		m.edit(func() { m.facts.DeclaredFeatures = []string{"A"} })
		m.Poke()
		pass(20 * time.Second)
		m.taken()
		pass(4 * time.Minute)
		for _, r := range m.taken() {
			require.NotEqual(t, "patch node [status]", r)
		}

		m.edit(func() { m.facts.NotReady = errors.New("container runtime is down") })
		m.Poke()
		pass(time.Second)
		require.Equal(t, v1.ConditionFalse, m.condition(v1.NodeReady).Status, "changes are sent")
		m.edit(func() { m.node.Status.Addresses = nil })
		pass(nodestatus.CheckInterval + 11*time.Second)
		require.Equal(t, m.facts.Addresses, m.node.Status.Addresses, "what another client changes is put back")
	})
}

// dropping stores no declared features.
type dropping struct{ nodes }

func (d dropping) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*v1.Node, error) {
	node, err := d.nodes.Patch(ctx, name, kind, data, o, sub...)
	if err == nil {
		d.edit(func() { d.node.Status.DeclaredFeatures = nil })
		node.Status.DeclaredFeatures = nil
	}
	return node, err
}

// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
)

// After random additions and removals, a Usage equals the sum of the remaining demands.
func TestUsageAfterRemovals(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	node := &admission.Node{Allocatable: list("cpu=6 pods=4")}
	for range 300 {
		used, active := admission.UsageOf(), map[string]*v1.Pod{}
		for i := range 30 {
			name := fmt.Sprint(random.IntN(6))
			if p, ok := active[name]; ok {
				used.Remove(admission.DemandOf(p))
				delete(active, name)
			} else {
				address := []string{"", "10.0.0.1", "10.0.0.2"}[random.IntN(3)]
				p := pod(name, asks(fmt.Sprintf("cpu=%d", random.IntN(4))), port(1+random.Int32N(3), address, ""))
				used.Add(admission.DemandOf(p))
				active[name] = p
			}
			var left []*v1.Pod
			for _, p := range active {
				left = append(left, p)
			}
			own := admission.DemandOf(pod(fmt.Sprint("own", i), asks("cpu=2"), port(1+random.Int32N(3), "10.0.0.1", "")))
			require.Equal(t, admission.Check(node, usage(left...), own), admission.Check(node, used, own))
		}
	}
}

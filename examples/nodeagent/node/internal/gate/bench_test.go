// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/internal/gate"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// BenchmarkAdmission admits n pods, one after the other, on an empty node. The time per pod does not
// depend on n.
func BenchmarkAdmission(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			pods := newPods(n)
			b.ReportAllocs()
			for b.Loop() {
				admit(b, pods)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/pod")
		})
	}
}

// The memory that is allocated per admission does not grow with the number of admitted pods, as it
// does if each admission lists the pods.
func TestAnAdmissionDoesNotListAllPods(t *testing.T) {
	allocated := func(n int) uint64 {
		pods := newPods(n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		admit(t, pods)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	allocated(100)
	require.Less(t, allocated(2000), 20*allocated(200))
}

// newPods returns n pods that request a little CPU time.
func newPods(n int) []*v1.Pod {
	pods := make([]*v1.Pod, 0, n)
	for i := range n {
		c := v1.Container{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1m")}}}
		pods = append(pods, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("uid-", i))},
			Spec:       v1.PodSpec{Containers: []v1.Container{c}},
		})
	}
	return pods
}

// admit admits pods on an empty node.
func admit(tb testing.TB, pods []*v1.Pod) {
	g := newGate(tb)
	for _, pod := range pods {
		if r := g.Admit(pod); !r.Admitted() {
			tb.Fatal(r)
		}
	}
}

// newGate returns a Gate that knows that no pod ran before.
func newGate(tb testing.TB) *gate.Gate {
	rt, err := fake.New(fake.Options{})
	require.NoError(tb, err)
	h := &feature.Host{Table: feature.NewTable(), Runtime: rt}
	g := gate.New(h, gate.Options{
		NodeName: "n", Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100")},
		Admit:    func(*v1.Pod) (string, []admission.Failure) { return "", nil },
		Assigned: func(v1.ResourceName) bool { return false },
		Resized:  func(*v1.Pod, *admission.Pending) {},
	})
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	require.NoError(tb, g.Feature().Run(ctx))
	g.Reconsider()
	return g
}

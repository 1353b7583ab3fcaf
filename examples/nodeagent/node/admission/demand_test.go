// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/internal/podresources"
)

func TestRequests(t *testing.T) {
	for _, tt := range []struct {
		name string
		pod  *v1.Pod
		want string
	}{
		{name: "nothing", pod: pod("p"), want: ""},
		{name: "containers run together", pod: pod("p", asks("cpu=100m memory=1Mi"), asks("cpu=200m")), want: "cpu=300m memory=1Mi"},
		{name: "init runs before", pod: pod("p", initAsks("cpu=250m"), initAsks("cpu=200m"), asks("cpu=100m")), want: "cpu=250m"},
		{name: "init asks for less", pod: pod("p", initAsks("cpu=50m memory=5Mi"), asks("cpu=100m memory=1Mi")), want: "cpu=100m memory=5Mi"},
		{name: "a sidecar runs on", pod: pod("p", sidecarAsks("cpu=50m"), asks("cpu=100m")), want: "cpu=150m"},
		{name: "init runs beside the sidecars before it", pod: pod("p", sidecarAsks("cpu=50m"), initAsks("cpu=200m"), sidecarAsks("cpu=30m"), asks("cpu=100m")), want: "cpu=250m"},
		{name: "and not beside those after it", pod: pod("p", initAsks("cpu=200m"), sidecarAsks("cpu=150m"), asks("cpu=40m")), want: "cpu=200m"},
		{name: "overhead comes on top", pod: pod("p", asks("cpu=100m"), func(p *v1.Pod) { p.Spec.Overhead = list("cpu=10m memory=2Mi") }), want: "cpu=110m memory=2Mi"},
		{name: "the pod as a whole", pod: pod("p", asks("cpu=100m memory=1Mi example.com/x=1"), func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu=50m example.com/x=7")}
			p.Spec.Overhead = list("cpu=10m")
		}), want: "cpu=60m memory=1Mi example.com/x=1"},
		{name: "a limit without a request", pod: pod("p", limits("cpu=1")), want: "cpu=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, want := podresources.Requests(tt.pod), list(tt.want)
			require.Len(t, got, len(want))
			for name, quantity := range want {
				have := got[name]
				assert.Zero(t, have.Cmp(quantity), "%s is %s", name, have.String())
			}
		})
	}
}

// The demand of a pod is the peak over its life: each init container beside the earlier sidecars,
// and then all sidecars and containers.
func TestRequestsAreThePeakOfThePodsLife(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		p := pod("p")
		sidecars, peak := int64(0), int64(0)
		for range random.IntN(5) {
			n := random.Int64N(100)
			if random.IntN(2) == 0 {
				sidecarAsks(cpuText(n))(p)
				sidecars += n
				peak = max(peak, sidecars)
			} else {
				initAsks(cpuText(n))(p)
				peak = max(peak, sidecars+n)
			}
		}
		running := sidecars
		for range random.IntN(4) {
			n := random.Int64N(100)
			asks(cpuText(n))(p)
			running += n
		}
		require.Equal(t, max(peak, running), admission.DemandOf(p).Of(v1.ResourceCPU), "%+v", p.Spec)
	}
}

func cpuText(n int64) string {
	return "cpu=" + resource.NewMilliQuantity(n, resource.DecimalSI).String()
}

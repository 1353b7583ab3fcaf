// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/ledger"
)

const gpu, nic = "example.com/gpu", "example.com/nic"

// pod makes a pod from a text such as "i:2 s:1 r:1 r:1": containers of the kinds init, sidecar and
// regular, with a limit of gpus. The containers have the names i0, s1, r2, r3.
func pod(uid, text string) *v1.Pod {
	p := &v1.Pod{}
	p.UID = types.UID(uid)
	for i, part := range strings.Fields(text) {
		kind, amount, _ := strings.Cut(part, ":")
		c := v1.Container{Name: fmt.Sprint(kind, i), Resources: v1.ResourceRequirements{Limits: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("1"), gpu: resource.MustParse(amount),
		}}}
		if kind == "s" {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		if kind == "r" {
			p.Spec.Containers = append(p.Spec.Containers, c)
		} else {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	return p
}

// devices makes devices from a text such as "a b !c": ! marks an unhealthy device.
func devices(text string) (all []ledger.Device) {
	for id := range strings.FieldsSeq(text) {
		all = append(all, ledger.Device{ID: strings.TrimPrefix(id, "!"), Healthy: id[0] != '!'})
	}
	return all
}

// show prints the holdings of a pod: "i0=a,b r1=a".
func show(l *ledger.Ledger, uid string) string {
	var parts []string
	for _, h := range l.Of(types.UID(uid)) {
		parts = append(parts, h.Container+"="+strings.Join(h.IDs(), ","))
	}
	return strings.Join(parts, " ")
}

func TestReserve(t *testing.T) {
	for _, tt := range []struct{ name, devices, others, pod, want, err string }{
		{name: "in the order of IDs", devices: "c a b", pod: "r:2", want: "r0=a,b"},
		{name: "healthy ones only", devices: "!a b c", pod: "r:2", want: "r0=b,c"},
		{name: "those of other pods are taken", devices: "a b c", others: "r:1", pod: "r:2", want: "r0=b,c"},
		{name: "containers share nothing", devices: "a b c", pod: "r:1 r:2", want: "r0=a r1=b,c"},
		{name: "devices of init containers are reused", devices: "a b c", pod: "i:2 r:1", want: "i0=a,b r1=a"},
		{name: "and added to", devices: "a b c", pod: "i:1 i:2 r:3", want: "i0=a i1=a,b r2=a,b,c"},
		{name: "but once", devices: "a b c", pod: "i:1 r:1 r:1", want: "i0=a r1=a r2=b"},
		{name: "devices of sidecars are not", devices: "a b c", pod: "s:1 i:1 r:1", want: "s0=a i1=b r2=b"},
		{name: "a sidecar reuses devices", devices: "a b c", pod: "i:1 s:1 r:1", want: "i0=a s1=a r2=b"},
		{name: "none is wanted", devices: "a", pod: "r:0", want: ""},
		{name: "too few", devices: "a b", others: "r:1", pod: "r:2", err: "requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1"},
		{name: "too few beside those of init containers", devices: "a b", pod: "i:2 r:3", err: "requested number of devices unavailable for example.com/gpu. Requested: 1, Available: 0"},
		{name: "no device is healthy", devices: "!a", pod: "r:1", err: "no healthy devices present; cannot allocate unhealthy devices example.com/gpu"},
		{name: "no device at all", pod: "r:1", err: "no healthy devices present; cannot allocate unhealthy devices example.com/gpu"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledger.New()
			l.Report(gpu, devices(tt.devices))
			require.NoError(t, l.Reserve(pod("other", tt.others)))
			before := l.Holdings()
			err := l.Reserve(pod("u", tt.pod))
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				require.Equal(t, before, l.Holdings(), "the failure has no effect")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, show(l, "u"))
			after := l.Holdings()
			require.NoError(t, l.Reserve(pod("u", tt.pod)))
			require.Equal(t, after, l.Holdings(), "the choice stays")
		})
	}
}

func TestUnknownResourcesAreNotReserved(t *testing.T) {
	l := ledger.New()
	p := pod("u", "r:1")
	require.False(t, l.Needs(p))
	require.NoError(t, l.Reserve(p))
	require.Empty(t, l.Holdings())
	l.Report(gpu, nil)
	require.True(t, l.Needs(p))
}

func TestChangedRequest(t *testing.T) {
	l := ledger.New()
	l.Report(gpu, devices("a b"))
	require.NoError(t, l.Reserve(pod("u", "r:1")))
	require.EqualError(t, l.Reserve(pod("u", "r:2")), `pod "u" container "r0" changed request for resource "example.com/gpu" from 1 to 2`)
}

func TestPrefer(t *testing.T) {
	l := ledger.New()
	l.Report(gpu, devices("a b c d !e"))
	p := pod("u", "i:1 r:2")
	require.NoError(t, l.Reserve(p))
	first := l.Pending("u")[0]
	choice, ok := l.Choice(first)
	require.True(t, ok)
	require.Equal(t, ledger.Choice{Available: []string{"a", "b", "c", "d"}, MustInclude: []string{}, Size: 1}, choice)
	require.NoError(t, l.Prefer(p, first.Slot, []string{"e", "d"}), "unhealthy devices are left out")
	require.Equal(t, "i0=d r1=a,d", show(l, "u"))
	require.True(t, l.Commit(first.Slot, nil))
	_, ok = l.Choice(l.Of("u")[0])
	require.False(t, ok, "the choice is over")

	second := l.Pending("u")[0]
	choice, ok = l.Choice(second)
	require.True(t, ok)
	require.Equal(t, ledger.Choice{Available: []string{"a", "b", "c", "d"}, MustInclude: []string{"d"}, Size: 2}, choice)
	require.NoError(t, l.Prefer(p, second.Slot, []string{"b", "c"}))
	require.Equal(t, "i0=d r1=b,d", show(l, "u"), "the device of the init container stays")
	l.Commit(second.Slot, []byte("x"))
	require.Empty(t, l.Pending("u"))
	require.False(t, l.Commit(ledger.Slot{Pod: "stranger"}, nil))
}

func TestHealth(t *testing.T) {
	l := ledger.New()
	l.Report(gpu, devices("a b"))
	require.NoError(t, l.Reserve(pod("u", "r:1")))
	status := func() v1.ResourceHealthStatus {
		all := l.Status("u", "r0")
		require.Len(t, all, 1)
		require.Equal(t, v1.ResourceName(gpu), all[0].Name)
		require.Equal(t, v1.ResourceID("a"), all[0].Resources[0].ResourceID)
		return all[0].Resources[0].Health
	}
	require.Equal(t, v1.ResourceHealthStatusHealthy, status())
	require.Empty(t, l.Report(gpu, devices("a !b")))
	require.Equal(t, map[string]ledger.Count{gpu: {Capacity: 2, Allocatable: 1}}, l.Counts())
	require.Equal(t, []types.UID{"u"}, l.Report(gpu, devices("!a b")))
	require.Equal(t, v1.ResourceHealthStatusUnhealthy, status())
	require.Equal(t, []types.UID{"u"}, l.Report(gpu, devices("b")))
	require.Equal(t, v1.ResourceHealthStatusUnknown, status())
	l.Report(gpu, devices("a b"))
	l.Forget(gpu)
	require.True(t, l.IsKnown(gpu), "the plug-in is there")
	require.Equal(t, []types.UID{"u"}, l.Leave(gpu))
	require.True(t, l.IsAway(gpu))
	require.Equal(t, v1.ResourceHealthStatusUnknown, status())
	require.Equal(t, map[string]ledger.Count{gpu: {Capacity: 2}}, l.Counts())
	require.Empty(t, l.Healthy()[gpu])
	l.Forget(gpu)
	require.False(t, l.IsKnown(gpu))
	require.Equal(t, "r0=a", show(l, "u"), "the container keeps its device")
	require.Empty(t, l.Leave(nic), "of an unknown resource")
	require.Equal(t, map[string]ledger.Count{nic: {}}, l.Counts())
	l.Forget(nic)
	l.Report(gpu, devices("a"))
	require.Error(t, l.Reserve(pod("v", "r:1")), "the device is in use")
	require.True(t, l.Release("u"))
	require.False(t, l.Release("u"))
	require.NoError(t, l.Reserve(pod("v", "r:1")))
	require.Equal(t, []types.UID{"v"}, l.Holders(gpu))
}

func TestRestore(t *testing.T) {
	l := ledger.New()
	l.Restore([]ledger.Holding{{Slot: ledger.Slot{Pod: "u", Container: "r0", Resource: gpu}, Devices: devices("b"), Response: []byte("x")}}, []string{gpu, nic})
	require.True(t, l.IsAway(gpu))
	require.NoError(t, l.Reserve(pod("u", "r:1")), "the pod has its device")
	require.Error(t, l.Reserve(pod("v", "r:1")))
	l.Report(gpu, devices("a b"))
	require.NoError(t, l.Reserve(pod("v", "r:1")))
	require.Equal(t, "r0=a", show(l, "v"))
}

func TestHoldingsAreSortedByPod(t *testing.T) {
	l := ledger.New()
	holding := func(uid, container, id string) ledger.Holding {
		return ledger.Holding{Slot: ledger.Slot{Pod: types.UID(uid), Container: container, Resource: gpu}, Devices: devices(id)}
	}
	l.Restore([]ledger.Holding{holding("v", "r1", "a"), holding("u", "r1", "b"), holding("v", "r0", "c")}, nil)
	l.Report(gpu, devices("a b c d e"))
	require.NoError(t, l.Reserve(pod("t", "r:1 r:1")))
	var all []string
	for _, h := range l.Holdings() {
		all = append(all, fmt.Sprint(h.Pod, " ", h.Container))
	}
	require.Equal(t, []string{"t r0", "t r1", "u r1", "v r1", "v r0"}, all, "those of a pod in their order")
	require.Equal(t, []types.UID{"t", "u", "v"}, l.Holders(gpu), "each pod once")
	require.Equal(t, []types.UID{"t", "u", "v"}, l.Leave(gpu), "each pod once")
}

func BenchmarkReserve(b *testing.B) {
	for _, pods := range []int{10, 100} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			l := ledger.New()
			var all []ledger.Device
			for i := range pods + 1 {
				all = append(all, ledger.Device{ID: fmt.Sprint(i), Healthy: true})
			}
			l.Report(gpu, all)
			for i := range pods {
				require.NoError(b, l.Reserve(pod(fmt.Sprint(i), "r:1")))
			}
			last := pod("last", "r:1")
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Reserve(last); err != nil {
					b.Fatal(err)
				}
				l.Release("last")
			}
		})
	}
}

func Example() {
	book := ledger.New()
	book.Report("example.com/gpu", []ledger.Device{{ID: "gpu-0", Healthy: true}, {ID: "gpu-1", Healthy: true}})
	fmt.Println(book.Reserve(pod("a", "i:1 r:1")))
	fmt.Println(book.Reserve(pod("b", "r:2")))
	for _, h := range book.Holdings() {
		fmt.Println(h.Pod, h.Container, h.IDs())
	}
	// Output:
	// <nil>
	// requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1
	// a i0 [gpu-0]
	// a r1 [gpu-0]
}

// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/runtime"
)

func TestMemoryQoS(t *testing.T) {
	const mib = 1 << 20
	page := int64(os.Getpagesize())
	n := node{memory: 1000 * mib}
	for _, tt := range []struct {
		name string
		qos  MemoryQoS
		d    podresources.Demand
		high int64 // 0: none
	}{
		{"nothing asked for", MemoryQoS{ThrottlingFactor: 0.9}, podresources.Demand{}, 0},
		{"the request is the limit", MemoryQoS{ThrottlingFactor: 0.9}, podresources.Demand{MemoryRequest: 10 * mib, MemoryLimit: 10 * mib}, 0},
		{"between the two", MemoryQoS{ThrottlingFactor: 0.5}, podresources.Demand{MemoryRequest: 10 * mib, MemoryLimit: 20 * mib}, 15 * mib},
		{"without a factor", MemoryQoS{}, podresources.Demand{MemoryRequest: 10 * mib, MemoryLimit: 20 * mib}, 0},
		{"whole pages", MemoryQoS{ThrottlingFactor: 0.5}, podresources.Demand{MemoryRequest: 10 * mib, MemoryLimit: 10*mib + 4*page + 2}, 10*mib + 2*page},
		{"less than a page", MemoryQoS{ThrottlingFactor: 0.5}, podresources.Demand{MemoryRequest: 10 * mib, MemoryLimit: 10*mib + 4}, 0},
		{"a limit only", MemoryQoS{ThrottlingFactor: 0.5}, podresources.Demand{MemoryLimit: 20 * mib}, 10 * mib},
		{"no limit", MemoryQoS{ThrottlingFactor: 0.5}, podresources.Demand{MemoryRequest: 10 * mib}, 505 * mib},
		{"no limit, and part of the node", MemoryQoS{ThrottlingFactor: 0.5, Allocatable: 500 * mib}, podresources.Demand{MemoryRequest: 10 * mib}, 255 * mib},
		{"more than there is", MemoryQoS{ThrottlingFactor: 0.5}, podresources.Demand{MemoryRequest: 2000 * mib}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := "max"
			if tt.high > 0 {
				want = strconv.FormatInt(tt.high, 10)
			}
			for class, keys := range map[v1.PodQOSClass][2]string{v1.PodQOSGuaranteed: {"memory.min", "memory.low"}, v1.PodQOSBurstable: {"memory.low", "memory.min"}} {
				tt.qos.Reservation = TieredReservation
				request := strconv.FormatInt(tt.d.MemoryRequest, 10)
				assert.Equal(t, map[string]string{"memory.high": want, keys[0]: request, keys[1]: "0"}, tt.qos.unifiedMemory(class, tt.d, n))
				tt.qos.Reservation = ""
				assert.Equal(t, map[string]string{"memory.high": want, keys[0]: "0", keys[1]: "0"}, tt.qos.unifiedMemory(class, tt.d, n))
			}
		})
	}
}

func TestSwap(t *testing.T) {
	n := node{memory: 1000, swap: 500}
	ask := requires(list("memory", "100"), list("memory", "200"))
	for _, tt := range []struct {
		name   string
		policy SwapPolicy
		edit   func(p *v1.Pod)
		want   int64
	}{
		{"none", NoSwap, func(*v1.Pod) {}, 0},
		{"its part", LimitedSwap, func(*v1.Pod) {}, 50},
		{"no request", LimitedSwap, func(p *v1.Pod) { p.Spec.Containers[0].Resources = requires(list("cpu", "1"), nil) }, 0},
		{"the request is the limit", LimitedSwap, func(p *v1.Pod) { p.Spec.Containers[0].Resources = requires(nil, list("memory", "100")) }, 0},
		{"guaranteed", LimitedSwap, func(p *v1.Pod) { p.Status.QOSClass = v1.PodQOSGuaranteed }, 0},
		{"critical", LimitedSwap, func(p *v1.Pod) { p.Spec.Priority = pointer(int32(2_000_000_000)) }, 0},
		{"less than critical", LimitedSwap, func(p *v1.Pod) { p.Spec.Priority = pointer(int32(1_999_999_999)) }, 50},
		{"static", LimitedSwap, func(p *v1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }, 0},
		{"from the API", LimitedSwap, func(p *v1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "api"} }, 50},
		{"a mirror", LimitedSwap, func(p *v1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"} }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := testPod("u1", "main")
			pod.Spec.Containers[0].Resources = ask
			tt.edit(pod)
			assert.Equal(t, tt.want, tt.policy.swapOf(pod, podresources.Of(&pod.Spec.Containers[0].Resources), n))
		})
	}
}

// No memory option applies without being set, nor without cgroup v2.
func TestMemoryOptionsAreOff(t *testing.T) {
	pod := testPod("u1", "main")
	pod.Spec.Containers[0].Resources = requires(list("memory", "100Mi"), list("memory", "200Mi"))
	unified := func(n node) map[string]string {
		n.memory = 1 << 30
		return containerResources(pod, &pod.Spec.Containers[0], runtime.GroupRegular, n).GetUnified()
	}
	qos := &MemoryQoS{Reservation: TieredReservation, ThrottlingFactor: 0.5}
	assert.Equal(t, map[string]string{"memory.oom.group": "1"}, unified(node{cgroup2: true}))
	assert.Equal(t, map[string]string{"memory.oom.group": "1", "memory.swap.max": "0"}, unified(node{cgroup2: true, policy: NoSwap}))
	assert.Equal(t, map[string]string{"memory.oom.group": "1", "memory.min": "0", "memory.low": "104857600", "memory.high": "157286400"}, unified(node{cgroup2: true, qos: qos}))
	assert.Nil(t, unified(node{policy: NoSwap, qos: qos}))
	assert.Nil(t, updateOf(podresources.Demand{MemoryRequest: 5}, node{}).GetUnified())
	assert.Equal(t, map[string]string{"memory.high": "max"}, updateOf(podresources.Demand{}, node{qos: qos}).GetUnified(), "what was there is taken away")

	for _, bad := range []Options{
		{Swap: "odd"}, {MemoryQoS: &MemoryQoS{ThrottlingFactor: 1.1}}, {MemoryQoS: &MemoryQoS{ThrottlingFactor: math.NaN()}},
		{MemoryQoS: &MemoryQoS{Allocatable: -1}}, {MemoryQoS: &MemoryQoS{Reservation: "odd"}},
	} {
		bad.Root = "/x"
		_, err := bad.complete()
		assert.ErrorContains(t, err, "cri: Options.")
	}
	here, err := lookAtNode(Options{})
	require.NoError(t, err)
	for _, opts := range []Options{{Swap: NoSwap}, {MemoryQoS: qos}} {
		_, err := lookAtNode(opts)
		assert.Equal(t, here.cgroup2, err == nil, "%v", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
)

func TestCheckResources(t *testing.T) {
	const node = "cpu=2 memory=1Gi ephemeral-storage=10Gi pods=3 example.com/gpu=1"
	for _, tt := range []struct {
		name   string
		node   string
		active []*v1.Pod
		pod    *v1.Pod
		want   []string
		says   string
	}{
		{name: "fits exactly", active: []*v1.Pod{pod("a", asks("cpu=500m"))}, pod: pod("p", asks("cpu=1500m memory=1Gi"))},
		{name: "cpu", active: []*v1.Pod{pod("a", asks("cpu=500m"))}, pod: pod("p", asks("cpu=1501m")), want: []string{"OutOfcpu"},
			says: "Node didn't have enough resource: cpu, requested: 1501, used: 500, capacity: 2000"},
		{name: "memory", pod: pod("p", asks("memory=1025Mi")), want: []string{"OutOfmemory"},
			says: "Node didn't have enough resource: memory, requested: 1074790400, used: 0, capacity: 1073741824"},
		{name: "memory beyond 2^63", pod: pod("p", asks("memory=10E")), want: []string{"OutOfmemory"}},
		{name: "beside pods beyond 2^63", active: []*v1.Pod{pod("a", asks("memory=9E")), pod("b", asks("memory=9E"))}, pod: pod("p", asks("memory=1")), want: []string{"OutOfmemory"}},
		{name: "ephemeral storage", pod: pod("p", asks("ephemeral-storage=11Gi")), want: []string{"OutOfephemeral-storage"}},
		{name: "all of them, in order", pod: pod("p", asks("example.com/gpu=2 memory=2Gi cpu=3")), want: []string{"OutOfcpu", "OutOfmemory", "OutOfexample.com/gpu"}},
		{name: "pods", active: []*v1.Pod{pod("a"), pod("b"), pod("c")}, pod: pod("p"), want: []string{"OutOfpods"},
			says: "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"},
		{name: "full, but it asks for nothing", active: []*v1.Pod{pod("a", asks("cpu=3"))}, pod: pod("p", asks("memory=1Mi"))},
		{name: "extended resource in use", active: []*v1.Pod{pod("a", asks("example.com/gpu=1"))}, pod: pod("p", asks("example.com/gpu=1")), want: []string{"OutOfexample.com/gpu"}},
		{name: "extended resource of the cluster", pod: pod("p", asks("example.com/licence=5"))},
		{name: "hugepages are never assumed", pod: pod("p", asks("hugepages-2Mi=2Mi")), want: []string{"OutOfhugepages-2Mi"}},
		{name: "what is not known is not limited", node: "pods=1", pod: pod("p", asks("cpu=100 memory=1Ti ephemeral-storage=1Ti"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			allocatable := list(node)
			if tt.node != "" {
				allocatable = list(tt.node)
			}
			failures := admission.Check(&admission.Node{Allocatable: allocatable}, usage(tt.active...), admission.DemandOf(tt.pod))
			require.Equal(t, tt.want, reasons(failures))
			if tt.says != "" {
				require.Equal(t, tt.says, failures[0].Message)
			}
			for _, f := range failures {
				require.NotNil(t, f.Shortage)
			}
		})
	}
	t.Run("nothing is known", func(t *testing.T) {
		require.Empty(t, admission.Check(&admission.Node{}, usage(), admission.DemandOf(pod("p", asks("cpu=100 hugepages-2Mi=2Mi")))))
	})
}

// For random pods in random order, admitted pods fit, and refused pods would not have fitted,
// according to an independent count.
func TestWhatIsAdmittedFits(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	kinds := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "example.com/x"}
	for range 500 {
		capacity := map[v1.ResourceName]int64{}
		node := &admission.Node{Allocatable: v1.ResourceList{}}
		for _, k := range kinds {
			capacity[k] = 1 + random.Int64N(20)
			node.Allocatable[k] = list(fmt.Sprintf("%s=%d", k, capacity[k]))[k]
		}
		most := 1 + random.IntN(6)
		node.Allocatable[v1.ResourcePods] = list(fmt.Sprintf("pods=%d", most))[v1.ResourcePods]
		active, admitted, used := usage(), 0, map[v1.ResourceName]int64{}
		for i := range 12 {
			wants := map[v1.ResourceName]int64{}
			text := ""
			for _, k := range kinds {
				wants[k] = random.Int64N(8)
				text += fmt.Sprintf("%s=%d ", k, wants[k])
			}
			fits := admitted < most
			for _, k := range kinds {
				fits = fits && (wants[k] == 0 || used[k]+wants[k] <= capacity[k])
			}
			own := admission.DemandOf(pod(fmt.Sprint(i), asks(text)))
			failures := admission.Check(node, active, own)
			require.Equal(t, fits, len(failures) == 0, "%s beside %v of %v: %v", text, used, capacity, failures)
			if fits {
				active.Add(own)
				admitted++
				for _, k := range kinds {
					used[k] += wants[k]
				}
			}
		}
	}
}

func port(host int32, ip string, protocol v1.Protocol) edit {
	return func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: host, HostIP: ip, Protocol: protocol}}})
	}
}

// A manifest with a device request runs only on a node with the device. For a pod of an API server,
// the scheduler may account for the resource.
func TestCheckExtendedResources(t *testing.T) {
	gpu := asks("example.com/gpu=1")
	for _, tt := range []struct {
		name string
		node v1.ResourceList
		own  *v1.Pod
		want []string
	}{
		{name: "static, the node says nothing", own: pod("p", static, gpu), want: []string{"OutOfexample.com/gpu"}},
		{name: "static, the node has cpu only", node: list("cpu=4"), own: pod("p", static, gpu), want: []string{"OutOfexample.com/gpu"}},
		{name: "static, the node has it", node: list("example.com/gpu=1"), own: pod("p", static, gpu)},
		{name: "static, a resource of Kubernetes", own: pod("p", static, asks("cpu=1"))},
		{name: "scheduled", own: pod("p", gpu)},
		{name: "scheduled, the node has less", node: list("example.com/gpu=0"), own: pod("p", gpu), want: []string{"OutOfexample.com/gpu"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, f := range admission.Check(&admission.Node{Allocatable: tt.node}, usage(), admission.DemandOf(tt.own)) {
				got = append(got, f.Reason)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestCheckPorts(t *testing.T) {
	hostNetwork := func(p *v1.Pod) { p.Spec.HostNetwork = true }
	for _, tt := range []struct {
		name        string
		theirs, own *v1.Pod
		taken       bool
	}{
		{name: "none", theirs: pod("a"), own: pod("p")},
		{name: "container ports are the pod's own", theirs: pod("a", port(0, "", "")), own: pod("p", port(0, "", ""))},
		{name: "the same", theirs: pod("a", port(80, "", "")), own: pod("p", port(80, "", v1.ProtocolTCP)), taken: true},
		{name: "another", theirs: pod("a", port(80, "", "")), own: pod("p", port(81, "", ""))},
		{name: "another protocol", theirs: pod("a", port(80, "", v1.ProtocolUDP)), own: pod("p", port(80, "", ""))},
		{name: "another address", theirs: pod("a", port(80, "10.0.0.1", "")), own: pod("p", port(80, "10.0.0.2", ""))},
		{name: "one of all addresses", theirs: pod("a", port(80, "", "")), own: pod("p", port(80, "10.0.0.2", "")), taken: true},
		{name: "all and one of them", theirs: pod("a", port(80, "10.0.0.2", "")), own: pod("p", port(80, "0.0.0.0", "")), taken: true},
		{name: "on the node's network", theirs: pod("a", port(0, "", ""), hostNetwork), own: pod("p", port(80, "", "")), taken: true},
		{name: "two containers of one pod", theirs: pod("a"), own: pod("p", port(80, "", ""), port(80, "", ""))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failures := admission.Check(&admission.Node{}, usage(tt.theirs), admission.DemandOf(tt.own))
			require.Equal(t, tt.taken, len(failures) == 1)
			if tt.taken {
				assert.Equal(t, "NodePorts", failures[0].Reason)
				assert.Equal(t, "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports", failures[0].Message)
				assert.Nil(t, failures[0].Shortage, "a port is nothing that preemption helps with")
			}
		})
	}
}

func TestCheckTaintsAndNames(t *testing.T) {
	out := v1.Taint{Key: "down", Value: "now", Effect: v1.TaintEffectNoExecute}
	tolerating := func(t v1.Toleration) edit {
		return func(p *v1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
	}
	named := func(name string) edit { return func(p *v1.Pod) { p.Spec.NodeName = name } }
	for _, tt := range []struct {
		name  string
		taint v1.Taint
		pod   *v1.Pod
		want  []string
	}{
		{name: "not tolerated", taint: out, pod: pod("p"), want: []string{"TaintToleration"}},
		{name: "a static pod comes anyway", taint: out, pod: pod("p", static)},
		{name: "NoSchedule is the scheduler's", taint: v1.Taint{Key: "down", Effect: v1.TaintEffectNoSchedule}, pod: pod("p")},
		{name: "tolerated by value", taint: out, pod: pod("p", tolerating(v1.Toleration{Key: "down", Value: "now"}))},
		{name: "another value", taint: out, pod: pod("p", tolerating(v1.Toleration{Key: "down", Value: "later"})), want: []string{"TaintToleration"}},
		{name: "another effect", taint: out, pod: pod("p", tolerating(v1.Toleration{Key: "down", Value: "now", Effect: v1.TaintEffectNoSchedule})), want: []string{"TaintToleration"}},
		{name: "that it is there", taint: out, pod: pod("p", tolerating(v1.Toleration{Key: "down", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}))},
		{name: "everything", taint: out, pod: pod("p", tolerating(v1.Toleration{Operator: v1.TolerationOpExists}))},
		{name: "another node", pod: pod("p", named("other")), want: []string{"NodeName"}},
		{name: "this node", pod: pod("p", named("here"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := &admission.Node{Name: "here", Taints: []v1.Taint{tt.taint}}
			require.Equal(t, tt.want, reasons(admission.Check(node, usage(), admission.DemandOf(tt.pod))))
		})
	}
}

func TestCheckSystem(t *testing.T) {
	sysctl := func(name string) edit {
		return func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: "1"}}}
		}
	}
	for _, tt := range []struct {
		name string
		pod  *v1.Pod
		want []string
		says string
	}{
		{name: "nothing said", pod: pod("p")},
		{name: "the same", pod: pod("p", func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Linux} })},
		{name: "another", pod: pod("p", func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} }), want: []string{"PodOSNotSupported"},
			says: "Failed to admit pod as the OS field doesn't match node OS"},
		{name: "another by label", pod: pod("p", func(p *v1.Pod) { p.Labels = map[string]string{v1.LabelOSStable: "windows"} }),
			want: []string{"PodOSSelectorNodeLabelDoesNotMatch"}, says: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"},
		{name: "safe", pod: pod("p", sysctl("net.ipv4.tcp_rmem"))},
		{name: "safe, with slashes", pod: pod("p", sysctl("net/ipv4/tcp_rmem"))},
		{name: "unsafe", pod: pod("p", sysctl("net.core.somaxconn")), want: []string{"SysctlForbidden"}, says: `forbidden sysctl: "net.core.somaxconn" not allowlisted`},
		{name: "unsafe but allowed", pod: pod("p", sysctl("kernel.msgmax"))},
		{name: "allowed but the node's own", pod: pod("p", sysctl("vm.swappiness")), want: []string{"SysctlForbidden"}},
		{name: "of the node's network", pod: pod("p", sysctl("net.ipv4.tcp_rmem"), func(p *v1.Pod) { p.Spec.HostNetwork = true }),
			want: []string{"SysctlForbidden"}, says: `forbidden sysctl: "net.ipv4.tcp_rmem" not allowed with host Net enabled`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failures := admission.Check(&admission.Node{OS: "linux", UnsafeSysctls: []string{"kernel.msg*", "vm.*"}}, usage(), admission.DemandOf(tt.pod))
			require.Equal(t, tt.want, reasons(failures))
			if tt.says != "" {
				require.Equal(t, tt.says, failures[0].Message)
			}
		})
	}
}

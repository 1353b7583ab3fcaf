// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The requirements of described pods.

// zoneLabel is a label of nodes with limits. Its value there is zoneHere.
const (
	zoneLabel = "keelson.dev/zone"
	zoneHere  = "a"
)

// need is a resource in scripts: cpu in thousandths, others in MiB.
type need struct {
	word string
	name v1.ResourceName
}

var (
	needCPU = need{"cpu", v1.ResourceCPU}
	needs   = []need{needCPU, {"memory", v1.ResourceMemory}, {"disk", v1.ResourceEphemeralStorage}}
)

func (n need) quantity(amount int) resource.Quantity {
	if n.name == v1.ResourceCPU {
		return *resource.NewMilliQuantity(int64(amount), resource.DecimalSI)
	}
	return *resource.NewQuantity(int64(amount)<<20, resource.BinarySI)
}

// of sets the request of a container, and the limit to a multiple of it.
func (n need) of(c *v1.Container, amount, burst int) {
	r := c.Resources.DeepCopy()
	if r.Requests == nil {
		r.Requests, r.Limits = v1.ResourceList{}, v1.ResourceList{}
	}
	r.Requests[n.name], r.Limits[n.name] = n.quantity(amount), n.quantity(burst*amount)
	c.Resources = *r
}

// needs takes the requests of a pod: cpu, memory and disk for each regular container.
func (a *args) needs(pod *v1.Pod) {
	burst := a.number("burst", 1)
	for _, n := range needs {
		if amount := a.number(n.word, 0); amount > 0 {
			for i := range pod.Spec.Containers {
				n.of(&pod.Spec.Containers[i], amount, burst)
			}
		}
	}
	if amount := a.number("initcpu", 0); amount > 0 {
		for i := range pod.Spec.InitContainers {
			needCPU.of(&pod.Spec.InitContainers[i], amount, burst)
		}
	}
	if word, ok := a.option("resizing"); ok {
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceName(word), RestartPolicy: v1.RestartContainer}}
		}
	}
	if word, ok := a.option("priority"); ok {
		n := int32(a.toNumber(word))
		pod.Spec.Priority = &n
	}
	if gate, ok := a.option("gate"); ok {
		pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: v1.PodConditionType(gate)}}
	}
	if zone, ok := a.option("zone"); ok {
		pod.Spec.NodeSelector = map[string]string{zoneLabel: zone}
	}
	if name, ok := a.option("sysctl"); ok {
		pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: "1"}}}
	}
	a.place(pod)
	a.owners(pod)
}

// allocatable takes the resources of a node. The result is nil without a limit.
func (a *args) allocatable() v1.ResourceList {
	list := v1.ResourceList{}
	for _, n := range needs {
		if amount := a.number(n.word, 0); amount > 0 {
			list[n.name] = n.quantity(amount)
		}
	}
	if n := a.number("pods", 0); n > 0 {
		list[v1.ResourcePods] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resourceField returns an amount of a container's resources in units of the divisor, rounded up. A limit that is not
// set is the pod's, if that has one, else what the node can give at most.
func resourceField(pod *v1.Pod, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	container, ok := resourcesOf(pod, ref.ContainerName)
	if !ok {
		return "", fmt.Errorf("the pod has no container %q", ref.ContainerName)
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	what := v1.ResourceName(name)
	hugePages := strings.HasPrefix(name, v1.ResourceHugePagesPrefix)
	if what != v1.ResourceCPU && what != v1.ResourceMemory && what != v1.ResourceEphemeralStorage && !hugePages {
		return "", fmt.Errorf("unsupported resource %q", ref.Resource)
	}
	var amount resource.Quantity
	switch kind {
	case "requests":
		amount = container.Requests[what]
	case "limits":
		amount, ok = firstSet(what, container.Limits, podLimits(pod), allocatable)
		if !ok && !hugePages {
			return "", fmt.Errorf("%s is not set, and what this node can allocate of it is not known", ref.Resource)
		}
	default:
		return "", fmt.Errorf("unsupported resource %q", ref.Resource)
	}
	return divideUp(amount, ref.Divisor)
}

func resourcesOf(pod *v1.Pod, name string) (v1.ResourceRequirements, bool) {
	for _, cs := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if i := slices.IndexFunc(cs, func(c v1.Container) bool { return c.Name == name }); i >= 0 {
			return cs[i].Resources, true
		}
	}
	return v1.ResourceRequirements{}, false
}

func podLimits(pod *v1.Pod) v1.ResourceList {
	if pod.Spec.Resources == nil {
		return nil
	}
	return pod.Spec.Resources.Limits
}

func firstSet(name v1.ResourceName, lists ...v1.ResourceList) (resource.Quantity, bool) {
	for _, l := range lists {
		if q, ok := l[name]; ok && !q.IsZero() {
			return q, true
		}
	}
	return resource.Quantity{}, false
}

// divideUp returns amount / divisor, rounded up to a whole number; a zero divisor is 1. It is exact at any size.
func divideUp(amount, divisor resource.Quantity) (string, error) {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if divisor.Sign() < 0 {
		return "", errors.New("the divisor is negative")
	}
	ratio := new(big.Rat).Quo(exact(amount), exact(divisor))
	up := new(big.Int).Sub(ratio.Denom(), big.NewInt(1))
	up.Add(up, ratio.Num())
	return up.Div(up, ratio.Denom()).String(), nil
}

// exact returns q as a fraction. q is a copy: AsDec changes its receiver.
func exact(q resource.Quantity) *big.Rat {
	r, ok := new(big.Rat).SetString(q.AsDec().String())
	if !ok {
		return new(big.Rat)
	}
	return r
}

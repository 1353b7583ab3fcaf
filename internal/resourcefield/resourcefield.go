// SPDX-License-Identifier: Apache-2.0

// Package resourcefield evaluates resourceFieldRef, for environment variables and for downwardAPI
// volumes.
package resourcefield

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podresources"
)

// Value returns the amount of the resource named by ref for container c of pod, in units of its
// divisor, rounded up. ref.ContainerName is ignored. allocatable are the node's allocatable
// resources.
//
// If a limit is missing or zero, the pod's limit applies, else the node's allocatable amount. If
// neither is known, Value returns an error. The kubelet knows only the allocatable amount, and so
// reports more than the pod may use. Huge pages have no such default: without a request none are
// available. A missing request is 0.
func Value(pod *v1.Pod, c *v1.Container, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	if !isSupported(v1.ResourceName(name)) {
		return "", fmt.Errorf("unsupported resource %q", ref.Resource)
	}
	var amount resource.Quantity
	switch kind {
	case "requests":
		amount = c.Resources.Requests[v1.ResourceName(name)]
	case "limits":
		var known bool
		if amount, known = limit(pod, c, v1.ResourceName(name), allocatable); !known {
			return "", fmt.Errorf("%s is not set, and the allocatable resources of this node are not known", ref.Resource)
		}
	default:
		return "", fmt.Errorf("unsupported resource %q", ref.Resource)
	}
	return divideUp(amount, ref.Divisor)
}

func isSupported(name v1.ResourceName) bool {
	switch name {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return true
	}
	return podresources.IsHugePages(name)
}

// limit returns the effective limit of a container.
func limit(pod *v1.Pod, c *v1.Container, name v1.ResourceName, allocatable v1.ResourceList) (q resource.Quantity, known bool) {
	if q := c.Resources.Limits[name]; !q.IsZero() {
		return q, true
	}
	if pod.Spec.Resources != nil {
		if q := pod.Spec.Resources.Limits[name]; !q.IsZero() {
			return q, true
		}
	}
	if podresources.IsHugePages(name) {
		return resource.Quantity{}, true
	}
	q, known = allocatable[name]
	return q, known
}

// divideUp returns amount / divisor, rounded up to a whole number; a zero divisor is 1. The result
// is exact at any size; the kubelet calculates with float64.
func divideUp(amount, divisor resource.Quantity) (string, error) {
	if divisor.IsZero() {
		divisor = *resource.NewQuantity(1, resource.DecimalSI)
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
	dec := q.AsDec()
	scale := int64(dec.Scale()) // the value is unscaled / 10^scale
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(scale, -scale)), nil)
	r := new(big.Rat).SetInt(dec.UnscaledBig())
	if scale < 0 {
		return r.Mul(r, new(big.Rat).SetInt(power))
	}
	return r.Quo(r, new(big.Rat).SetInt(power))
}

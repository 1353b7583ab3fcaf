// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/quantities"
)

// Reason is the reason of an evicted pod's status, and of the status of a pod that is refused under
// pressure. The kubelet has the same.
const Reason = "Evicted"

// Eviction is the decision to end a pod.
type Eviction struct {
	Pod *v1.Pod
	// Grace is the longest grace period of the pod, in whole seconds, at least one. Nil: the pod's
	// own counts.
	Grace *int64
	// Cause is a Signal or one of the Limit constants, as in the label of the kubelet's metric
	// kubelet_evictions.
	Cause string
	// Measured is the time of the reading that the decision is about. Zero for a limit of the pod.
	Measured time.Time
	// Message is the message of the pod's status and event, as in the kubelet.
	Message string
	// Annotations are those of the event, as in the kubelet.
	Annotations map[string]string
	// IsDisruption: the status gets the condition DisruptionTarget.
	IsDisruption bool
}

// Keys of Eviction.Annotations.
const (
	annotationContainers = "offending_containers"
	annotationUsage      = "offending_containers_usage"
	annotationResource   = "starved_resource"
)

// Victim returns the eviction of the first ranked pod that is not critical. found is false if all
// pods are critical: static pods, mirror pods, and pods of a system priority.
func (p Policy) Victim(t Threshold, l Layout, ranked []Usage, r Reading) (e Eviction, found bool) {
	for i := range ranked {
		u := &ranked[i]
		if podfacts.IsCritical(u.Pod) {
			continue
		}
		e = Eviction{Pod: u.Pod, Grace: p.grace(t, u.Pod), Cause: string(t.Signal), Measured: r.At, IsDisruption: true}
		e.Message, e.Annotations = describe(t, l, u, r)
		return e, true
	}
	return e, false
}

// grace returns the longest grace period of a pod evicted for a threshold.
func (p Policy) grace(t Threshold, pod *v1.Pod) *int64 {
	seconds := int64(p.MaxGrace / time.Second)
	switch {
	case t.IsHard():
		seconds = 1
	case seconds < 0:
		return nil
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = min(seconds, *pod.Spec.TerminationGracePeriodSeconds)
	}
	return new(max(seconds, 1))
}

// describe returns the message and the annotations of an eviction. They name the containers that use
// more memory or disk space than they request.
func describe(t Threshold, l Layout, u *Usage, r Reading) (message string, annotations map[string]string) {
	name := t.Signal.Resource()
	message = fmt.Sprintf("The node was low on resource: %s. Threshold quantity: %s, available: %s. ",
		name, belowOf(t, name, r.Capacity), amountOf(name, r.Available))
	var names, amounts []string
	for i := range u.Containers {
		c := &u.Containers[i]
		used, counted := int64(0), true
		switch name {
		case v1.ResourceMemory:
			used = c.Memory
		case v1.ResourceEphemeralStorage:
			used = c.Root.plus(c.Logs).Bytes
		default:
			counted = false
		}
		request := requestOf(u.Pod, c.Name, name)
		if !counted || used <= quantities.Value(request) {
			continue
		}
		amount := amountOf(name, used)
		message += fmt.Sprintf("Container %s was using %s, request is %s, has larger consumption of %s. ", c.Name, amount, request.String(), name)
		names, amounts = append(names, c.Name), append(amounts, amount)
	}
	return message, map[string]string{
		annotationContainers: strings.Join(names, ","), annotationUsage: strings.Join(amounts, ","), annotationResource: string(name),
	}
}

// requestOf returns the request of a container, 0 without one.
func requestOf(pod *v1.Pod, container string, name v1.ResourceName) resource.Quantity {
	for c := range podfacts.Containers(&pod.Spec) {
		if c.Name == container {
			return c.Resources.Requests[name]
		}
	}
	return resource.Quantity{}
}

// belowOf returns the text of a threshold. As in the kubelet, a share of 10,000 inodes is 10000, and an
// amount of 10,000 inodes is 10k.
func belowOf(t Threshold, name v1.ResourceName, capacity int64) string {
	below := t.Below.Of(capacity)
	if t.Below.Share > 0 {
		return resource.NewQuantity(below, resource.BinarySI).String()
	}
	return amountOf(name, below)
}

// amountOf returns the text of an amount of a resource.
func amountOf(name v1.ResourceName, n int64) string {
	form := resource.BinarySI
	if name == resourceInodes || name == resourcePIDs {
		form = resource.DecimalSI
	}
	return resource.NewQuantity(n, form).String()
}

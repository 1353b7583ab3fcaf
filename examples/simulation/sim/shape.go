// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/internal/podresources"
)

// The amounts that scoring assumes for a container without a request (kube-scheduler 1.36).
const (
	assumedCPU    = 100
	assumedMemory = 200 << 20
)

// Shape is all that the scheduler knows of pods of the same template. A Shape is immutable and is
// shared: decisions about pods of one Shape are cached.
type Shape struct {
	// Template is the pod without name, UID and node.
	Template *v1.Pod
	// Requests are the resource requests of the pod. NonZero assumes 100m CPU and 200 MiB for each container
	// without a request.
	Requests, NonZero Resources
	// GPU is the request of shared or whole GPUs by device, beside extended resources.
	GPU      GPURequest
	Priority int32
	// Ports are the host ports.
	Ports []admission.HostPort
	// Images are the images of all containers, with ":latest" if they have no tag.
	Images []string
	// ReadyAfter is the time from the start of the containers to readiness, by the longest initial
	// delay of a readiness or startup probe.
	ReadyAfter time.Duration

	terms bool // the pod has inter-pod affinity or anti-affinity
}

// GPURequest asks for Count devices with at least Milli thousandths left on each. A request of
// less than 1000 is for a share of a single device.
type GPURequest struct {
	Count  int
	Milli  int64
	Models []string // permitted models; none: any
}

// Total returns the requested thousandths of all devices.
func (g *GPURequest) Total() int64 { return int64(g.Count) * g.Milli }

// Accepts reports whether the model of a node is permitted.
func (g *GPURequest) Accepts(model string) bool {
	return len(g.Models) == 0 || slices.Contains(g.Models, model)
}

// NewShape reads a template. The template must not be written afterwards.
func NewShape(template *v1.Pod, gpu GPURequest) (*Shape, error) {
	if template == nil {
		return nil, errors.New("sim: a shape needs a pod template")
	}
	if gpu.Count < 0 || gpu.Milli < 0 || gpu.Milli > 1000 || gpu.Milli < 1000 && gpu.Count > 1 || (gpu.Count == 0) != (gpu.Milli == 0) {
		return nil, fmt.Errorf("sim: %d GPUs with %d thousandths each: want whole GPUs, or a share of a single GPU", gpu.Count, gpu.Milli)
	}
	s := &Shape{Template: template, GPU: gpu, Requests: ResourcesOf(podresources.Requests(template)), Ports: admission.HostPorts(template)}
	s.NonZero = s.Requests
	if template.Spec.Priority != nil {
		s.Priority = *template.Spec.Priority
	}
	for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		s.Images = append(s.Images, tagged(c.Image))
	}
	for i := range template.Spec.Containers {
		s.container(&template.Spec.Containers[i])
	}
	a := template.Spec.Affinity
	s.terms = a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
	return s, nil
}

// container adds a regular container.
func (s *Shape) container(c *v1.Container) {
	asks := func(name v1.ResourceName) bool {
		request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
		return !request.IsZero() || !limit.IsZero()
	}
	if !asks(v1.ResourceCPU) {
		s.NonZero.CPU += assumedCPU
	}
	if !asks(v1.ResourceMemory) {
		s.NonZero.Memory += assumedMemory
	}
	for _, probe := range []*v1.Probe{c.StartupProbe, c.ReadinessProbe} {
		if probe != nil {
			s.ReadyAfter = max(s.ReadyAfter, time.Duration(probe.InitialDelaySeconds)*time.Second)
		}
	}
}

// tagged returns the image with the tag that a runtime assumes.
func tagged(image string) string {
	if name := image[strings.LastIndex(image, "/")+1:]; image == "" || strings.ContainsAny(name, ":@") {
		return image
	}
	return image + ":latest"
}

// Pod is a pod of a simulation. Only the simulation writes the fields of a Pod.
type Pod struct {
	UID   uint64 // unique in a simulation, in the order of submission
	Name  string
	Shape *Shape
	Gang  *Gang // nil: the pod is alone
	User  string
	// Work is the duration of the containers. 0: the pod runs until it is evicted.
	Work time.Duration

	Node    *Node // where the pod is assumed or bound
	Devices []int // indices of the GPUs, in ascending order
	Phase   Phase

	// The instants of virtual time of the life, or Never.
	Submitted, Bound, Pulled, Started, Ready, Ended time.Duration

	queued   queuing
	epoch    uint32 // of the timers
	slot     int    // in Node.Pods
	evicting bool
	cause    string        // of the eviction
	victimOf *Pod          // the pod that preempts
	replica  bool          // of Replicas
	replaced bool          // by a controller
	first    time.Duration // submission of the first pod that this pod replaces
	running  bool          // counted as running
	counted  bool          // the wait was counted
}

// Phase is the state of a pod.
type Phase uint8

// The phases.
const (
	Pending   Phase = iota // not bound
	Assumed                // bound or waiting for Permit
	Running                // the containers have started
	Succeeded              // the work is done
	Failed                 // evicted, lost, or deleted before its end
)

// String returns the name of the phase.
func (p Phase) String() string {
	return [...]string{"Pending", "Assumed", "Running", "Succeeded", "Failed"}[p]
}

// Gang is a group of pods of which Min must run at once.
type Gang struct {
	Name string
	Min  int
	Size int

	Placed int // pods that are assumed or bound

	members        []*Pod
	started, ended int // pods whose start and end were counted
}

// Nominated returns the node that a PostFilter has nominated for the pod, or nil.
func (p *Pod) Nominated() *Node { return p.queued.nominated }

// Evicting reports whether an eviction of the pod has begun.
func (p *Pod) Evicting() bool { return p.evicting }

// Queueing is the state of a pod in the queue, for QueueSort.
type Queueing struct {
	// At is the last move to the active pods, and Expiry the end of the last back-off.
	At, Expiry time.Duration
	// Attempts is the number of cycles. Failures and Errors are the numbers of refusals, and of errors in
	// a row.
	Attempts, Failures, Errors int
}

// Queueing returns the state of the pod in the queue.
func (p *Pod) Queueing() Queueing {
	q := &p.queued
	return Queueing{q.at, q.expiry, q.attempts, q.failures, q.errors}
}

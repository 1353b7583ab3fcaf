// SPDX-License-Identifier: Apache-2.0

package feature

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// Feature is a capability of a node: a set of functions that the node calls at the moments
// described below. Every function may be nil. The node calls the functions of its features in the
// order of node.FeatureNames, followed by the order of node.Options.Features. Only the undo
// functions of Hook.Around and Hook.Release run in the reverse order. Pods passed to a feature are
// shared and must not be written.
type Feature struct {
	// Name identifies the feature in errors and in node.Options.Without. Required, and unique on
	// the node.
	Name string

	// Hook adds steps to the sync of a pod. The pod's worker calls the functions of the Hook, one
	// at a time for each pod.
	podsync.Hook

	// Open reads files that an earlier agent wrote. The node calls Open once, before Run and before
	// the first pod is known, while the node holds the lock on its root folder.
	Open func()
	// Check returns the fields of a pod that the feature cannot honour, each with the reason. A pod
	// with such a field is refused. The node's loop calls Check, so Check must not block. Host.CheckPod
	// calls Check, too, from other goroutines.
	Check func(pod *v1.Pod) (refused []string)
	// Admit decides about a new pod. For a pod that waits, Admit is called again after
	// Host.Reconsider and after each change that the gate notices. Pods that ran before this agent
	// are not refused. The gate calls Admit on the node's loop, so Admit must not block. A node
	// without the feature gate does not call Admit.
	Admit func(pod *v1.Pod) AdmitResult
	// Assigns reports whether the feature gives pieces of an extended resource to pods. The gate
	// leaves the count of such a resource to Admit. Assigns must not block.
	Assigns func(resource v1.ResourceName) bool
	// Container adds to the spec of a container before each start, for example devices. The pod and
	// the container must not be written. After an error the container is not created, and its start
	// is tried again. The error names the field of the container and has no secrets. The calls for
	// the containers of a pod may be concurrent.
	Container func(ctx context.Context, pod *v1.Pod, c *v1.Container, spec *runtime.ContainerSpec) error
	// ConfigUpdated receives every configuration update before the node acts on the update. Updates include
	// mirror pods. The node's loop calls ConfigUpdated, so ConfigUpdated must not block.
	ConfigUpdated func(podconfig.Update)
	// Published receives every new status of a pod, in order for each pod. Published must not block.
	Published func(pod *v1.Pod, status v1.PodStatus)
	// Stopped is called when the containers of a pod have stopped. Stopped must not block.
	Stopped func(uid types.UID)
	// Ended is called when no container of a pod runs and its volumes are unmounted. The call may
	// be repeated.
	Ended func(pod *v1.Pod)
	// Housekeep is called at each housekeeping pass; known reports whether the node still knows a pod. A
	// feature with facts about pods outside slots deletes facts about unknown pods here. The node's
	// loop calls Housekeep, so Housekeep must not block.
	Housekeep func(known func(types.UID) bool)
	// Images returns references and IDs of images that garbage collection must keep, in addition to
	// the images of pods. Several goroutines call Images.
	Images func() []string
	// Run does the feature's background work and returns when ctx ends. The error of the node's Run
	// includes the returned error.
	Run func(ctx context.Context) error
}

// Failure says why Host.Fail makes a pod Failed.
type Failure struct {
	Reason, Message string
	// Condition is added to the pod's status. Defaults to no condition.
	Condition *v1.PodCondition
	// ByExit leaves the phase to the containers: the pod is Succeeded, without reason and message, if
	// every container exits with code 0, and Failed with reason and message otherwise. Needs a
	// Condition. Not for static pods, whose exits give no terminal phase. Defaults to false: the pod is
	// Failed.
	ByExit bool
	// GracePeriodSeconds is the longest grace period for the pod's containers. Values below 1 count as
	// 1. Defaults to nil: the pod's own grace period.
	GracePeriodSeconds *int64
	// Evict marks the pod as evicted: the remains of the pod are removed at once. See
	// podworkers.KillOptions.
	Evict bool
}

// Gate decides which desired pods run, and with which resources. A node has exactly one Gate. The
// node's loop calls the methods, so a method must not block. Other goroutines call the functions of
// the Gate's Feature.
type Gate interface {
	// Feature returns additional functions of the gate, for example its background work.
	Feature() Feature
	// Order returns the pods in the order of the Admit calls. The caller owns the result.
	Order(pods []*v1.Pod) []*v1.Pod
	// Admit decides about a pod and, if the pod is admitted, reserves its resources. The node calls
	// Admit again for an admitted pod when the pod's spec has changed.
	Admit(pod *v1.Pod) AdmitResult
	// Release frees the resources of a pod after a refusal, or after the pod has left its source.
	Release(uid types.UID)
	// Allocated returns an admitted pod with the resources that the gate has granted.
	Allocated(pod *v1.Pod) *v1.Pod
	// Changed receives a value when a new Admit call could return a different decision.
	Changed() <-chan struct{}
	// Reconsider takes into account the facts since its last call, and returns the waiting pods.
	// The node then calls Admit for each waiting pod.
	Reconsider() (waiting []*v1.Pod)
	// Resized grants pending resizes for which there is now room, and returns their pods.
	Resized() []*v1.Pod
}

// AdmitResult is a decision about a pod: admitted, waiting or refused. The zero value admits the pod.
type AdmitResult struct {
	// Wait describes the event for which the pod waits. "" means no wait.
	Wait string
	// Reason and Message explain a refusal: Reason is one word, Message lists every obstacle. An
	// empty Reason means no refusal.
	Reason, Message string
}

// Admitted reports whether the pod may run.
func (r AdmitResult) Admitted() bool { return r.Wait == "" && r.Reason == "" }

// Stopper stops the pods after the node's context has ended. Stop returns when all pods have
// stopped or when Stop gives up. A node without a Stopper leaves its pods running for the next
// agent.
type Stopper interface {
	Stop(ctx context.Context)
}

// SPDX-License-Identifier: Apache-2.0

// Package runtime runs pods. Plan decides the next actions for a pod, Manager carries them out over
// a Runtime (a backend that runs containers), and Tracker reports pods that changed. Package
// runtime is the kubelet's generic runtime manager and PLEG as a library.
//
//	rt, err := process.New(process.Options{Root: "/var/lib/gw/process"})
//	gen, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/var/lib/gw/logs"})
//	m, err := runtime.New(runtime.Options{Runtime: rt, Generator: gen, Logger: log})
//	tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: rt})
//	go tracker.Run(ctx)
//
//	result := m.SyncPod(ctx, runtime.SyncRequest{Pod: pod})
//	status := podstatus.Generate(...)         // result.Status as the API's status
//	at, again := result.RetryAt()             // time of the next call, if nothing changes before
//
//	<-tracker.Dirty()
//	for _, uid := range tracker.Take() { ... } // sync these pods again
//
// Package runtime/podsync fulfils the first two duties. Most callers use podsync.
//
// # The caller's duties
//
//  1. Call SyncPod and KillPod for a pod from one goroutine at a time, as package podworkers does. Do
//     not call SyncPod for a pod after KillPod. Call RemovePod after an ended pod has left the
//     configuration.
//  2. Call SyncPod again when the Tracker reports the pod, at RetryAt, and from time to time.
//  3. Pass pods with the status from their source. The Manager remembers removed records of its own
//     calls, but after a restart of the agent only Pod.Status has their facts. For a static pod
//     whose records were removed while no agent ran, set SyncRequest.Finished. Otherwise containers
//     that are never restarted run again.
//
// # Duties of some callers
//
//   - For the process backend: call process.Main first in the program's main.
//   - If pods may have fields that the Runtime, the Generator or the Hooks cannot honour: call
//     CheckPod when a pod arrives. Otherwise every later call for such a pod fails.
//   - If the Runtime is an Updater: pass pods with their allocated resources. SyncPod resizes
//     running containers to these resources at once. Decide before whether a resize fits the node.
//     If pods as a whole are limited, raise the limit before SyncPod, and lower it after a
//     successful SyncPod.
//
// # Goroutines
//
// SyncPod and KillPod use goroutines for the containers of a pod, and end them before they return.
// Tracker.Run owns a goroutine for watching. Backends have no goroutines outside of calls.
//
// # A container's life
//
//	         CreateContainer        StartContainer
//	(nothing) ------------> created ------------> running
//	    ^                      |                     |  exits, or StopContainer
//	    |   RemoveContainer    v                     v
//	    +------------------ (record) <----------- exited
//
// A restart makes a new instance with the next restart count. Instances of a container never
// overlap.
//
// # Differences from the kubelet (1.36): planning
//
// The comments of the deciding functions have the reasons.
//
//   - Plan is pure. Its actions are ordered lists, each action with a cause. The kubelet's planner
//     calls hooks and kills in map order.
//   - After the deletion of the pod nothing is planned. A finished pod is stopped once, not at
//     every sync.
//   - A container's own restart policy also counts after the loss of the sandbox. A container that
//     never ran, in a pod that is never restarted, runs once in a new sandbox.
//   - A container in an unknown state that is never restarted is stopped and not started again, and
//     its exit decides. In the kubelet it runs again, or an init container fails the pod.
//   - A container that is known to have ended for good (PlanInput.Finished) does not run again
//     after a removal of its record, or after the late appearance of an instance of an earlier
//     agent.
//   - Containers behind a sidecar in the spec start and restart only while the sidecar is up in the
//     current sandbox. Running containers are kept meanwhile.
//   - The last container of a pod with a failed probe is stopped with the grace period of the
//     probe, before the pod is stopped.
//   - An instance that runs beside its successor is killed. So is an instance of a container that
//     is not in the pod.
//   - Only the current sandbox triggers RestartAllContainers.
//
// # Differences from the kubelet (1.36): execution
//
//   - Containers of a pod start side by side, with a bound over all pods, and a hook delays no
//     other container (#37805, #81450). The end of SyncPod's context ends every step (#113606). An
//     ended pod is not started (#125050). While a container is slow, SyncPod handles the others
//     (Changed).
//   - Images are pulled side by side, with a bound, once for all pods with the same image, and
//     while the sandbox is made. The end of the pod ends the pull (#109673, #26300).
//   - Crash-loop back-off is a function of observations. Each instance carries the delay before its
//     successor. So back-off survives the agent and needs no cleanup. It applies to failed starts
//     and RestartAllContainers, too, and not to the first instance in a new sandbox or of a changed
//     spec.
//   - The restart count does not grow for a container that never ran.
//   - The minimum grace period is 1 s instead of 2 s. After a failed stop of a container, the
//     sidecars that wait for the container are stopped, too.
//   - A failed removal of init records ends the pass (#137710).
//   - SyncPod and KillPod return the pod as read after their last step, so no step waits for a
//     listing (#45278). The Tracker returns a set of dirty pods instead of a queue that can
//     overflow (#72709).
//   - Ended instances are pruned at the start of their successor, and not by a deleter with a
//     bounded queue. The newest ended instance always stays (#104107). If the Generator is a
//     LogRemover, logs are removed with their instances.
//   - The resources of containers (KEP-1287) need no file: each container carries its resources at
//     creation, and a new agent corrects them with the values reported by the backend. A container
//     of another agent is not restarted because of missing records. Limits can be added and removed
//     in place (#128675).
//   - Requests of hooks use no proxy and keep no connection. A request redirected from https to
//     http continues without credentials. On the host's network, where a sandbox may have no
//     address, the request goes to the node's address.
//
// # Choices of the interface
//
//   - New takes Options instead of functional options. KillPod takes a request, because a pod may
//     be known by its UID only.
//   - Result.RetryAt returns the time of the next call after every failure or wait. The Manager
//     counts the failed calls of each pod, so callers need no back-off. Failed distinguishes
//     failures from waits.
//   - StartFailures (the kubelet's reason cache) is a value of the caller.
//
// Images of volumes are pulled with EnsureImage by the maker of the mounts. In the kubelet SyncPod
// pulls them.
//
// Missing: resizing the resources of a pod as a whole, and the check whether a pod may use an image
// that another pod pulled (1.33).
package runtime

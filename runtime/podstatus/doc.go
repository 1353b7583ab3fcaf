// SPDX-License-Identifier: Apache-2.0

// Package podstatus turns what a runtime reports about a pod into the
// v1.PodStatus that the API server and people see.
//
// It is one pure function: no clock, no lock, no cache.
//
//	status := podstatus.Generate(podstatus.Input{
//		Pod:           pod,                  // what is wanted, and what the API server has
//		Observed:      observed,             // what the runtime saw
//		Previous:      &last,                // what Generate returned before
//		StartFailures: failures,             // why containers could not be started
//		Resizing:      resizing,             // how far a resize has come
//		Started:       results.Started,      // what the prober knows; nil = no probes
//		Ready:         results.Ready,
//		HostIPs:       node.IPs,
//		Stage:         podstatus.StageSync,
//		Now:           time.Now(),
//	})
//
// The caller
//  1. gives each result back as Previous the next time, for the same UID only:
//     restart counts, last states, transition times and the terminal phase live
//     on in it when records are gone. After a restart of the agent the API's
//     status, in Pod.Status, takes its place.
//  2. says by Stage how far its worker has come. Only a pod that is terminated
//     (nothing runs or will run) ends because it was stopped.
//  3. fails a pod by Override for reasons that containers know nothing of, such
//     as its active deadline.
//  4. decides which resizes the node takes on. Pod has the resources that are
//     allocated; a resize that waits, or will never be, is told by ResizePending.
//  5. writes the result where it belongs. Cutting messages and times to what the
//     API server takes is the writer's.
//
// # Differences from the kubelet
//
// The level is 1.36 and what was merged since.
//   - After a reboot a pod with init containers is Pending and not Initialized
//     until init is complete in its new sandbox (#126650, #127793). Those that
//     will run again are waiting, and their earlier end is their last state.
//   - Started and Ready belong to an instance. They are not carried over to the
//     next one by the container's name, and a container that does not run is
//     neither.
//   - The restart count never goes back. If records are lost it continues from
//     the previous status, also where a new instance only repeats the old count.
//     An instance that is lost sight of is not counted as restarted before it is.
//   - While an instance may still run that is not shown as running, because the
//     runtime lost sight of it, say, the pod is not over; nor while a container is to
//     be started that was made and never ran. So a pod that is said to be over starts
//     nothing any more, whoever plans for it.
//   - A container that ran, is not restarted and whose record is gone has ended; the
//     kubelet has it wait to be created.
//   - The last state is always an end: an older instance that never ran is
//     skipped, and what the previous status knows is used when the record is gone.
//   - A sidecar that exited with 0 and is in back-off is shown waiting.
//   - An init container that the OOM killer hit has failed whatever its code, for
//     the phase as well as for the restart.
//   - A waiting container whose last end its policy does not restart counts as
//     ended, so that a "Never" pod whose record is lost fails.
//   - Why a start failed is shown only while containers are started at all.
//   - A pod that has stopped keeps its addresses.
//   - An Override does not touch a pod that has finished before.
//   - An unset request counts as the limit for the QoS class, as if defaulted.
//   - Resources of a running container are those it has, also where the runtime
//     tells nothing and a resize fails.
//   - Conditions of the API server that are not ours are passed on. Not reported
//     are volumeMounts, stopSignal and allocatedResourcesStatus, of which runtimes
//     do not tell us, nor the resources of the pod as a whole.
package podstatus

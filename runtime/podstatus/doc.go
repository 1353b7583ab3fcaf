// SPDX-License-Identifier: Apache-2.0

// Package podstatus computes the v1.PodStatus of a pod from the report of a container runtime.
//
// Generate is a pure function without clock, lock or cache.
//
//	status := podstatus.Generate(podstatus.Input{
//		Pod:           pod,                  // spec, and status of the API server
//		Observed:      observed,             // report of the runtime
//		Previous:      &last,                // last result of Generate
//		StartFailures: failures,             // reasons of failed starts
//		Resizing:      resizing,             // progress of a resize
//		Started:       results.Started,      // results of the prober; nil: no probes
//		Ready:         results.Ready,
//		HostIPs:       hostIPs,
//		Stage:         podstatus.StageSync,
//		Now:           time.Now(),
//	})
//
// The caller's duties:
//  1. Pass each result as Previous of the next call for the same UID. Restart counts, last states,
//     transition times and the terminal phase are kept there when records are gone. After a restart
//     of the agent, Pod.Status from the API server takes the place of Previous.
//  2. Set Stage to the progress of the pod's worker. Only a terminated pod (no container runs or
//     will run) gets a terminal phase because the pod was stopped.
//  3. Set Override to fail a pod for reasons outside of its containers, such as the active
//     deadline. Set Restarting while a sync restarts containers.
//  4. Decide which resizes the node accepts. Pod has the allocated resources. ResizePending reports
//     a deferred or infeasible resize.
//  5. Publish the result. The status writer cuts messages and times to the limits of the API
//     server.
//
// # Differences from the kubelet
//
// Generate follows version 1.36 and later changes on the upstream main branch.
//   - After a reboot a pod with init containers is Pending and not Initialized until init is
//     complete in the new sandbox (#126650, #127793). Init containers that will run again are
//     waiting, and their earlier exit is the last state.
//   - Started and Ready belong to an instance. A new instance of the same container does not
//     inherit them, and a container that is not running has neither.
//   - The restart count never decreases. If records are lost, the count continues from the previous
//     status, also where a new instance repeats the old count. A lost instance is not counted as
//     restarted before a new instance exists.
//   - A pod has no terminal phase while an instance runs or may run, for example because the runtime
//     lost the instance. The same holds while a created container that never ran is to be started.
//     Therefore a pod with a terminal phase starts no container, whichever planner is used.
//   - A container that ran, is not restarted and has no record is terminated. The kubelet reports
//     the container as waiting for creation.
//   - The last state is always a termination. An older instance that never ran is skipped. Without
//     a record, the last state of the previous status is kept.
//   - A sidecar that exited with 0 and is in back-off is shown waiting.
//   - An OOM-killed init container has failed regardless of the exit code, for the phase as well as
//     for the restart.
//   - A waiting container counts as terminated if the restart policy does not restart its last
//     exit. So a "Never" pod with a lost record fails.
//   - Start failures are shown only at a stage that starts containers.
//   - A stopped pod keeps its addresses.
//   - An Override does not change a pod that has finished before.
//   - While a container is restarted (Restarting), its exit is not shown. The kubelet publishes no
//     status during a sync.
//   - An unset request counts as the limit for the QoS class, as if defaulted.
//   - Resources of a running container are the actual resources, also if the runtime reports none
//     and a resize fails.
//   - Conditions that Generate does not own are copied from the API server. volumeMounts,
//     stopSignal, allocatedResourcesStatus and pod-level resources are not reported, because
//     runtimes do not report them.
package podstatus

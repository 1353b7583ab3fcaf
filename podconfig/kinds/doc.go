// SPDX-License-Identifier: Apache-2.0

// Package kinds runs manifests of several documents and kinds on a single node: it turns Deployments,
// StatefulSets, Jobs and others into pods, and keeps the ConfigMaps, Secrets, claims and Services for
// these pods. docs/kinds.md is for the authors of manifests.
//
//	x := &kinds.Expander{Decoder: &manifest.Decoder{NodeName: "edge-17", Strict: true, Policy: policy}}
//	c, err := kinds.New(kinds.Options{Dir: "/var/lib/agent/kinds", Objects: store})
//	if err != nil {
//		return err
//	}
//	folder, err := file.New(file.Config{Path: "/etc/pods", Decoder: x.Decoder, Decode: x.Pods})
//	if err != nil {
//		return err
//	}
//	return podconfig.Run(ctx, store, queue.Push, c.Source(folder))
//
// Expand is a pure function from a manifest to its pods and objects. It suffices for programs that
// have no Jobs and store objects by themselves. NextJob and NextCron are the pure functions of the
// Controller, for a controller of one's own.
//
// # The caller's duties
//
//  1. Check the pods without the objects of manifests: see WithoutObjects for Decoder.Policy.
//  2. Call Observe with each status of a pod, also of pods of other sources. Jobs and Services depend on
//     it. Call Housekeep now and then.
//  3. Pass the results of Claim, Services and HostAliases to the parts that start containers.
//  4. Give a Controller a folder of its own, and each source a name of its own.
//
// # The way of a manifest
//
//	bytes ── Expander.Pods ──> pods and carriers ── source ──> Controller ──> pods of workloads and Jobs
//	                                                              │ └──> Objects: ConfigMaps and Secrets
//	                                                              └── records of Jobs, on the disk
//
// A source passes on pods only. So an object of another kind travels as a carrier: a pod that has the object
// as JSON, and a name that no pod can have. The rules of the source for pods, such as the last valid
// content of a file, then apply to the objects. A carrier without a Controller is refused by every node.
//
// # Jobs
//
//	            pod succeeds, completions reached
//	(running) ────────────────────────────────────> Complete ── ttlSecondsAfterFinished ──> (no pods)
//	   │ ▲ │                                                                                    ▲
//	   │ │ └── failures above backoffLimit, activeDeadlineSeconds ──> Failed ───────────────────┘
//	   ▼ │
//	(pause after a failure: 10 s, 20 s, up to 10 min)
//
// The record of a Job is on the disk before a pod of the record is submitted, and before the next
// pod starts. The end of a pod is recorded when Observe reports the end. After a power cut before
// the report, the pod runs again. If the disk is full, the pods stay as they are. A pod that has
// ended is submitted with its phase after a restart, so that the node does not run it again.
//
// # Goroutines
//
// Run of a source of Controller.Source runs the inner source in a goroutine, and joins it. Observe and the
// other methods do not block.
//
// # Differences from Kubernetes (1.36)
//
//   - Pods of a Deployment have ordinals instead of random names. A new pod takes the ordinal of
//     the pod that it replaces.
//   - A suspended, failed or removed Job counts as finished before its pods have stopped.
//   - podFailurePolicy, successPolicy and backoffLimitPerIndex are refused.
//   - A Job keeps ten pods that have ended, and deletes older ones.
//   - A CronJob starts no Job as long as the clock of the node is before its own records.
//   - Fields that mean nothing on a single node are refused, or reported in Set.Notices.
package kinds

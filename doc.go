// SPDX-License-Identifier: Apache-2.0

// Package keelson is a tour, not code: the kubelet taken apart into packages
// that a program imports one by one and wires itself. This package holds only
// this text and the tests that keep the house in order.
//
// # Users
//
//   - Authors of node agents for the edge run pods from a folder, without a
//     cluster, a container engine or root. Start at README and docs/embedding.md.
//   - Testers of node logic drive real node code in virtual time, inject faults
//     and assert on outcomes. Start at runtime/fake and examples/nodeagent/nodetest.
//   - Researchers of schedulers run many nodes with real node behaviour in one
//     process. Start at docs/simulation.md.
//
// # The house in one picture
//
//	a folder, a URL, an API server, a bus
//	            │ podconfig: one ordered stream of pod changes
//	            ▼
//	the loop ── gate: does the pod fit?        examples/nodeagent/node
//	            │ podworkers: one call at a time for each pod
//	            ▼
//	podsync: the way of one pod                features of the node add to it
//	  │        │         │          │
//	  │        │         │          └─ podstatus ──> statusmanager ──> API server
//	  │        │         └─ prober: is the container healthy?
//	  │        └─ volumemanager: what the containers mount
//	  ▼
//	runtime.Manager: plan, then act            imagegc deletes unused images beside it
//	  │
//	  ▼
//	runtime/process, runtime/cri or runtime/fake
//
// A backend tells of containers that changed; podsync asks podworkers for a sync
// of their pods then. Nothing polls.
//
// # The packages
//
//	podconfig              what should run: many sources, one ordered stream of pod changes
//	podconfig/manifest     bytes to a pod: decode, default, validate, identify
//	podconfig/file         static pods from a file or a folder
//	podconfig/url          static pods from a URL
//	podconfig/podwatch     pods bound to the node, on client-go's reflector
//	podconfig/mirror       mirror pods of static pods, and the index of both
//	podconfig/checkpoint   the last desired state, on disk
//	podconfig/podconfigtest the table that every Merger passes
//	podworkers             when it runs: one state machine per pod UID
//	runtime                making it run: Plan, which is pure, and Manager over a small Runtime interface
//	runtime/podsync        the way of one pod, and all that must be known between two syncs of it
//	runtime/podstatus      pure: a spec and what was observed, to the pod's status
//	runtime/logs           container logs: read, follow, rotate
//	runtime/stats          the resource usage of running pods, as a backend measures it
//	runtime/pullsecrets    credentials for images from imagePullSecrets
//	runtime/credentialplugin the same, from the kubelet's credential provider plug-ins
//	runtime/services       the Services that containers get variables of
//	runtime/process        backend: one OS process per container
//	runtime/cri            backend: containerd or CRI-O over its socket
//	runtime/fake           backend: in memory, scripted, with faults and a journal
//	runtime/runtimetest    the conformance suite that every backend passes
//	prober                 is it healthy: liveness, readiness and startup of container instances
//	prober/handlers        http, h2c, tcp, gRPC, exec
//	volumemanager          what it mounts: desired state of world to actual state of world
//	volumemanager/plugins  emptyDir, hostPath, configMap, secret, downwardAPI, projected, local, image, CSI
//	volumemanager/volumeapi ConfigMaps, Secrets, claims, tokens and attachments of an API server
//	volumemanager/volumetest the suite that every plugin passes
//	imagegc                what may be deleted: thresholds, age, order
//	statusmanager          what the cluster sees: merge, order, patch
//	statusmanager/statuspatch patches on client-go
//	statusmanager/statustest an API server in memory
//	examples/nodeagent     the reference agent, a program
//	examples/nodeagent/node      its assembly: a loop, and features around one record for each pod
//	examples/nodeagent/nodetest  a whole node in virtual time, random schedules of faults, and judges
//	examples/nodeagent/nodestatus the object, the status and the lease of a node
//
// The folder docs has programs to begin with, the supported fields of a pod for
// each backend, and the differences from the kubelet.
//
// # Arrows
//
// The packages of the first column, up to the first slash, are the seven parts.
// They do not import one another. What passes between them is a *v1.Pod, a
// v1.PodStatus, a types.UID, a container ID, or a small struct of the package
// that takes it. The caller wires them: in docs/embedding.md an agent of parts
// alone has 57 lines.
//
// A part itself imports the standard library, k8s.io/api, k8s.io/apimachinery
// and zap, and compiles at most 78 packages of other modules.
// A heavier requirement lives in a sub-package, which a program imports if it
// needs the capability.
// The tests beside this file read the import graph and fail on a broken arrow.
//
// # One shape
//
// New(Options) validates and starts nothing. Run(ctx) blocks until ctx ends and
// every goroutine it began has ended. The body of each loop is exported as a
// step, so that a caller, a test or a simulator can drive a part without Run.
// Time is package time: everything runs under testing/synctest. Nothing is
// process-global, so many agents live in one process. Nothing logs unless it is
// given a *zap.Logger, and nothing panics on bad input or exits the process.
//
// # Versions
//
// Minor versions follow Kubernetes: v0.37.x is built on, and follows the
// behaviour described by, k8s.io v0.37. Breaking changes come only with a new
// minor. Where a package differs from the kubelet on purpose, its documentation
// says so.
package keelson

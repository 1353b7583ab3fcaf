// SPDX-License-Identifier: Apache-2.0

// Package keelson describes the module and has no code. The module is the kubelet taken apart into
// packages that a program imports and connects itself. The tests of this package check the rules of
// the repository.
//
// # Users
//
//   - Authors of node agents for the edge run pods from a folder, without a
//     cluster, a container engine or root. Start at README and docs/embedding.md.
//   - Testers of node logic run the code of a node in virtual time, inject faults
//     and check the results. Start at runtime/fake and examples/nodeagent/nodetest.
//   - Researchers of schedulers run many nodes in one process, each with the
//     behaviour of a real node. Start at docs/simulation.md.
//
// # The parts of a node
//
//	a folder, a URL, an API server, a bus
//	            │ podconfig: one ordered stream of pod changes
//	            ▼
//	the loop ── gate: does the pod fit?        examples/nodeagent/node
//	            │ podworkers: one call at a time for each pod
//	            ▼
//	podsync: the sync of one pod               features of the node add steps
//	  │        │         │          │
//	  │        │         │          └─ podstatus ──> statusmanager ──> API server
//	  │        │         └─ prober: is the container healthy?
//	  │        └─ volumemanager: what the containers mount
//	  ▼
//	runtime.Manager: plan, then act            imagegc deletes unused images
//	  │
//	  ▼
//	runtime/process, runtime/cri or runtime/fake
//
// A backend reports changed containers, and podsync then asks podworkers for a sync of their pods.
// For a backend without events, podsync lists the containers one to five times a second.
//
// # The packages
//
//	podconfig              desired pods: many sources, one ordered stream of pod changes
//	podconfig/manifest     bytes to a pod: decode, default, validate, identify
//	podconfig/kinds        Deployments, Jobs, ConfigMaps and other kinds on a single node
//	podconfig/file         static pods from a file or a folder
//	podconfig/url          static pods from a URL
//	podconfig/podwatch     pods bound to the node, on client-go's reflector
//	podconfig/mirror       mirror pods of static pods, and the index of both
//	podconfig/checkpoint   the last desired state, on disk
//	podconfig/podconfigtest the conformance table of Mergers
//	podworkers             timing: one state machine per pod UID
//	runtime                containers: the pure function Plan, and Manager over a small Runtime interface
//	runtime/podsync        the sync of a pod, and the facts kept between two syncs
//	runtime/podstatus      a pure function from a pod and its observed containers to the pod's status
//	runtime/imageimport    archives of images imported into a container runtime
//	runtime/logs           container logs: read, follow, rotate
//	runtime/stats          resource usage of running pods, measured by a backend
//	runtime/imagearchive   images in files, and folders of such files
//	runtime/pullsecrets    credentials for images from imagePullSecrets
//	runtime/credentialplugin credentials from the kubelet's credential provider plug-ins
//	runtime/services       the Services of a cluster, for environment variables
//	runtime/process        backend: one OS process per container
//	runtime/process/imagestore images, unpacked without an engine and without root
//	runtime/process/imagestore/registry images from registries
//	runtime/cri            backend: containerd or CRI-O over its socket
//	runtime/fake           backend: in memory, scripted, with faults and a journal
//	runtime/runtimetest    the conformance suite of backends
//	prober                 health: liveness, readiness and startup of container instances
//	prober/handlers        probes by http, h2c, tcp, gRPC and exec
//	volumemanager          volumes: mounted on request, unmounted after the pod
//	volumemanager/plugins  emptyDir, hostPath, configMap, secret, downwardAPI, projected, local, image, CSI
//	volumemanager/volumeapi ConfigMaps, Secrets, claims, tokens and attachments of an API server
//	volumemanager/volumetest the conformance suite of plugins
//	imagegc                removal of unused images, by disk usage and age
//	statusmanager          statuses on the API server: merge, order, patch
//	statusmanager/statuspatch patches with client-go
//	statusmanager/statusreport the latest status of each pod, through an uplink of yours
//	statusmanager/statustest an API server in memory
//	examples/nodeagent     the reference agent, a program
//	examples/nodeagent/node      its assembly: a loop, a record per pod, and features
//	examples/nodeagent/nodetest  a whole node in virtual time, with random schedules of faults
//	examples/nodeagent/nodestatus the Node object, its status and its lease
//	examples/nodeagent/nodeserver the kubelet's API: logs, exec, attach, port-forward
//	examples/nodeagent/nodeidentity certificates of a node
//	examples/natsagent     an agent on a message bus, NATS, in a module of its own
//	examples/nodeagent/nodeconfig the kubelet's configuration file
//
// The folder docs has programs to start with, tables of the supported fields, and the differences
// from the kubelet.
//
// # Imports
//
// The seven packages at the top (podconfig, podworkers, runtime, prober, volumemanager, imagegc,
// statusmanager) are the parts. The parts do not import each other. They exchange *v1.Pod,
// v1.PodStatus, types.UID, container IDs, and small structs of the receiving package. The program
// connects the parts. docs/embedding.md has an agent of parts alone in less than 60 lines.
//
// The root package of a part imports the standard library, k8s.io/api, k8s.io/apimachinery and zap,
// and compiles at most 78 packages of other modules. Larger dependencies are in sub-packages, so a
// program compiles only the dependencies that it uses. Tests beside this file check the imports.
//
// # Common rules
//
//   - New(Options) validates its options and starts no goroutine. Run(ctx) returns after ctx and
//     all goroutines of Run have ended. The body of each loop is an exported step, so that a
//     caller, a test or a simulator can drive a part without Run.
//   - The clock is package time, so every package runs under testing/synctest.
//   - No state is global to the process, so a process can run many agents.
//   - A package without a *zap.Logger logs nothing. Invalid input is an error, not a panic.
//
// # Versions
//
// Minor versions follow Kubernetes: v0.37.x is built on k8s.io v0.37. Exported names change only
// with a minor version. The documentation of each package lists the differences from the kubelet.
package keelson

// SPDX-License-Identifier: Apache-2.0

// Package cri is a runtime.Runtime over any CRI v1 runtime on a unix socket:
// containerd from 1.6 on and CRI-O.
//
//	backend, err := cri.Dial(ctx, "unix:///run/containerd/containerd.sock", cri.Options{
//		Root:   "/var/lib/kubelet", // hosts files and termination messages
//		DNS:    cri.DNS{Servers: []string{"10.96.0.10"}, Domain: "cluster.local"},
//		Logger: logger,
//	})
//	if errors.Is(err, cri.ErrUnavailable) { … the runtime does not run yet: try again … }
//	if err != nil { return err }
//	defer backend.Close()
//	generator, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/var/log/pods", …})
//	manager, err := runtime.New(runtime.Options{Runtime: backend, Generator: generator, …})
//	tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: backend})
//
// # The caller's duties
//
//  1. Dial again after ErrUnavailable or a *NotReadyError. After a successful Dial the value lasts:
//     calls fail while the runtime is down and work again within about a second of the runtime's
//     return.
//  2. Pass on the value returned by Dial, not a wrapper hiding its interfaces. The value is a
//     runtime.Watcher if, and only if, the runtime offers events (containerd 2, CRI-O if
//     configured). Without events a Tracker relists at least once a second.
//  3. Have images on the node before a container is created. Package runtime's manager pulls
//     container images through the value's runtime.Images. Images of image volumes are pulled when
//     the maker of the mounts calls EnsureImage.
//  4. Prepare the objects named in Options: the pods' cgroups (CgroupParent), seccomp profiles,
//     AppArmor profiles.
//  5. Connect to the URLs of the runtime.Streamer from the node, or through a proxy on the node:
//     containerd listens on the node's loopback. Each URL is a secret.
//  6. Build with -tags grpcnotrace. Without the tag, a program linking grpc and a template engine,
//     as client-go does, is 27 MiB larger.
//
// # Goroutines
//
// The connection has goroutines of its own from Dial to Close. Methods join their goroutines before
// they return.
//
// # Taking a node over
//
// Sandboxes and containers have the kubelet's labels and annotations, names and log paths, and
// their files are where the kubelet's are. If Options.Root and the generator's LogRoot are the
// kubelet's, each agent sees the other agent's restart counts, hashes, grace periods, preStop
// hooks, and termination messages. A container stays if its hash matches: the planner restarts a
// container made from another hash. Sandboxes and containers without a label of a pod's UID, such
// as crictl makes, are neither seen nor touched.
//
// This package adds the annotation keelson.dev/hostname to sandboxes, and keelson.dev/hash to
// containers whose spec's annotations do not hold the spec's hash. A kubelet ignores both.
//
// # States
//
//	CRI                                     package runtime
//	created                                 created
//	running                                 running
//	exited, started                         exited
//	exited, failed to start                 exited, with reason StartError and code 128
//	exited, never started otherwise         created
//	unknown, or a word not known            unknown
//
// No runtime starts a container again after a failed start; a successor takes its place. A start cut
// short by the end of its ctx or of the agent is not the container's failure: the container counts
// as created, and a "Never" container is tried again. (The kubelet fails the pod.) CRI-O looks for
// the program when it creates the container, so there a missing program fails CreateContainer. A
// container stopped before its start stays created, and a file below <Root>/keelson/stopped records
// the stop: StartContainer refuses the container.
//
// # Differences from the kubelet
//
//   - A call ends when its ctx ends, a pull included (kubernetes#113606). A start has one more
//     second to report its outcome, because a start cut short may happen all the same. A stop also
//     stops such containers (#125050).
//   - Containers and sandboxes of a pod are inspected several at a time (#93886).
//   - StopContainer returns when the container's status is exited, and takes
//     grace periods of less than a second, and 0.
//   - StopSandbox kills the containers itself first: CRI-O would wait 10 s.
//   - Termination messages are read only from files made by an agent: a file in a volume may have
//     become a link to any path.
//   - A hosts file is written only on a change, and a hostAlias cannot add lines.
//   - Annotations of AppArmor, sysctls with slashes, host aliases, DNS limits and
//     OOM scores are the kubelet's, of 1.36.
//   - Pull errors contain no credentials and no signed addresses. containerd 2 includes both, and
//     the kubelet copies both into the pod's status.
//   - After a stop, start or removal fails because the runtime lost a connection, the backend reads
//     the object's state to decide the outcome: see insist.go.
//   - containerd cannot remove a container if it forgot the task of a start whose caller died. This
//     backend removes the container all the same, through containerd's own API on the same socket:
//     see leftover.go. With the kubelet the container and its sandbox stay until containerd is
//     restarted. The same applies to a sandbox, although containerd 2 reports the sandbox as
//     removed.
//   - Limits can be taken away from running containers (#128675).
//   - Refused, and not silently dropped: block devices, resource claims, Windows, bindMountOptions
//     and, without Options.FindHandler, unknown RuntimeClasses. Also refused, if the runtime lacks support: strict supplemental
//     groups, recursive read-only mounts, image volumes and user namespaces. See CheckPod.
//   - MemoryQoS is that of 1.37. A resize changes memory.high alone: the protection stays that of the
//     start.
//   - User namespaces, MemoryQoS and swap follow Options and the kubelet's formulas. The caller
//     supplies the IDs, the volumes to relabel for SELinux and the images to mount (runtime.Mount).
//   - A hostPath volume of type CharDevice or BlockDevice is passed as a device, "rw", or "r" for a
//     read-only mount, so the container can open the device. The kubelet mounts the device node,
//     and only a privileged container can open the mounted node.
//   - ContainerSpec.CDIDevices are refused with containerd before 2.0 and CRI-O before 1.28,
//     because these versions ignore the field.
//   - Not done: exclusive CPUs of a CPU manager.
//
// # Differences between runtimes
//
//	                              containerd 1.6   containerd 2        CRI-O
//	runtime.Watcher               no               yes                 if told to
//	image volumes                 no               2.1, parts 2.2      1.31, parts 1.33
//	recursive read-only mounts    no               with runc 1.1       as it says
//	user namespaces               no               with runc 1.2       as it says
//	stats of whole pods           with a CgroupParent for every pod    as it has them
//
// Tests run on containerd 1.6 and 2.4 with runc 1.1. Tests of user namespaces run if a newer runc
// is on PATH. The conformance suite runs on CRI-O 1.35, too, without the rules that CRI-O breaks.
// MemoryQoS and swap on a node with cgroup v2 are untested.
//
// # Limits of the CRI
//
// When the ctx of Exec ends, the runtime kills the command, but not the command's children. The CRI
// counts stop timeouts in whole seconds; this package times fractions itself. A list does not say
// whether an exited container ever ran: List asks about each exited container once, and waits at
// most half a second for the answers.
//
// # Data lost by containerd
//
// containerd may leave a shim behind when the client of a call is killed, or containerd itself,
// while containerd makes a sandbox or a container. Neither the CRI nor containerd's task service
// knows such a shim. A process may remain below the shim, waiting for ever to become the
// container's program. containerd 1.6 leaves a shim in 1 of 60 calls cut at a random instant of
// their first 120 ms, and in half of the calls during which containerd is killed. The figures for
// 2.4 are 1 in 60 and 1 in 50. No call can end such a shim.
//
// The backend is a runtime.Auditor and ends such shims. The audit looks in /proc for shims of runc
// with the endpoint's socket and the namespace k8s.io in their arguments, and then asks the CRI and
// containerd for the shims' sandboxes. A shim of an unknown sandbox is ours if no container known
// to containerd is below the shim, and if the shim's folder either is gone or names a pod's sandbox
// made by the CRI. Without the folder containerd never finds the shim again, not even at
// containerd's start. A process below a known shim is ours if containerd does not know the
// process's container. All other shims, such as shims of Docker and of another containerd, are at
// most listed.
//
// Two agents on one containerd may collect each other's leftovers. Neither loses anything, because
// neither can reach a collected shim.
package cri

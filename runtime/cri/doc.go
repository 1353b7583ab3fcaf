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
//  1. Dial again when it fails with ErrUnavailable or a *NotReadyError. Once it
//     has succeeded the value lasts: calls fail while the runtime is down and
//     work again within about a second of its return.
//  2. Hand on the value that Dial returned, not a wrapper that hides what it
//     implements: it is a runtime.Watcher if, and only if, the runtime offers
//     events (containerd 2, CRI-O where it is told to), and a Tracker relists
//     once a second where there are none.
//  3. Have images on the node before a container is created: package runtime's
//     manager pulls them through the runtime.Images that the value is; those of
//     image volumes when whoever makes the mounts asks it to (EnsureImage).
//  4. Prepare what options point to: the pods' cgroups (CgroupParent), seccomp
//     profiles, AppArmor profiles.
//  5. Connect where the URLs of the runtime.Streamer lead to, or proxy to there:
//     containerd listens on the node's loopback, and each URL is a secret.
//  6. Build with -tags grpcnotrace: a program that links grpc and a template
//     engine, as client-go does, is 27 MiB larger without.
//
// # Goroutines
//
// The connection has some of its own from Dial to Close. Methods join what they
// start before they return.
//
// # Taking a node over
//
// Sandboxes and containers have the kubelet's labels and annotations, names and
// log paths, and their files are where the kubelet's are. Where Options.Root
// and the generator's LogRoot are those of the kubelet, either agent sees what
// the other made: restart counts, hashes, grace periods, preStop hooks, and
// termination messages. Whether a container stays depends on the hash: the
// planner restarts what was made from another one. What has no label with a
// pod's UID (crictl makes such things) is neither seen nor touched.
//
// Of its own, this package adds the annotations keelson.dev/hostname on
// sandboxes and keelson.dev/hash on containers whose spec's annotations do not
// hold their hash. Both mean nothing to a kubelet.
//
// # States
//
//	CRI                                     package runtime
//	created                                 created
//	running                                 running
//	exited, started                         exited
//	exited, never started (failed start)    created
//	unknown, or a word not known            unknown
//
// No runtime starts a container again whose start failed; a successor takes its
// place. One that is stopped before it was started stays created, and a file
// below <Root>/keelson/stopped says so: StartContainer refuses it.
//
// # Differences from the kubelet
//
//   - A ctx that ends ends the call, a pull included (kubernetes#113606). A start
//     is given a second to say what became of it, because one that is cut short
//     may happen all the same; and a stop deals with those that do (#125050).
//   - Containers and sandboxes of a pod are inspected several at a time (#93886).
//   - StopContainer returns when the container's status is exited, and takes
//     grace periods of less than a second, and 0.
//   - StopSandbox kills the containers itself first: CRI-O would wait 10 s.
//   - Termination messages are read only from files that an agent made: one in a
//     volume may have become a link to anything.
//   - A hosts file is written only if it changes, and a hostAlias cannot add
//     lines.
//   - Annotations of AppArmor, sysctls with slashes, host aliases, DNS limits and
//     OOM scores are the kubelet's, of 1.36.
//   - Errors of pulls have no credentials and no signed addresses in them, which
//     containerd 2 puts there and the kubelet into the pod's status.
//   - A stop, start or removal that fails because the runtime lost a connection on
//     the way is judged by what is: see insist.go.
//   - A container that containerd cannot remove, because it forgot the task of a
//     start whose caller died, is removed all the same, through containerd's own
//     API on the same socket: see leftover.go. The kubelet's stays, and its sandbox
//     with it, until containerd is restarted.
//   - Limits can be taken away from running containers (#128675).
//   - Refused, and not silently dropped: block devices, resource claims, Windows,
//     bindMountOptions, unknown RuntimeClasses, and what the runtime has not got of strict
//     supplemental groups, recursive read-only mounts, image volumes and user
//     namespaces. See CheckPod.
//   - User namespaces, MemoryQoS and swap are done where Options say so, by the
//     kubelet's formulas; it is the caller who gives the IDs, and who knows which
//     volumes are to be relabelled for SELinux and which images are mounted
//     (runtime.Mount).
//   - Not done: CPU managers' exclusive CPUs, device plugins and CDI.
//
// # What runtimes differ in
//
//	                              containerd 1.6   containerd 2        CRI-O
//	runtime.Watcher               no               yes                 if told to
//	image volumes                 no               2.1, parts 2.2      1.31, parts 1.33
//	recursive read-only mounts    no               with runc 1.1       as it says
//	user namespaces               no               with runc 1.2       as it says
//	stats of whole pods           with a CgroupParent for every pod    as it has them
//
// Tests run on containerd 1.6 and 2.4 with runc 1.1, and those of user namespaces
// where a newer runc is on PATH. Nothing of it has been tried on CRI-O, nor
// MemoryQoS and swap on a node with cgroup v2.
//
// # What the CRI cannot do
//
// When the ctx of Exec ends, the runtime kills the command, but not what it
// started. The CRI's clock for stops is whole seconds; parts of one are kept by
// ours. A list does not say whether an exited container ever ran: List asks
// about each once, and does not wait for one that gives no answer.
//
// An agent that is killed while containerd makes a container's process may leave
// one that waits for ever to become the container's program, and that neither the
// CRI nor containerd knows (seen with 2.4, in one of seventy kills then). It does
// nothing, but keeps its memory and its cgroup, which is below the CgroupParent.
package cri

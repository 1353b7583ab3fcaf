// SPDX-License-Identifier: Apache-2.0

// Package nodeagent is the reference assembly: a real node agent made of
// keelson's packages, in few files that are meant to be read, used as they are,
// or copied and changed.
//
//	agent, err := nodeagent.New(nodeagent.Options{
//		NodeName: "gw-17",
//		Root:     "/var/lib/gw",
//		Runtime:  rt,                           // process, fake, or your own
//		Sources:  []podconfig.Source{folder, bus},
//		Logger:   log,
//	})
//	go http.ListenAndServe("127.0.0.1:10255", agent.Handler())
//	err = agent.Run(ctx)
//
// # Reading order
//
//	agent.go         the parts, and how they are put together
//	config.go        what should run: sources, and the checkpoint
//	loop.go          the one goroutine that decides, and in which order
//	syncer.go        what happens to one pod: run, stop, give back
//	renew.go         what a pod's former life must not leave to the next
//	failures.go      what is said of it once, however often it happens
//	status.go        what the world is told about it; statuses.go keeps that
//	memory.go        what the next agent could not know: ready.json
//	probes.go        whether containers are alive, started and ready
//	volumes.go       what they mount, and where ConfigMaps and Secrets come from
//	attach.go        what a controller attaches, and must not detach
//	cluster.go       what an API server is told: statuses, mirror pods
//	images.go        which images may be deleted
//	imagevolumes.go  where those of volumes come from, and those of private registries
//	housekeeping.go  what is done about pods that are over
//	leftovers.go     and about those that only the runtime knows
//	garbage.go       and about what pods leave while they live
//	admission.go     what is refused because the runtime cannot do it
//	admit.go         and for want of room, and who has to go for whom
//	gate.go          what is known for that; node.go of the node
//	resize.go        who may grow in place; resizing.go what is said about it
//	deadline.go      and who has been here for too long
//	runonce.go       the other way to run it: once
//	shutdown.go      how the agent ends; shutdowngrace.go in which order, and when
//	server.go        /healthz and /pods; alive.go for watchdogs
//	observer.go      what others may count; census.go how many pods there are
//
// # Goroutines
//
// Run owns all of them: the loop, the workers' (one per pod call under way), the
// tracker's two, one per source, the parts' own, one that reads the Node, and the
// collector's while something is being removed. All have ended when Run returns. The whole agent runs in a
// testing/synctest bubble; see package nodetest beside this one.
//
// # Differences from the kubelet
//
//   - A pod that the runtime cannot honour is refused as a whole, with one
//     message that lists every field, instead of failing container by container.
//   - There is no sync tick: workers wake themselves, and the tracker hands over
//     a set of dirty pods that cannot overflow.
//   - A pod that left its source is stopped although another source is silent.
//   - The end of the agent can stop its pods (StopPods), because on the process
//     runtime there may be nobody else to do so. It is the end of Run's context that
//     begins this, not an inhibitor lock of logind. With ShutdownClasses it is the
//     kubelet's graceful node shutdown, but that a pod that does not listen is killed
//     a second before its class's time is over, and the priority of a static pod is
//     that of its class's name.
//   - Images of pods that wait to start are kept, not only those of containers;
//     and all of them until it is known what is to run.
//   - A pod that ran when the agent began is not refused for its resources, its
//     node selector or its ports; the kubelet judges it anew. Pods that ask for
//     something wait until it is known which those are.
//   - The Node is read again, beside the loop, before a pod is refused for its
//     labels or taints. An API server that does not answer holds up nobody else.
//   - A critical pod waits for those that end for it without the loop waiting, too,
//     and is refused with what is missing (OutOfcpu) if no room can be made.
//   - A static pod finds the place of the one of its name that it replaces.
//   - The active deadline of a pod ends whatever is being done for it, at once, and
//     that of a static pod holds across restarts of the agent.
//   - A resize in place that never fits is Infeasible, not Deferred. What a pod has
//     meanwhile is known from its status on the API server, not from a file.
//   - Sysctls are checked; AppArmor, devices and topology are the runtime's. A limit of
//     memory is the runtime's to enforce; no pod is limited as a whole.
//   - Which probed containers of static pods were ready outlives the agent, in
//     Root/ready.json, so that its restart takes none out of service.
//   - A manifest that changes under the same UID ends its pod, and begins another life
//     of which nothing is left of the first.
//   - The node's object, status and lease are package nodestatus's, beside this
//     one. Not there yet: eviction, and the kubelet's server (logs, exec, stats).
package nodeagent

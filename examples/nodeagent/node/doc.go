// SPDX-License-Identifier: Apache-2.0

// Package node is the reference assembly: a complete node agent built from keelson's packages. Use
// the package unchanged, or copy its few files and change the copy.
//
//	agent, err := node.New(node.Options{
//		NodeName: "gw-17",
//		Root:     "/var/lib/gw",
//		Runtime:  rt,                           // process, fake, or your own
//		Sources:  []podconfig.Source{folder, bus},
//		Logger:   log,
//	})
//	go http.ListenAndServe("127.0.0.1:10255", node.CheckHost(agent.Handler()))
//	err = agent.Run(ctx)
//
// # Reading order
//
//	agent.go         the Agent: New and Run
//	features.go      the list of features, and the construction of the shared parts
//	config.go        configuration sources and the checkpoint
//	loop.go          the single goroutine that handles configuration changes
//	admit.go         the decision about a pod: fields that the node cannot honour, then the gate
//	tell.go          calls of the features about a pod: its statuses, its refusal, its end
//	workers.go       connections between package podsync, the workers and the features
//	housekeeping.go  removal of records of pods that are gone
//	runonce.go       RunOnce, the alternative to Run
//	rootlock.go      one agent per Root
//	server.go        methods for callers, and the HTTP handler
//	health.go        health checks of loop and runtime, for the handler and for watchdogs
//	hosts.go         the check of Host headers; redact.go hides environments in /pods
//	observer.go      callbacks for metrics; census.go counts of pods
//
// # Features
//
// All other abilities are features. Each feature has a folder of its own; features without exported
// names for callers are in the folder internal. Package feature defines the functions of a feature
// and the record of each pod. Options.Without leaves out features of this list, by their names, and
// Options.Features adds features of the caller.
//
//	declared       pods whose phase another client set to Failed or Succeeded on the API server
//	deadline       activeDeadlineSeconds
//	volumes        mounts of containers, service account tokens, volumes attached by a controller
//	images         image garbage collection and image volumes
//	resize         status and events of in-place resizes, granted and waiting
//	gate           admission, preemption and in-place resizes by the rules of package admission
//	restart-memory readiness of static pods for the next agent, in Root/ready.json
//	statuses       pod statuses on an API server
//	probes         liveness, startup and readiness probes
//	mirrors        mirror pods of static pods on an API server
//
// Package shutdown is no feature: it stops the pods at the end of the agent, all at once or in the
// order of their priorities. Further features for Options.Features:
//
//	cgroups        a cgroup for each pod, on a container runtime
//	devices        devices of device plug-ins
//	eviction       evictions under pressure, decided by package pressure
//	hostneeds      refusal of pods whose AppArmor, seccomp profile or shared mount the host lacks
//	hotplug        pods whose devices are unplugged and plugged in again
//	loglinks       links to the logs of containers, for log collectors
//	oomwatch       events about processes that the kernel kills for lack of memory
//	podsapi        a gRPC server with the pods of the node
//	updates        updates with an automatic rollback to the last good version
//
// # Goroutines
//
// Run owns all goroutines: the loop, one worker per pod call in progress, the goroutines of
// podsync, one goroutine per source and the goroutines of the features. When Run returns, all these
// goroutines have ended. The whole agent can run in a testing/synctest bubble, as in package
// nodetest.
//
// # Differences from the kubelet
//
//   - A pod with fields that the runtime cannot honour is refused as a whole, with one message that
//     lists every such field. The kubelet fails container by container.
//   - There is no sync tick. Workers set their own timers. The tracker of package runtime delivers
//     changed pods as a set, which cannot overflow.
//   - A pod that has left its source is stopped even if another source has not delivered its pods
//     yet.
//   - The agent can stop the pods when it ends (StopPods), because on the process backend there may
//     be no other program that stops them. The shutdown begins when Run's context ends, and needs
//     no inhibitor lock of logind. With ShutdownClasses the shutdown follows the kubelet's graceful
//     node shutdown, with two exceptions. A pod that ignores the stop signal is killed one second
//     before the time of its class ends. The priority of a static pod is derived from its
//     priorityClassName.
//   - Garbage collection keeps the images of pods that wait to start, in addition to the images of
//     containers. It begins when every source has delivered its pods, or after two minutes.
//   - A pod that ran when the agent started is not refused because of resources, node selector or
//     ports. The kubelet checks such a pod again. New pods with requests wait until the agent has
//     listed the pods that ran.
//   - Before the agent refuses a pod because of labels or taints, it reads the Node again, outside
//     the loop. So an API server that does not answer delays no other pod.
//   - A critical pod waits for the end of preempted pods without blocking the loop. If preemption
//     cannot free enough, the pod is refused with the missing resource as the reason, such as
//     OutOfcpu.
//   - A static pod may use the resources of the static pod with the same name that it replaces.
//   - The activeDeadlineSeconds of a pod interrupt the call in progress for the pod. For a static
//     pod, the time does not start again when the agent restarts.
//   - An in-place resize that can never fit on the node is Infeasible instead of Deferred. While a
//     resize is pending, the pod's allocated resources are read from its status on the API server,
//     not from a file.
//   - The gate checks sysctls, but neither AppArmor (see package hostneeds) nor NUMA topology. The
//     runtime enforces the limits of containers. The limits of whole pods need the feature cgroups.
//   - The readiness of probed containers of static pods is kept in Root/ready.json, so that a
//     restart of the agent does not take static pods out of service.
//   - If the manifest of a static pod changes under the same UID, the pod is terminated and started
//     again without any remains of the earlier pod.
//   - The packages beside this one maintain the Node object, its status and its lease (nodestatus),
//     and serve the kubelet's API (nodeserver).
package node

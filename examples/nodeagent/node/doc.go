// SPDX-License-Identifier: Apache-2.0

// Package node is the reference assembly: a complete node agent built from keelson's packages. The
// package has few files. You can read the package, use it unchanged, or copy and change it.
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
// and the record of each pod. Options.Without leaves features out, and Options.Features adds
// features of the caller.
//
//	declared       pods whose phase another client set to Failed or Succeeded on the API server
//	deadline       activeDeadlineSeconds
//	volumes        mounts of containers, service account tokens, volumes attached by a controller
//	images         image garbage collection and image volumes
//	resize         status and events of in-place resizes, granted and waiting
//	gate           admission, preemption and in-place resizes by the rules of package admission
//	restartmemory  readiness of static pods for the next agent, in Root/ready.json
//	statuses       pod statuses on an API server
//	probes         liveness, startup and readiness probes
//	mirrors        mirror pods of static pods on an API server
//	shutdown       the order in which pods are stopped at the end of the agent
//
// Further features for Options.Features:
//
//	cgroups        a cgroup for each pod, on a container runtime
//	devices        devices of device plug-ins
//	eviction       evictions under pressure, decided by package pressure
//	hotplug        pods whose devices are unplugged and plugged in again
//	loglinks       links to the logs of containers, for log collectors
//	oomwatch       events about processes that the kernel kills for lack of memory
//	podsapi        a gRPC server with the pods of the node
//	updates        updates that go back to the last good version
//
// # Goroutines
//
// Run owns all goroutines: the loop, one worker per pod call in progress, the goroutines of
// podsync, one goroutine per source and the goroutines of the features. When Run returns, all these
// goroutines have ended. The whole agent runs in a testing/synctest bubble; see package nodetest in the
// neighbouring folder.
//
// # Differences from the kubelet
//
//   - A pod with fields that the runtime cannot honour is refused as a whole, with one message that
//     lists every such field. The kubelet fails container by container.
//   - There is no sync tick. Workers set their own timers, and the tracker delivers a set of
//     changed pods that cannot overflow.
//   - A pod that has left its source is stopped even if another source has not delivered its pods
//     yet.
//   - The end of the agent can stop the pods (StopPods): on the process runtime there may be no other
//     program that stops pods. The end of Run's context starts the shutdown, instead of an inhibitor
//     lock of logind. With ShutdownClasses the shutdown follows the kubelet's graceful node
//     shutdown, with two exceptions. A pod that ignores the stop signal is killed one second before
//     the time of its class ends. The priority of a static pod is derived from its
//     priorityClassName.
//   - Images of pods that wait to start are kept, in addition to images of containers. No image is
//     collected before every source has delivered its pods, for at most two minutes.
//   - A pod that ran when the agent began is not refused because of resources, node selector or
//     ports; the kubelet checks the pod again. New pods with requests wait until the agent has
//     listed the pods that ran.
//   - Before a pod is refused because of labels or taints, the agent reads the Node again, outside
//     the loop. An API server that does not answer delays no other pod.
//   - A critical pod waits for the end of preempted pods without blocking the loop. If preemption
//     cannot free enough, the pod is refused with the missing resource as the reason, such as
//     OutOfcpu.
//   - A static pod may use the resources of the static pod with the same name that it replaces.
//   - The active deadline of a pod interrupts the call in progress for the pod. The deadline of a
//     static pod holds across restarts of the agent.
//   - An in-place resize that can never fit on the node is Infeasible instead of Deferred. While a
//     resize is pending, the pod's allocated resources are read from its status on the API server,
//     not from a file.
//   - Sysctls are checked. AppArmor is left to package hostneeds, and topology to the runtime. The
//     runtime enforces the limits of containers. The limits of whole pods need the feature cgroups.
//   - The readiness of probed containers of static pods is kept in Root/ready.json, so that a
//     restart of the agent does not take static pods out of service.
//   - If a manifest changes under the same UID, the pod is terminated and started again without any
//     remains of the earlier pod.
//   - Packages of the neighbouring folders maintain the Node object, its status and its lease
//     (nodestatus), and serve the kubelet's API (nodeserver).
package node

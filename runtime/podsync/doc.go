// SPDX-License-Identifier: Apache-2.0

// Package podsync syncs pods with package runtime and keeps the state of each pod between two
// calls: the last published status, the containers that have finished or could not be started, the
// time of the next call, and the remains of an earlier pod with the same UID or name.
//
// # Wiring
//
//	pods, err := podsync.New(podsync.Options{
//		Runtime:   rt,
//		Generator: runtime.DefaultGeneratorOptions{LogRoot: root + "/logs"},
//		Volumes:   volumes, // a *volumemanager.Manager, optional
//		Probes:    probes,  // a *prober.Prober, optional
//		Status:    publish,
//	})
//	...
//	workers, err := podworkers.New(podworkers.Options{Syncer: podworkers.Over(pods)})
//	...
//	go workers.Run(ctx)
//	go pods.Run(ctx, workers)
//	workers.SetPods(podsThatShouldRun, true)
//
// Options.Hooks extend the sync: they change the input of the status generator, run before and
// after a sync, and release resources at the pod's end. A caller that keeps the state itself uses
// Manager.SyncPod of package runtime instead.
//
// # The caller's duties
//
//  1. Call Sync, Stop, Release and Forgotten in the order of podworkers.PodSyncer, with one call at
//     a time for each pod.
//  2. Run Pods.Run beside the workers. Without Run, pods are not synced after changes in the
//     runtime, and the remains of removed pods are kept.
//  3. Run the Volumes and the Probes. Do not write to a pod after passing the pod to this package.
//
// # A pod's way
//
// Sync reads the pod from the runtime, publishes the pod's status, waits for volumes, calls
// Manager.SyncPod, and publishes the status again:
//
//	runtime ──► status ──► name free? ──► volumes ──► Manager.SyncPod ──► status ──► over, or time of the next call
//	               │                                        │
//	               └── probes: running containers           └── progress: status
//
// Stop stops the containers and publishes their exits. Release unmounts the volumes. Forgotten ends
// the pod's life.
//
// # Rules
//
// A random schedule of calls broke the package before each of these rules was added.
//
//   - A UID that returns finds the records of its earlier life, in which containers may have
//     finished. Sync removes the records before the new life begins.
//   - The same holds for a UID whose manifest has another hash: the pod is stopped, forgotten and
//     started again. podworkers.Workers.SetPods stops and forgets the pod.
//   - A static pod waits for an earlier pod of the same name that a previous agent started. The
//     earlier pod is stopped, unless the earlier pod is configured: then its worker decides.
//   - A record is dropped only while the caller has the pod's turn and when the runtime has no
//     remains of the pod. A call that waited for the turn meanwhile begins with a new record.
//   - A pod that arrives while an orphan of the same UID terminates starts afterwards. podworkers
//     enforces the order.
//   - A pod that was listed as an orphan is read again before the stop, and is left running if the
//     pod is configured by then.
//   - No orphan is stopped or removed before every source of configuration has reported.
//   - The exit of a container that the same sync is about to restart is not published: an API
//     server does not forget a reported exit.
//   - A call whose context has ended counts neither as a failure nor as a success.
//   - A pod whose containers have all exited for good is not read again before its removal: no container
//     starts without a call.
//   - For 5 s after a sync that left nothing to do, a further sync of the same pod object does not
//     read the pod, unless a hint arrived after the last observation. Such syncs are frequent,
//     because a runtime sends hints about every change that a sync has made.
//   - Until podsync publishes a status of its own, the status in the newest pod object counts as
//     the last status. The first object of an API server may be older than the last status of the
//     previous agent.
//
// # Time
//
// During the crash-loop back-off of a container, Sync returns the end of the back-off and no error.
// A failed Manager.SyncPod is retried at the time of Result.RetryAt. Other failures are retried
// after 1 s, 2 s, 4 s and so on up to 10 s, each spread by Options.Jitter. Run looks for remains of
// pods every 30 s (5 min if the runtime hints at each change). While remains are found, Run looks
// every second for 10 s, and then in growing intervals up to 30 s. The remains of a forgotten pod
// are removed at once, without a look at other pods. A sync waits at most 10 s for volumes.
// Afterwards the volumes are still being set up. The text of the last failure is the message of
// containers that wait in ContainerCreating or PodInitializing.
//
// # Goroutines
//
// Run handles hints in its caller's goroutine. It has a goroutine for leftovers, a goroutine for
// garbage and lost containers, a goroutine for each pod whose remains are being removed, and the
// goroutines of a runtime.Tracker. Run waits for all goroutines. No other method starts a goroutine
// that outlives the call.
//
// # Differences from the kubelet (1.36)
//
//   - The last published status decides whether a container has finished, also when the container's
//     record is lost. The kubelet starts such a container again.
//   - A failed volume or sandbox is the message of the waiting container, not only an event.
//
// # Choices of the interface
//
//   - Volumes, Probes and Workers are interfaces of neutral types: package podsync and the three
//     implementations do not import each other.
//   - Probes are pulled (Dirty, Take), like runtime.Tracker: no callback has to be set after
//     construction.
//   - Generator is a whole runtime.DefaultGeneratorOptions, in place of options that repeat some of
//     the fields.
//   - StopUnknown reports whether the pod is being stopped. The workers answer under their lock. A
//     separate look at the configuration could be stale.
//
// # Limits
//
// Resizes in place, images held against collection, mirror pods, admission and the time of the
// active deadline (a Hook's Deadline) are features of examples/nodeagent.
package podsync

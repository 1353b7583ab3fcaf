// SPDX-License-Identifier: Apache-2.0

// Package runtime makes pods run: it decides what a pod needs next (Plan), does
// it on whatever runs containers (Manager over a Runtime), and finds out what
// changed by itself (Tracker). It is the kubelet's generic runtime manager and
// PLEG as a library.
//
//	rt, err := process.New(process.Options{Root: "/var/lib/gw/process"})
//	gen, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{LogRoot: "/var/lib/gw/logs"})
//	m, err := runtime.New(runtime.Options{Runtime: rt, Generator: gen, Logger: log})
//	tracker, err := runtime.NewTracker(runtime.TrackerOptions{Runtime: rt})
//	go tracker.Run(ctx)
//
//	result := m.SyncPod(ctx, runtime.SyncRequest{Pod: pod})
//	status := podstatus.Generate(...)         // result.Status as the API's status
//	at, again := result.RetryAt()             // when to call again, if nothing changes before
//
//	<-tracker.Dirty()
//	for _, uid := range tracker.Take() { ... } // sync these again
//
// # The caller's duties
//
//  1. Call SyncPod and KillPod for one pod from one goroutine at a time (package
//     podworkers does).
//  2. Call SyncPod again when the tracker says so, at RetryAt, and once in a while.
//  3. Never call SyncPod again for a pod after KillPod was called for it.
//  4. Call RemovePod when a pod that is over has left the configuration.
//  5. Have the program's main call process.Main if it uses that backend.
//  6. Where the runtime is an Updater, pass pods with the resources that the node
//     has allocated to them: SyncPod resizes what runs to them at once. Whether a
//     resize fits the node is decided before. A caller who limits pods as a whole
//     raises that limit before SyncPod and lowers it once SyncPod did not fail.
//  7. Pass pods with the status that their source has. What a pod's runtime records no
//     longer tell, the Manager knows from its own calls; a new process knows it only from
//     Pod.Status. Of a static pod whose records were removed while no agent ran nothing
//     is known, unless SyncRequest.Finished tells: its containers that are never
//     restarted run again.
//  8. Ask CheckPod when a pod comes: what Runtime, Generator or Hooks cannot do is
//     told there once, and fails again and again later.
//
// # Who owns which goroutine
//
// SyncPod and KillPod use goroutines for the containers of one pod and end them
// before they return. Tracker.Run owns one that watches. Backends have none
// outside a call.
//
// # A container's life
//
//	         CreateContainer        StartContainer
//	(nothing) ------------> created ------------> running
//	    ^                      |                     |  exits, or StopContainer
//	    |   RemoveContainer    v                     v
//	    +------------------ (record) <----------- exited
//
// A restart is a new instance with the next restart count; instances of one
// container never overlap.
//
// # Differences from the kubelet
//
//   - Plan is pure and its actions are ordered lists with a cause each; the
//     kubelet's planner calls hooks and kills in map order. It plans nothing once
//     the pod is deleted; a finished pod is planned for once, not at every sync; a
//     container's own restart policy counts also when the sandbox is gone (Q1), and
//     what never ran of a pod that is never restarted has its one run in a new one;
//     what it has lost sight of and never restarts is stopped, and not started
//     again, since it may have run to its end, nor fails an init container the pod
//     before it is known how that ended; what is known to have run for good
//     (Finished) does not run again because somebody removed its record, or since
//     a record appears late that an agent before this one had asked for;
//     what is behind a sidecar in the spec starts, and starts again, only while that
//     sidecar is up in this sandbox, and what runs is kept meanwhile (see Plan);
//     the last container that fails a probe is stopped with the grace period of that
//     probe before the pod is; an instance that runs beside its successor is killed,
//     and so is one that the pod has no container for; only the current sandbox
//     triggers RestartAllContainers, which Plan finds out by itself. The functions
//     that decide say why.
//   - Containers of a pod start side by side, with a bound over all pods, and no
//     hook holds up a sibling (#37805, #81450). SyncPod's context is honoured
//     throughout (#113606), and a pod is not started once it has ended (#125050).
//     While one container is slow, its siblings are looked after (Changed).
//   - Images are pulled side by side, bounded, once for all pods that want one, and
//     while the sandbox is made; the end of the pod ends the pull (#109673, #26300).
//   - Crash-loop back-off is a function of what was observed, with the delay
//     written on each instance: it survives the agent, needs no clean-up, holds
//     for starts that fail and for RestartAllContainers, and is not owed by a new
//     sandbox. A changed spec starts afresh.
//   - A container that never ran does not count as restarted.
//   - The least grace period is 1 s instead of 2 s, so a pod that asks for one
//     second gets one. A container whose stop fails releases the sidecars that
//     wait for it.
//   - A failed removal of init records ends the pass (#137710).
//   - SyncPod and KillPod return the pod as read after their last step, so nothing
//     waits for a listing (#45278). The tracker hands over a set of dirty pods,
//     not a queue of events that overflows (#72709).
//   - Ended instances are pruned where their successor starts, not by a deleter
//     with a bounded queue; the newest ended one always stays (#104107). Their
//     logs go with them, if the Generator is a LogRemover.
//   - What containers were last given (KEP-1287) needs no file: each is marked with
//     what it was made with, and what the backend reports corrects that for a new
//     agent. A container of another agent is never restarted to be sure. Limits can
//     be added and taken away in place (#128675).
//   - A hook's request goes through no proxy and keeps no connection; one that is
//     redirected from https to http goes on without its credentials. On the host's
//     network, where a sandbox may have no address, it goes to the node's.
//
// # Differences from the proposed API
//
//   - New takes Options (DESIGN §3) instead of functional options. KillPod takes a
//     request, so that a pod without a spec is a case of it and not a nil.
//   - Result.RetryAt says when to call again after whatever failed, has to wait or is left
//     to do: the Manager counts the failed calls in a row of each pod. Failed tells
//     failures from what has to wait. A caller needs no back-off of its own.
//   - Start failures (the kubelet's reason cache) are StartFailures, a value of
//     the caller's.
//
// Images of volumes are pulled by whoever makes the mounts, with EnsureImage; the
// kubelet does it in SyncPod.
//
// Not there yet: resizing a pod's resources as a whole, and checking that a pod
// may use an image that another one pulled (1.33).
package runtime

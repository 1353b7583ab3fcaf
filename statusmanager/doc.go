// SPDX-License-Identifier: Apache-2.0

// Package statusmanager tells the API server how the pods of a node are: in milliseconds, the urgent first, one request
// per status that is really different, and nothing that takes back what is final.
//
// # Wiring
//
//	patcher, err := apiserver.New(apiserver.Options{Config: restConfig})
//	...
//	manager, err := statusmanager.New(statusmanager.Options{
//		Patcher: patcher,
//		Safety:  statusmanager.SafetyFunc(workers.CouldHaveRunningContainers),
//		Logger:  logger,
//	})
//	if err != nil {
//		return err
//	}
//	go manager.Run(ctx) // returns when ctx has ended and every request has returned
//
//	manager.Observed(pod)               // for every pod that the watch of the API server shows, mirror pods too
//	manager.SetPodStatus(pod, status)   // at the end of every sync of the pod
//	manager.SetContainerReadiness(pod.UID, containerID, true) // when the prober says so
//	manager.TerminatePod(pod)           // when nothing of it runs and its volumes are gone
//	manager.RemoveOrphanedStatuses(keep) // now and then
//
// Without a Patcher it is a store of statuses for a node without API server. Without Observed and Options.Pods, the first
// write of a pod costs a GET; what others write is then noticed with our next write, and mirror pods are not known.
//
// # The caller's duties
//
//  1. Call Observed with objects as the API server sent them (or give Options.Pods); never with a status of your own in
//     them, for that would not be written.
//  2. Send the statuses of one pod in order: from one goroutine at a time, as podworkers does.
//  3. Call TerminatePod once nothing of the pod runs. A pod that is to be deleted is deleted only after that.
//  4. Call RemoveOrphanedStatuses with the UIDs that are still known: pods, static pods and mirror pods. Nothing is
//     forgotten otherwise, not even a pod that was deleted.
//  5. Do not write to a pod that was handed in, nor to what a Change points to.
//
// # What happens to a status
//
//	SetPodStatus ──> compared with the last one: what would undo an end is put back, the rest is completed
//	     │                and brought to the form in which the API server gives it back
//	     ▼ news
//	held back, if Options.Coalesce says so
//	     ▼
//	queue: terminal ▸ ready ▸ other ──> one of Options.Workers, never two for one pod
//	     ▲                                  │ merged with what others own in the newest object known, and compared
//	     │                                  ├── the same: done, no request
//	     │ back-off, Retry-After            ├── nothing known: GET
//	     └────────── error ─────────────────┼── PATCH ──> done; DELETE, if ended and to be deleted
//	                                        └── 404: parked until it is seen again
//
// The classes: ClassTerminal is for pods that ended or are to be deleted, ClassReady for changes of Ready and pods that run
// for the first time. The terminal class always goes first; of the others, what has waited for Options.Ageing gets one turn
// in four.
//
// If five requests in a row, for more than one pod, get no answer, the server is thought to be down: one request at a time
// asks, with pauses of up to 5 s, beginning with the most urgent pod; the first answer, or anything Observed, sets all
// others free.
//
// A request that failed without a clear answer may have been carried out, or may be later. The next patch then sets every
// field, so that it does not matter. One that the server confirmed, but did not take (a field it does not know), is not
// sent again; RequestEvent.Refused tells.
//
// # Goroutines
//
// Run waits for all of them: its own loop, and one per request in flight, at most Options.Workers. Nothing else starts any.
// OnRequest runs in the goroutine of the request, OnChange and Coalesce in that of the caller. SyncBatch and Resync are
// the steps of the loop, for those who drive the manager without Run.
//
// # Differences from the kubelet (1.36)
//
//   - Options.Workers requests at a time and no GET on the way, instead of one GET and PATCH after the other (140936).
//   - Priorities (107897), back-off per pod with jitter, Retry-After, and one for an outage; the kubelet tries everything
//     again whenever any pod changes.
//   - An illegal container transition puts back that container and lets the rest through, with a *TransitionError; the
//     kubelet drops the status, and the pod is frozen (87470, 76382, 83725). An ephemeral container never restarts. Init
//     containers run again where no regular one runs and one is still to run: their pod has lost its sandbox.
//   - The phase never moves back, not even from Running to Pending, and a terminal phase on the API server is never
//     undone, whoever set it. Static pods are exempt: they may come back under their UID.
//   - Ready is compared with the newest object seen, so that one taken away by the node controller is given back (80968),
//     with the time of that as its transition time.
//   - Readiness gates are followed as soon as their change is Observed, without a sync of the pod.
//   - Conditions that every pod has, and the phase, may be left out of a status; they are made up.
//   - A status is written back on the watch event that shows a difference, not by a pass over all pods every 10 s; an event
//     older than our own last write is ignored.
//   - Text is cut at the border of a rune, and made valid UTF-8, before it is compared.
//   - nominatedNodeName is the scheduler's and left alone; a start time on the server is kept.
//   - A whole list of pod or host IPs is replaced, so that a stale one cannot survive.
//   - A pod deleted by us stays in the store, with its last status, until RemoveOrphanedStatuses.
//   - Without a Safety a pod may have running containers while its status shows one and TerminatePod was not called.
//   - TerminatePod judges by the last status here whether init was done, not by that in the pod.
//   - Container IDs are matched in sidecars and init containers for readiness, as in regular ones; no bookkeeping of
//     resize conditions: they are part of the status.
//   - The latency reported is that of the change, not the age of the pod.
//
// # Choices of the interface
//
//   - New takes Options and names the bad field; the methods have the kubelet's names.
//   - SetPodStatus returns whether the status is news; GetPodStatus has the rest.
//   - RemoveOrphanedStatuses takes a predicate, so that no set has to be built.
//   - The limit on requests per second is the Patcher's (rest.Config.QPS).
package statusmanager

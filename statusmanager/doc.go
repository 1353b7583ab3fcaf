// SPDX-License-Identifier: Apache-2.0

// Package statusmanager writes pod statuses to the API server: within milliseconds, urgent statuses
// first, one request per changed status, and never reverting a final state.
//
// # Wiring
//
//	patcher, err := statuspatch.New(statuspatch.Options{Config: restConfig})
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
// Without a Patcher, Manager only stores statuses, for a node without API server. Without Observed
// and Options.Pods, the first write of a pod costs a GET. Changes of other writers are then noticed
// with the next write, and mirror pods are unknown.
//
// # The caller's duties
//
//  1. Call Observed with objects as received from the API server (or set Options.Pods). Never
//     replace the status in the object with a local status, because the local status would then not
//     be written.
//  2. Set the statuses of one pod in order, from one goroutine at a time, as podworkers does. Call
//     TerminatePod once nothing of the pod runs. A pod with a deletion timestamp is deleted only
//     after TerminatePod.
//  3. Call RemoveOrphanedStatuses with the UIDs of all known pods, static pods and mirror pods. No
//     status is forgotten otherwise, not even the status of a deleted pod.
//
// Do not write to a pod passed to the Manager, nor to the pod and statuses in a Change.
//
// # What happens to a status
//
//	SetPodStatus ──> compared with the last status: fields that would undo an end keep their values,
//	     │                missing fields are set, and the form is that of the API server's answers
//	     ▼ changed
//	delayed by Options.Coalesce
//	     ▼
//	queue: terminal ▸ ready ▸ other ──> one of Options.Workers, never two for one pod
//	     ▲                                  │ merged with the fields of other writers in the newest known object
//	     │                                  ├── equal to this object: done, no request
//	     │ back-off, Retry-After            ├── nothing known: GET
//	     └────────── error ─────────────────┼── PATCH ──> done; DELETE, if ended and to be deleted
//	                                        └── 404: parked until it is seen again
//
// The classes: ClassTerminal is for ended pods and pods with a deletion timestamp, ClassReady for
// changes of Ready and for the first Running status. The terminal class goes first. In the
// remaining classes, a write that has waited for two seconds gets one turn in four.
//
// # When requests fail
//
// The Manager does not judge the server as a whole. Each pod has its own budget of requests, and no
// answer of the server raises the budget.
//
//   - A pod without news makes at most one request per MaxBackoff (10 s), whatever the server
//     answers and whatever other writers or webhooks change in the status. News are a new status,
//     the end or the deletion of the pod, and another mirror pod. News permit five requests before
//     the limit applies, with a new back-off between them.
//   - A new status ends every wait: a back-off, a Retry-After, the minute after a refused status.
//     The patch that brings the server a new status is free, so a server that accepts every patch
//     receives every status. All other requests take from a bucket of five, which regains one
//     request per MaxBackoff, so constantly changing statuses do not defeat the budget. The end of
//     a pod fills the bucket once, so the end is written soon after an outage.
//   - A Retry-After above one minute counts as one minute.
//   - Troubled pods go last and use at most half of the workers, or a quarter while other pods
//     wait. A pod is troubled if its last request failed or was overdue, or if the same content
//     must be sent again.
//   - A request is overdue after a twentieth of RequestTimeout (500 ms). From then on the request
//     counts as a request of a troubled pod. If troubled pods already use their share of the
//     workers, the request is cancelled and counts as a failure. The next request of the pod gets
//     the whole RequestTimeout.
//   - While a troubled pod has a request in flight, a fifth of the workers is reserved for pods
//     whose last request was answered in time. Such pods take turns with pods without an answered
//     request.
//
// With five or more workers, a pod whose requests were answered before is therefore not delayed,
// even if the requests of 99 % of the pods fail or hang. A first overdue request may delay the pod
// by 500 ms. If a new pod arrives together with n new pods whose requests hang, the pod waits for
// at most n × 500 ms / 6 with ten workers. Until a request is overdue, a hanging request cannot be
// told from a slow one.
//
// A request that failed without a clear answer may have been carried out, or may be carried out
// later. The next patch then sets every field, so the outcome is the same in both cases. If the
// server confirmed a patch but did not store the change (an unknown field), the patch is not sent
// again until another writer changes the status. RequestEvent.Refused reports such a patch. If the
// server did not store the end of a pod, the end is sent again with each resync.
//
// # Goroutines
//
// Run waits for all goroutines: its own loop, and one goroutine per request in flight, at most
// Options.Workers. No other method starts a goroutine. OnRequest runs in the goroutine of the
// request. OnChange and Coalesce run in the goroutine of the caller. SyncBatch and Resync are the
// steps of the loop, for callers that drive the manager without Run.
//
// # Differences from the kubelet (1.36)
//
//   - Options.Workers concurrent requests and no GET before a PATCH, instead of one GET and PATCH
//     after the other (140936).
//   - Priorities (107897), back-off per pod with jitter, Retry-After, and a budget of requests per
//     pod; the kubelet tries everything again whenever any pod changes.
//   - An illegal container transition reverts only the container and accepts the remaining status,
//     with a *TransitionError. The kubelet drops the status, and the pod is frozen (87470, 76382,
//     83725). An ephemeral container never restarts. Init containers may run again if no regular
//     container runs and at least one is still to run, because the pod has lost its sandbox.
//   - The phase never moves back, not even from Running to Pending. A terminal phase on the API
//     server is never undone, whichever writer set the phase. Static pods are exempt, because a
//     static pod may start again under the same UID.
//   - Ready is compared with the newest observed object. If the node controller set Ready to False,
//     Ready is written again (80968), with the current time as its transition time.
//   - Readiness gates are followed as soon as their change is Observed, without a sync of the pod.
//   - Conditions of every pod, and the phase, may be missing in a status; the Manager computes the
//     missing fields.
//   - A status is written again on the watch event that shows a difference, not by a pass over all
//     pods every 10 s. Events older than the last write of the Manager are ignored.
//   - Text is cut between runes, and made valid UTF-8, before comparing.
//   - nominatedNodeName is the scheduler's and left alone; a start time on the server is kept.
//   - A list of pod or host IPs is replaced as a whole, so a stale address cannot survive.
//   - A pod deleted by the Manager stays in the store, with its last status, until
//     RemoveOrphanedStatuses.
//   - Without a Safety, a pod may have running containers until TerminatePod was called or its
//     status shows no running container.
//   - TerminatePod decides from the Manager's last status whether init was done, not from the
//     status in the pod.
//   - SetContainerReadiness finds container IDs in regular containers, sidecars and init
//     containers. Resize conditions are ordinary parts of the status, without bookkeeping.
//   - The reported latency is the age of the change, not the age of the pod.
//
// # Choices of the interface
//
//   - New takes Options and names the bad field; the methods have the kubelet's names.
//   - SetPodStatus returns whether the status is news; GetPodStatus has the rest.
//   - RemoveOrphanedStatuses takes a predicate, so callers need not build a set.
//   - The limit on requests per second is the Patcher's (rest.Config.QPS).
package statusmanager

// SPDX-License-Identifier: Apache-2.0

// Package prober finds out whether containers are started, ready and alive, by probing each running instance on time,
// and tells what changes. It is the kubelet's prober and probe results as a library.
//
// # Wiring
//
//	h, err := handlers.New(handlers.Options{Runner: runner}) // http, tcp, grpc, exec
//	p, err := prober.New(prober.Options{Handler: h, Sink: prober.SinkFunc(changed), Events: recorder, Logger: logger})
//	if err != nil {
//		return err
//	}
//	go p.Run(ctx) // returns when ctx has ended and every attempt has returned
//
//	p.Start(pod, "web", instance)                              // as soon as a container runs
//	p.AddPod(pod, prober.Running(pod, &status, agentBegan))    // at every sync
//	p.UpdatePodStatus(pod, &status)                            // whenever a status is made
//	p.StopLivenessAndStartup(pod.UID)                          // when the pod begins to end
//	p.RemovePod(pod.UID)                                       // when none of its containers runs
//	p.CleanupPods(workers.CouldHaveRunningContainers)          // now and then
//
// Package runtime asks for results when it plans, and runtime/podstatus when it makes a status. Both know containers by a
// runtime.ContainerID, of which a prober has the text:
//
//	func (r results) Liveness(id runtime.ContainerID) runtime.Verdict { return r.verdict(id, prober.Liveness) }
//	func (r results) Startup(id runtime.ContainerID) runtime.Verdict  { return r.verdict(id, prober.Startup) }
//	func (r results) verdict(id runtime.ContainerID, t prober.Type) runtime.Verdict {
//		result, _ := r.prober.Result(id.String(), t)
//		return map[prober.Result]runtime.Verdict{
//			prober.Success: runtime.VerdictSuccess, prober.Failure: runtime.VerdictFailure,
//		}[result]
//	}
//
// With Started and Ready of podstatus.Input answered from Result in the same way, UpdatePodStatus is not needed. Exec
// probes need a handlers.Runner over a runtime.Execer; package handlers says how.
//
// # The caller's duties
//
//  1. Call AddPod at every sync of a pod that is not over, with what really runs, before its status is made. Start is
//     what makes the first attempt happen on time, and Stop what ends attempts before a container is killed; AddPod
//     makes up for either that is missed, only later.
//  2. Act on a Failure of liveness or startup: sync the pod, and kill the instance, within the update's
//     TerminationGracePeriodSeconds if it has one and the pod is not being deleted. On the other updates: make and send
//     a status. An Update carries the ID of its instance; it says nothing about another.
//  3. Mark containers that ran before the agent did as Adopted, with what was last known of them. Running does that.
//  4. Call StopLivenessAndStartup when a pod begins to end, RemovePod when nothing of it runs, and CleanupPods regularly.
//     Do not call AddPod for a pod after RemovePod.
//  5. Do not write to a Pod that was passed in or handed out.
//  6. If pods have addresses: give Instance.PodIP. Without one there is no verdict; AddPod with one makes up for it.
//
// # The life of a probe
//
//	                 a startup probe that has not succeeded
//	begin ──► gated ◄────────────────────────────┐
//	  │         │ it succeeds                    │
//	  ▼         ▼            due                 │
//	waiting ◄───────┬──► queued ──► running ─────┤ thresholds
//	  ▲             │                  │         │
//	  └─────────────┴──────────────────┘         ▼
//	     next time in phase                     over: startup succeeded or failed, liveness failed
//
// Stop, or the end of the instance, leads from everywhere to stopped, and cancels an attempt that is running. An instance
// is a container ID: the next one begins with nothing, and what is late about an earlier one never touches it.
//
// The first attempt is due at exactly startedAt + initialDelaySeconds, and for what waited for startup not before its
// success; only adopted instances are spread over a period. After that, times keep their phase. An attempt that has to
// wait for Options.Concurrency happens once, late.
//
// # Goroutines
//
// Run is the scheduler, with one timer over one heap. It has one goroutine for the sink, and one for each attempt that is
// under way, never more than Options.Concurrency and ExecConcurrency; it waits for all of them. Probes that wait cost
// no goroutine and no timer, about 260 to 390 bytes each.
//
// # Differences from the kubelet (1.36)
//
// Probes are container-scoped, which upstream proposes for 1.38 (k/k 140704):
//
//   - Counters begin and end with an instance. In the kubelet a run of failures goes on in the next one (53530, 62853).
//   - The first attempt is on time (96614, 62036), and only adopted containers are jittered (118396). A stop ends that
//     wait as well (96731).
//   - A stop cancels the attempt under way, whose result counts for nothing (140977). Attempts depend on the context of
//     Run only, never on that of a sync (140881).
//   - A new agent takes over started and ready by container ID, silently (100277, 131303, 136910).
//   - Started and Ready follow from the spec and from results of that very instance (135795).
//   - With a startup probe that has not succeeded the others do not exist yet; its success begins them at once.
//   - What is not known to have changed is not told: the values that an instance begins with are no updates.
//   - Sidecars stop liveness and startup at termination, too.
//   - AddPod does not stop at the first probe that exists, and follows changed specs: the result stays, the run begins
//     anew. A probe that a running container did not have takes over how it counted without.
//   - No attempts out of turn: status and sync cost none.
//   - A sink that blocks does not block probes; what it missed is folded together.
//   - An attempt whose deadline has passed is a failure, whatever the handler says; up to three tries after errors share
//     one timeout. Errors may be made to count (74732).
//   - Events are sent for the first attempt of a kind in a row and at publication, not every period (115823).
//   - Attempts at once are bounded, those of exec on their own (82440, 118396).
//   - Specs without the API's defaults are completed; a period of 0 panics in the kubelet. Panics are not swallowed.
//
// # Choices of the interface
//
//   - The level-triggered calls keep the kubelet's names. AddPod takes what runs as a map, since nobody here polls a
//     status; a pod's UID is all the others need.
//   - Result of something unknown is false, never a success by default.
//   - Update has the probe's own grace period, so that nobody has to look for the probe again.
//   - Tune can give periods below a second (84805).
package prober

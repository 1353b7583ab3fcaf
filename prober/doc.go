// SPDX-License-Identifier: Apache-2.0

// Package prober determines whether containers are started, ready and alive. It probes each running
// instance on schedule and reports changed results. Package prober is the kubelet's prober and
// probe results as a library.
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
// Package runtime reads results when planning, and runtime/podstatus when computing a status. Both
// identify containers by a runtime.ContainerID; the prober uses its string form. A Prober can be
// passed as Probes of runtime.SyncRequest.
//
// A caller with statuses and without a Sink needs fewer calls: Observe at every sync, Alive,
// Started and Ready for the verdicts, and Dirty and Take for the pods to sync. runtime/podsync
// works in this way.
//
// A caller that answers Started and Ready of podstatus.Input from Result does not need
// UpdatePodStatus. Exec probes need a handlers.Runner; runtime.ExecRunner is one.
//
// # The caller's duties
//
//  1. Call AddPod at every sync of a pod that has not terminated, with its running containers,
//     before computing its status. Start makes the first attempt happen on time, and Stop ends
//     attempts before a container is killed. AddPod corrects a missed Start or Stop, but later.
//  2. Act on a Failure of liveness or startup: sync the pod, and kill the instance. Use the
//     TerminationGracePeriodSeconds of the update, unless the field is nil or the pod is being
//     deleted. For all other updates, compute and send a status. An Update carries the ID of its
//     instance and must not be applied to another instance.
//  3. Call StopLivenessAndStartup when a pod begins to terminate, RemovePod when none of its
//     containers runs, and CleanupPods regularly. Do not call AddPod for a pod after RemovePod.
//
// Do not write to a Pod that was passed to the Prober or returned by the Prober.
//
// # Facts about instances
//
//   - Give every pod a UID. A pod without a UID is not probed.
//   - Mark containers started before the agent as Adopted, with their last known status. Running
//     does both.
//   - If pods have addresses, give Instance.PodIP. Without an address, network probes have no
//     verdict. When AddPod brings an address, the probes whose last attempt had no verdict are
//     repeated at once.
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
// Stop, or the end of the instance, leads from every stage to stopped, and cancels a running
// attempt. An instance is a container ID. The next instance starts without results, and late calls
// about an earlier instance never affect the next.
//
// The first attempt is due exactly at startedAt + initialDelaySeconds. A gated probe is not due
// before the startup probe has succeeded. The first attempts on adopted instances whose initial
// delay has passed are spread over a period. Later attempts keep the phase of the first attempt. An
// attempt delayed by a full pool is made late, and only once.
//
// # Probes that hang
//
// A hanging probe delays only its own container. An attempt occupies one of 64 places, or for exec
// one of 32, until the attempt ends. While other attempts wait, an attempt loses its place after
// four times the usual duration and continues without a place. The usual duration is the 40th
// percentile of earlier attempts, between 250 µs and 250 ms, so the limit is 1 ms to 1 s. The next
// attempt of a slow probe begins without a place, so a hanging probe occupies a place only once.
//
// An attempt whose deadline has passed counts as failed, whatever the handler returns. If the
// handler does not return within another 100 ms, the attempt is counted without waiting for the
// handler, and counted again after each further period (or timeout, if longer). The handler is not
// called again for the probe before it has returned. A changed spec or a new instance cancels the
// attempt in progress. While two cancelled attempts of the same kind and container have not
// returned, further attempts do not call the handler and have no verdict.
//
// # Goroutines and memory
//
// Run is the scheduler, with one timer over one heap. Run starts one goroutine for the sink, one for
// attempts with an overdue handler, and one for each attempt in progress, and waits for all these
// goroutines. There are less than 100 goroutines, plus the goroutines of hanging handlers: at most one
// for each probe, and two cancelled attempts for each kind of probe of a container. So the number of
// containers bounds the memory. A waiting probe takes 260 to 390 bytes, and a
// hanging attempt takes a goroutine, about 5 KB with its context.
//
// # Differences from the kubelet (1.36)
//
// Probes are container-scoped, as proposed upstream for 1.38 (k/k 140704):
//
//   - Counters begin and end with an instance. In the kubelet a run of failures continues in the
//     next instance (53530, 62853).
//   - The first attempt is on time (96614, 62036), and only adopted containers are jittered
//     (118396). A stop also ends the wait for the first attempt (96731).
//   - A stop cancels the attempt in progress, and its result is dropped (140977). Attempts depend
//     on the context of Run only, never on the context of a sync (140881).
//   - A new agent takes over started and ready by container ID, silently (100277, 131303, 136910).
//   - Started and Ready depend only on the spec and on results of the same instance (135795).
//   - Until the startup probe has succeeded, readiness and liveness probes do not run. Its success
//     starts both at once.
//   - Only changes are reported; the initial results of an instance are not updates.
//   - Sidecars stop liveness and startup at termination, too.
//   - AddPod handles every probe, even if some exist already, and follows changed specs: the result
//     stays, and the run of attempts starts again. A probe added to a running container begins with
//     the result the container had without the probe.
//   - Status calls and syncs cause no extra attempts.
//   - A blocked sink does not block probes; missed results are merged.
//   - An attempt past its deadline is a failure, even if the handler returns success or never
//     returns. Up to three tries after errors share one timeout. Errors may be made to count
//     (74732).
//   - Events are sent for the first attempt of a kind in a row and at publication, not every period
//     (115823).
//   - Concurrent attempts are bounded, with a separate bound for exec. Hanging attempts are exempt
//     (82440, 118396).
//   - Specs without the API's defaults are completed; a period of 0 panics in the kubelet. Panics
//     are not swallowed.
//
// # Choices of the interface
//
//   - The level-triggered calls keep the kubelet's names. AddPod takes the running instances as a
//     map, because the Prober does not poll a status. All other calls need only a pod UID.
//   - For an unknown instance or probe, Result returns false, and never a success by default.
//   - Update has the probe's own grace period, so the receiver need not look up the probe.
//   - Tune can give periods below a second (84805).
package prober

// SPDX-License-Identifier: Apache-2.0

// Package fake is a runtime.Runtime in memory, for tests and simulations of
// everything that stands above a container runtime: containers that do what a
// script says, faults on demand, and a journal of all that happened.
//
//	synctest.Test(t, func(t *testing.T) {
//		world, err := fake.NewWorld(fake.WorldOptions{})
//		world.Script(fake.Target{Container: "web"}, fake.Exit(30*time.Second, 1)) // crashes after 30 s, always
//		rt, err := fake.New(fake.Options{World: world})
//		world.Inject(fake.Fault{On: fake.Target{Op: fake.OpStartContainer}, Nth: 2, Err: errors.New("no")})
//
//		runNode(t, rt) // the code under test
//
//		require.NoError(t, world.NoOverlap())
//		require.Equal(t, 3, world.Count(fake.Target{Op: fake.OpStartContainer}))
//		t.Log(world.Journal())
//	})
//
// # World and Runtime
//
// A World is the machine: records, processes, faults, journal. A Runtime is one
// agent's hold on it, and has the World's methods. To restart the agent, make a
// second Runtime over the same World; to reboot the machine, call Reboot first.
//
// # The caller's duties
//
//  1. Run it under testing/synctest for virtual time. It works in real time too;
//     then Close the World to be rid of timers.
//  2. Give each simulated node its own World. They share nothing.
//  3. In big simulations set WorldOptions.JournalLimit; NoOverlap and Total
//     stay exact.
//  4. Functions handed in (Latency, Behave, Check, Match, Output, Exec) are
//     called with no lock held, by the goroutine of the call they belong to.
//
// # Goroutines
//
// None. A call runs in its caller's goroutine, an exit in that of its timer. A
// container costs no goroutine and, beside its spec, less than 1 KB; a timer
// that is pending does not keep a synctest bubble from ending.
//
// # A container's life
//
//	           StartContainer           ExitAfter, StopContainer, Kill, …
//	created ──────────────────> running ─────────────────────────────────> exited
//	   └──────────── StopContainer (code 137, never startable) ──────────────^
//
// LoseTrack makes a running one StateUnknown to whoever asks; it runs on.
//
// # What it does not emulate
//
//   - Processes: no command is run, no mount, resource limit, user, security
//     context or environment has any effect (Script.Output and Script.Exec get
//     the spec and can act on it). Files at terminationMessagePath are not read:
//     Script.Message is the message.
//   - Images: every image is there; ImageID and ImageRef are the image's name.
//   - Networks: IPs are handed out but lead nowhere.
//   - Streams: the URLs for exec, attach and port-forward lead nowhere, either.
//   - Logs are all printed at the start, and neither rotated nor reopened.
//   - A second sandbox with the same attempt, or container with the same name
//     and restart count, is not refused, as it would be by a CRI runtime.
//   - Time that passes while the machine reboots.
//   - An order among what several goroutines or timers do at the same instant of
//     virtual time (but an exit due at the end of a grace period beats the kill).
//   - Stops are never slower than SIGKILL: the fake has no process that cannot
//     be killed (use Fault.HangUntilCtx).
//
// Where the seam leaves a choice, the fake takes the one that is harder on the
// caller: List reports IDs, names, sandboxes and states only, pods with nothing
// to report are left out, Watch is silent about what calls did themselves, and
// all that is gone is ErrNotFound.
//
// NoOverlap asks about every container, not about those of one name: of a name
// that is spelt wrong there never are two instances.
package fake

// SPDX-License-Identifier: Apache-2.0

// Package fake is a runtime.Runtime in memory, for tests and simulations of all layers above a
// container runtime: containers run scripts, faults come on demand, and a journal lists all calls
// and exits.
//
//	synctest.Test(t, func(t *testing.T) {
//		world, err := fake.NewWorld(fake.WorldOptions{})
//		world.Script(fake.Target{Container: "web"}, fake.Exit(30*time.Second, 1)) // each instance crashes after 30 s
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
// A World is the machine: records, processes, faults, journal. A Runtime is an agent's connection
// to the World, and has the World's methods. A second Runtime over the same World simulates a restart
// of the agent. With a call of Reboot before, it simulates a restart of the machine.
//
// # The caller's duties
//
//  1. Run tests under testing/synctest for virtual time. In real time, Close the World at the end
//     to stop timers.
//  2. Give each simulated node its own World. Worlds share no state.
//  3. In big simulations set WorldOptions.JournalLimit. NoOverlap and Total stay exact.
//  4. Functions in options and scripts (Latency, Behave, Check, Match, Output, Exec) are called
//     with no lock held, by the goroutine of the call.
//
// # Goroutines
//
// None. A call runs in the caller's goroutine, an exit in the goroutine of its timer. A container
// costs no goroutine and, beside its spec, less than 1 KB. A pending timer does not keep a synctest
// bubble from ending.
//
// # A container's life
//
//	           StartContainer           ExitAfter, StopContainer, Kill, …
//	created ──────────────────> running ─────────────────────────────────> exited
//	   └──────────── StopContainer (code 137, never startable) ──────────────^
//
// List and PodStatus report a running container as StateUnknown after LoseTrack. The container runs
// on.
//
// # What the fake does not emulate
//
//   - Processes: no command is run. Mounts, resource limits, users, security contexts and
//     environments have no effect (Script.Output and Script.Exec get the spec and can use the
//     spec). Files at terminationMessagePath are not read: Script.Message is the message.
//   - Images: every image is present. ImageID and ImageRef are the image's name.
//   - Networks: IPs are assigned but lead nowhere.
//   - Streams: the URLs for exec, attach and port-forward lead nowhere.
//   - Logs: all lines are printed at the start. Logs are neither rotated nor reopened.
//   - Duplicates: a second sandbox with the same attempt, or a second container with the same name
//     and restart count, is accepted. A CRI runtime refuses both.
//   - Reboots take no time.
//   - Order: several goroutines or timers at the same instant of virtual time run in any order (but
//     an exit due at the end of a grace period precedes the kill).
//   - Stops are never slower than SIGKILL: the fake has no process that cannot be killed (use
//     Fault.HangUntilCtx).
//
// Where runtime.Runtime allows several behaviours, the fake has the one that is hardest for the
// caller. List reports only IDs, names, sandboxes and states, and omits pods without records. Without
// WorldOptions.Echo, Watch gives no hints about the effects of calls. A call for a missing record
// fails with ErrNotFound.
//
// NoOverlap covers all containers and takes no name, because a check with a misspelt name would
// always pass.
package fake

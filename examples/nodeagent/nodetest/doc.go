// SPDX-License-Identifier: Apache-2.0

// Package nodetest is a whole node for unit tests: the real agent with all its
// parts over a fake runtime, in virtual time. An hour of a node's life takes
// milliseconds. Durations are exact in each run; the order of events at one instant
// of virtual time is not the same in each run, nor is what depends on it.
//
//	func TestCrashLoop(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			node := nodetest.New(t, nodetest.Options{})
//			node.World.Script(fake.Target{Container: "c"}, fake.Exit(30*time.Second, 1))
//			node.Apply(nodetest.Pod("web", nodetest.Container("c")))
//			time.Sleep(time.Hour)
//			node.Settle()
//			require.EqualValues(t, 15, node.Status("web").ContainerStatuses[0].RestartCount)
//		})
//	}
//
// What happens to containers is told to Node.World (package runtime/fake):
// scripts, faults, reboots, lost records. Its journal says, with virtual times,
// what the agent did.
//
// # Several nodes
//
// Nodes that share Options.API are nodes of one cluster. Each has a name of its own,
// Options.NodeName or the first of "node", "node-2", … that is free, and runs the
// pods that are bound to this name: by Node.Bind, or by whoever creates a pod on the
// server with this Spec.NodeName.
//
// # Scripts
//
// The same can be said in a file, one command per line, which RunScripts runs:
//
//	func TestScripts(t *testing.T) { nodetest.RunScripts(t, "testdata/*.txt") }
//
// and in testdata/crash.txt:
//
//	# An agent that dies between making a container and starting it.
//	node latency=20ms
//	crash-at CreateContainer done
//	apply web init=i volume=data grace=2
//	behave web/i exit=1s
//	sleep 10s
//	agent start
//	within 10s expect running web/c
//	calm
//	end
//
// Commands prints what commands there are. Words are cut at blanks; single quotes
// keep them together; # begins a comment. A command after ! has to fail, one after ?
// may. Files that "apply NAME.yaml" reads are at the end of the script, each after a
// line "-- NAME.yaml --". When a script fails, the line and the journal are printed;
// Play returns the journal in any case.
// Whatever the script itself expects, Check judges all that happened.
//
// # Crashes
//
// Everything that an agent does outside of itself goes through a lease, which a crash
// revokes: runtime, volumes of VolumeDriver, API server, sources, statuses, events.
// Node.CrashAgent decides by chance which of the calls under way still take effect;
// Node.CrashAgentOn has the agent die at a certain call.
//
// # Schedules
//
// Schedule makes a script by chance, and Shrink makes a failing one small:
//
//	script := nodetest.Schedule(seed)
//	if r := nodetest.Play(t, script); r.Err != nil { … nodetest.Shrink(script, …) … }
//
// Of three schedules one is peaceful ("node peaceful"): no call fails or takes time. What the agent does is then due at a
// known instant, and a second and plain model judges each creation, restart, stop and probe to the second, and each
// status after each "sleep".
//
// # What is not simulated
//
//   - Steps of the wall clock, which a bubble does not have. A leap is simulated by
//     SuspendAgent: time goes by and nothing gets in or out, but timers fire.
//   - A crash in the midst of what the agent writes to its own folder, and the built-in
//     volume plugins: a file is written at one instant of virtual time.
//   - A fixed order of events at one instant: the scheduler of goroutines decides, in
//     each run anew, and so about the IDs that are given out then. A seed that fails
//     by such an order fails again often, not always.
//   - The content of images, networks, processes: see package runtime/fake.
//   - A creation of a mirror pod whose reply is lost.
package nodetest

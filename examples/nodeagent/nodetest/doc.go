// SPDX-License-Identifier: Apache-2.0

// Package nodetest is a whole node for unit tests: the real agent with all its
// parts over a fake runtime, in virtual time. An hour of a node's life takes
// milliseconds and is the same every time.
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
// line "-- NAME.yaml --". When a script fails, the line and the journal are printed.
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
// # What is not simulated
//
//   - Steps of the wall clock, which a bubble does not have. A leap is simulated by
//     SuspendAgent: time goes by and nothing gets in or out, but timers fire.
//   - A crash in the midst of what the agent writes to its own folder, and the built-in
//     volume plugins: a file is written at one instant of virtual time.
//   - The order of what happens at one instant, which is up to the scheduler of
//     goroutines, is not the same in each run, and neither are IDs that are given out
//     then: a seed that fails by that fails again often, not always.
//   - Images, networks, processes: see package runtime/fake.
package nodetest

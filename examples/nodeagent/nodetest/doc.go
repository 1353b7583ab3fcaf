// SPDX-License-Identifier: Apache-2.0

// Package nodetest is a whole node for unit tests: the real agent with all its parts over a fake
// runtime, in virtual time. An hour of a node's life takes milliseconds. Durations are exact in each
// run. The order of events at the same instant of virtual time may differ between runs, unless the test
// runs under command dst.
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
// Node.World (package runtime/fake) controls the containers: scripts, faults, reboots, lost records.
// Its journal has the agent's calls with virtual times.
//
// # Several nodes
//
// Nodes with the same Options.API are nodes of a cluster. Each node has a unique name:
// Options.NodeName, or the first free name of "node", "node-2", …. A node runs the pods that are
// bound to its name, by Node.Bind or by the Spec.NodeName of a pod created on the server.
//
// # Scripts
//
// A test can also be a file with a command per line. RunScripts runs such files:
//
//	func TestScripts(t *testing.T) { nodetest.RunScripts(t, "testdata/*.txt") }
//
// The file testdata/crash.txt:
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
// Commands returns a description of all commands. Blanks separate words, and single quotes keep words
// together. # begins a comment. A command after ! must fail, and a command after ? may fail. Files for
// "apply NAME.yaml" are at the end of the script, each after a line "-- NAME.yaml --". When a script
// fails, the line and the journal are printed. Play returns the journal in any case. In addition to
// the expectations of the script, Check judges the whole history.
//
// # Crashes
//
// Every effect of an agent on its environment goes through a lease, which a crash revokes: runtime,
// volumes of VolumeDriver, API server, sources, statuses, events. Node.CrashAgent decides by chance
// which calls in progress still take effect. Node.CrashAgentOn crashes the agent at a certain call.
//
// # Schedules
//
// Schedule makes a random script, and Shrink reduces a failing script:
//
//	script := nodetest.Schedule(seed)
//	if r := nodetest.Play(t, script); r.Err != nil { … nodetest.Shrink(script, …) … }
//
// A third of the schedules are peaceful ("node peaceful"): no call fails or takes time. Every action
// of the agent is then due at a known instant. An independent plain model judges each creation,
// restart, stop and probe to the second, and each status after each "sleep".
//
// The table of abilities (func abilities) lists what schedules exercise beside starts and exits. An
// ability has words of "node" and of pods, steps, and judges, mostly in one file: probes with other
// thresholds, host ports, taints and operating systems at admission, restart rules, variables from
// keys that come and go, images and volumes that cannot be had for some time, shared volumes,
// hooks that fail, limits above the requests, ephemeral
// containers, another client that changes statuses on the API server, and agents that share a process with
// the server. Sources submit lists or, with "node deltas", changes of single pods. File supplies.go tells the
// model when a container had all that it needs.
//
// The requests of an agent to the API server are judged in every schedule, by the promises of package
// statusmanager: file talk.go has the conversation about each pod. Files invariantpatches.go,
// invariantwritten.go and invariantretries.go judge the texts, the effects and the times of the requests.
//
// # What is not simulated
//
//   - Steps of the wall clock, because a bubble does not have them. SuspendAgent simulates a leap:
//     time passes without input or output, but timers fire.
//   - A crash during a write of the agent to its own folder, and the built-in volume plugins: a file
//     is written at a single instant of virtual time.
//   - A fixed order of events at the same instant, in a plain go test. The goroutine scheduler decides
//     the order, and with it the IDs given out, anew in each run. A seed that fails because of the
//     order fails often, but not always. Under command dst (tools/dst) a seed decides the order, and
//     the journal of a schedule is the same in every process: see Deterministic.
//   - The content of images, networks, processes: see package runtime/fake.
//   - A creation of a mirror pod whose reply is lost.
package nodetest

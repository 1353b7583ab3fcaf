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
package nodetest

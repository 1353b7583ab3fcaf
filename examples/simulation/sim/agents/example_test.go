// SPDX-License-Identifier: Apache-2.0

package agents_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/agents"
)

// The body of a test, in a bubble of testing/synctest, does the same with t.TempDir() as Root, and
// calls Run of the simulation before stop.
func ExampleNew() {
	cluster := nodes(1)
	backend, stop := agents.New(agents.Options{Nodes: cluster, Root: "relative"})
	_, err := sim.New(sim.Options{Nodes: cluster, Backend: backend})
	fmt.Println(err)
	fmt.Println(stop())
	// Output:
	// agents: cluster: Options.Root "relative": want an absolute path
	// <nil>
}

// SPDX-License-Identifier: Apache-2.0

package oomwatch_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/oomwatch"
)

// Example reads a record of the kernel's log.
func Example() {
	victim, ok := oomwatch.Parse("3,1200,93847265,-;Out of memory: Killed process 17 (stress) total-vm:1024kB, anon-rss:512kB")
	fmt.Println(victim.Process, victim.PID, ok)
	// Output: stress 17 true
}

// SPDX-License-Identifier: Apache-2.0

package hotplug_test

import (
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/hotplug"
)

// Example decides about a pod with the policy Stop: its modem is plugged in, unplugged, and plugged in
// again as another device node.
func Example() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	record := hotplug.Record{}
	for _, seen := range []hotplug.Facts{
		{Nodes: "inode 7", Numbers: "c 166:0"},
		{Missing: "/dev/serial/by-id/modem"},
		{Nodes: "inode 9", Numbers: "c 166:1"},
	} {
		var action hotplug.Action
		record, action = hotplug.Decide(hotplug.Stop, record, seen, now)
		if action.Stop {
			record = record.Stopped(now)
		}
		fmt.Printf("start %v, stop %v, decide again after %v\n", action.Start, action.Stop, action.After)
		now = now.Add(time.Minute)
	}
	// Output:
	// start true, stop false, decide again after 0s
	// start false, stop true, decide again after 0s
	// start false, stop false, decide again after 100ms
}

// SPDX-License-Identifier: Apache-2.0

package hierarchy_test

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/cgroups/hierarchy"
)

// Example limits the memory of a cgroup. It needs root.
func Example() {
	writer, err := hierarchy.New(cgroups.Cgroupfs)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := writer.Ensure("/demo", cgroups.Values{Memory: 64 << 20}); err != nil {
		fmt.Println(err)
		return
	}
	limits, exists, err := writer.Limits("/demo")
	fmt.Println(limits.Memory, exists, err)
	fmt.Println(writer.Remove(context.Background(), "/demo"))
}

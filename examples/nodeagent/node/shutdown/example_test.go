// SPDX-License-Identifier: Apache-2.0

package shutdown_test

import (
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/shutdown"
)

// ExampleGracePeriods shows classes for node.Options.ShutdownClasses.
func ExampleGracePeriods() {
	classes, err := shutdown.GracePeriods(time.Minute, 10*time.Second)
	fmt.Println(err)
	for _, c := range classes {
		fmt.Println(c.Priority, c.Grace)
	}
	// Output:
	// <nil>
	// -2147483648 50s
	// 2000000000 10s
}

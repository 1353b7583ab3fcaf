// SPDX-License-Identifier: Apache-2.0

package stats_test

import (
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/runtime/stats"
)

// Two measurements give the cores that a container uses.
func Example() {
	start := time.Unix(1000, 0)
	first := stats.CPU{At: start, UsageNanoseconds: 3e9}
	second := stats.CPU{At: start.Add(10 * time.Second), UsageNanoseconds: 8e9}

	used := time.Duration(second.UsageNanoseconds - first.UsageNanoseconds)
	fmt.Printf("%.2f cores\n", used.Seconds()/second.At.Sub(first.At).Seconds())
	// Output: 0.50 cores
}

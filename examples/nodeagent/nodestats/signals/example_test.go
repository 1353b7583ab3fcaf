// SPDX-License-Identifier: Apache-2.0

package signals_test

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats/signals"
)

// Example measures the free disk space of a node without pods. Package eviction calls both methods.
func Example() {
	collector, err := nodestats.New(nodestats.Options{
		NodeName: "edge-1", Root: os.TempDir(), LogDir: os.TempDir(),
		Pods: func() []*v1.Pod { return nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	observer := &signals.Observer{Collector: collector}
	levels, err := observer.Levels(context.Background())
	fmt.Println(levels.Readings[pressure.NodeFSAvailable].Capacity > 0, err)
	// Output: true <nil>
}

// SPDX-License-Identifier: Apache-2.0

package eviction_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/eviction"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
)

// full is an Observer of a node without free process IDs.
type full struct{}

func (full) Levels(context.Context) (eviction.Levels, error) {
	r := pressure.Reading{Available: 10, Capacity: 32768, At: time.Now()}
	return eviction.Levels{Readings: map[pressure.Signal]pressure.Reading{pressure.PIDAvailable: r}}, nil
}

func (full) Usage(context.Context, []*v1.Pod) ([]pressure.Usage, error) { return nil, nil }

// Example makes a single pass. An agent of package node calls Manager.Feature, which makes the passes.
func Example() {
	thresholds, err := pressure.Parse(pressure.Settings{Hard: map[string]string{"pid.available": "5%"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	manager, err := eviction.New(eviction.Options{Observer: full{}, Policy: pressure.Policy{Thresholds: thresholds}})
	if err != nil {
		fmt.Println(err)
		return
	}
	pass, err := manager.Pass(context.Background(), &world{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, message := manager.Refuse(&v1.Pod{})
	fmt.Println(pass.Starved)
	fmt.Println(message)
	// Output:
	// [pid.available<5%]
	// The node had condition: [PIDPressure].
}

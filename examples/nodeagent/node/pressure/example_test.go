// SPDX-License-Identifier: Apache-2.0

package pressure_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/pressure"
)

// Example finds the pod to evict on a node with 80 MiB of free memory.
func Example() {
	thresholds, err := pressure.Parse(pressure.Settings{Hard: pressure.DefaultHard()})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := pressure.Policy{Thresholds: thresholds, Hold: pressure.DefaultHold}
	now := time.Now()
	readings := map[pressure.Signal]pressure.Reading{pressure.MemoryAvailable: {Available: 80 << 20, Capacity: 4 << 30, At: now}}
	_, pass := policy.Judge(pressure.State{}, readings, now)
	fmt.Println(pass.Conditions, pass.Starved)

	usages := []pressure.Usage{
		{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "small"}}, Known: true, Memory: 20 << 20},
		{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "large"}}, Known: true, Memory: 3 << 30},
	}
	starved, layout := pass.Starved[0], pressure.Layout{}
	ranked := pressure.Rank(starved.Signal, layout, usages)
	eviction, _ := policy.Victim(starved, layout, ranked, readings[starved.Signal])
	fmt.Printf("%s within %d s: %s\n", eviction.Pod.Name, *eviction.Grace, eviction.Message)
	// Output:
	// [MemoryPressure] [memory.available<100Mi]
	// large within 1 s: The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi.
}

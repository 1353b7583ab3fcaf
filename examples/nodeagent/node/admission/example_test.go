// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
)

func Example() {
	node := &admission.Node{Name: "gw-17", OS: "linux", Allocatable: list("cpu=2 pods=10")}
	used := usage(pod("web", asks("cpu=1500m")))

	for _, p := range []string{"cpu=500m", "cpu=1"} {
		failures := admission.Check(node, used, admission.DemandOf(pod("next", asks(p))))
		fmt.Println(p, len(failures) == 0)
		for _, f := range failures {
			fmt.Println(f.Reason+":", f.Message)
		}
	}
	// Output:
	// cpu=500m true
	// cpu=1 false
	// OutOfcpu: Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000
}

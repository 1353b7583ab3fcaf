// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/examples/simulation/fleet"
)

// The second of three processes runs every third node.
func Example() {
	f, err := fleet.New(fleet.Options{
		Config: &rest.Config{Host: "https://127.0.0.1:6443"}, Root: "/var/lib/fleet",
		Nodes: 7, Shard: 1, Shards: 3,
	})
	if err != nil {
		panic(err)
	}
	for _, n := range f.Cluster().Nodes() {
		fmt.Println(n.Name)
	}
	// Output:
	// sim-1
	// sim-4
}

// SPDX-License-Identifier: Apache-2.0

package nodeconfig_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeconfig"
)

// Example reads a file with a field that is a flag, and one with a value that the agent refuses.
func Example() {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	config, err := nodeconfig.Parse([]nodeconfig.File{{Name: "config.yaml", Data: []byte(head + "maxPods: 30\n")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range config.Settings {
		if s.Field == "maxPods" {
			fmt.Printf("--%s=%s\n", s.Flag, s.Value)
		}
	}
	_, err = nodeconfig.Parse([]nodeconfig.File{{Name: "config.yaml", Data: []byte(head + "cpuManagerPolicy: static\n")}})
	fmt.Println(err)
	// Output:
	// --max-pods=30
	// config.yaml:3: cpuManagerPolicy: this agent supports only none: set it to that or remove it
}

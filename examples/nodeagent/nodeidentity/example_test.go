// SPDX-License-Identifier: Apache-2.0

package nodeidentity_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeidentity"
)

// The names and addresses of a node's serving certificate, and the time of its renewal.
func ExampleServingTemplate() {
	want, ok := nodeidentity.ServingTemplate("gateway-17", []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: "10.0.0.17"},
		{Type: v1.NodeHostName, Address: "gateway-17"},
	})
	fmt.Println(ok, want.CommonName, want.DNSNames, want.IPs)
	notBefore := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	fmt.Println(nodeidentity.Deadline(notBefore, notBefore.AddDate(0, 0, 100), 0.5).Format(time.DateOnly))
	// Output:
	// true system:node:gateway-17 [gateway-17] [10.0.0.17]
	// 2026-03-22
}

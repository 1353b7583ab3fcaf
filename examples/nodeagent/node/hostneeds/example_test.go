// SPDX-License-Identifier: Apache-2.0

package hostneeds_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/hostneeds"
)

// Example asks a host without AppArmor for a profile.
func Example() {
	needs := hostneeds.New(hostneeds.Options{AppArmor: func() bool { return false }})
	profile := &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
	pod := &v1.Pod{Spec: v1.PodSpec{
		SecurityContext: &v1.PodSecurityContext{AppArmorProfile: profile},
		Containers:      []v1.Container{{Name: "main"}},
	}}
	answer := needs.Admit(pod)
	fmt.Println(answer.Reason)
	fmt.Println(answer.Message)
	// Output:
	// UnsupportedPodSpec
	// the host cannot honour: spec.securityContext.appArmorProfile (AppArmor is not enabled)
}

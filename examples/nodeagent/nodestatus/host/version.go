// SPDX-License-Identifier: Apache-2.0

package host

import "fmt"

// Behaviour is the version of the kubelet whose behaviour the agent has. The agent may be built with
// newer Kubernetes modules: their version is not the version of the behaviour.
const Behaviour = "v1.36.3"

// suffix distinguishes the agent from the kubelet of the same version.
const suffix = "+keelson"

// Version returns the kubelet version in the Node status for a version of Kubernetes, such as
// v1.35.0. The result is a semantic version, because clients parse the field. An empty text stands for
// Behaviour. The error names the required form.
func Version(kubernetes string) (string, error) {
	if kubernetes == "" {
		return Behaviour + suffix, nil
	}
	var minor, patch uint16
	_, err := fmt.Sscanf(kubernetes, "v1.%d.%d", &minor, &patch)
	if err != nil || kubernetes != fmt.Sprintf("v1.%d.%d", minor, patch) {
		return "", fmt.Errorf("%q: want a version of Kubernetes, such as %s", kubernetes, Behaviour)
	}
	return kubernetes + suffix, nil
}

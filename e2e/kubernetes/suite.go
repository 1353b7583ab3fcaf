// SPDX-License-Identifier: Apache-2.0

//go:build suite

package kubernetes

// The imports keep upstream's suites among the requirements of this module: ../kubernetes.sh builds
// them as e2e.test and e2e_node.test.
import (
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/e2e_node"
)

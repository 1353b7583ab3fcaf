// SPDX-License-Identifier: Apache-2.0

//go:build suite

package kubernetes

// The import keeps upstream's suite among the requirements of this module: ../kubernetes.sh builds
// it as e2e.test.
import _ "k8s.io/kubernetes/test/e2e"

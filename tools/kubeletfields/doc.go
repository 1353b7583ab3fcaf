// SPDX-License-Identifier: Apache-2.0

// Package kubeletfields has a test only: the fields of examples/nodeagent/nodeconfig/fields.txt are those
// of KubeletConfiguration in k8s.io/kubelet. The type is compiled here, so that no program that imports
// the library needs that module and its 157 packages.
package kubeletfields

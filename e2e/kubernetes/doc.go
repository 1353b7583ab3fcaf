// SPDX-License-Identifier: Apache-2.0

// Package kubernetes is a separate module that pins kube-apiserver, etcd, kubectl and the other
// programs of a control plane as tools, so that users of keelson do not download them.
// ../kubernetes.sh builds the requested programs for the tests of the main module:
//
//	dir=$(e2e/kubernetes.sh)
//	KEELSON_APISERVER_DIR=$dir KEELSON_REQUIRE_APISERVER=1 go test ./internal/apiservertest
//
// The kubelet, upstream's suite and the programs of its images are pinned, too; ../conformance.sh
// builds them for make conformance.
//
// The servers are for tests only: no package of keelson imports this module or k8s.io/kubernetes.
// The module is separate from module e2e, because the two require different versions of the same
// libraries.
//
// To change the version of Kubernetes, set the version in the requirement of k8s.io/kubernetes, set
// the corresponding v0 version in all replacements, and run go mod tidy.
package kubernetes

// SPDX-License-Identifier: Apache-2.0

// Package kubernetes is a module of its own that pins kube-apiserver, etcd and
// kubectl as tools, and the other programs of a control plane, so that no user of keelson
// downloads them. ../kubernetes.sh builds what is asked for, and the tests of the
// main module run on it:
//
//	dir=$(e2e/kubernetes.sh)
//	KEELSON_APISERVER_DIR=$dir KEELSON_REQUIRE_APISERVER=1 go test ./internal/apiservertest
//
// They are servers for tests only: nothing of keelson imports this module or
// k8s.io/kubernetes. It is apart from the module above it because the two would
// want different versions of the same libraries.
//
// For another version of Kubernetes: write it in the requirement of
// k8s.io/kubernetes, its v0 twin in all replacements, and run go mod tidy.
package kubernetes

// SPDX-License-Identifier: Apache-2.0

// Package metricsserver is a separate module that pins metrics-server as a tool, so that users of
// keelson do not download it. ../program.sh builds it for a test of the main module:
//
//	export KEELSON_METRICS_SERVER=$(e2e/program.sh metrics-server) KEELSON_APISERVER_DIR=$(e2e/kubernetes.sh)
//	go test -run TestKubectlTop ./examples/nodeagent
//
// The k8s.io modules have the versions of module ../kubernetes, so that both builds share packages.
package metricsserver

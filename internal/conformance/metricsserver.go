// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// metricsServerVariable names the program that e2e/program.sh builds.
const metricsServerVariable = "KEELSON_METRICS_SERVER"

// metricsObjects register metrics-server with the API server.
const metricsObjects = `apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost, ports: [{port: %[1]d}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics-server, namespace: kube-system, port: %[1]d}
`

// metricsPort is the port of metrics-server on loopback.
const metricsPort = 10443

// startMetricsServer starts metrics-server as an administrator of the cluster, and registers it with
// the API server.
func (c *cluster) startMetricsServer(ctx context.Context, log string) error {
	kubeconfig := c.server.Kubeconfig()
	err := c.startService(os.Getenv(metricsServerVariable), log,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		fmt.Sprintf("--secure-port=%d", metricsPort), "--bind-address=127.0.0.1", "--cert-dir="+filepath.Join(c.dir, "metrics-server"),
		"--metric-resolution=10s", "--kubelet-request-timeout=9s",
		"--kubelet-insecure-tls", "--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port")
	if err != nil {
		return err
	}
	return c.apply(ctx, "metrics-server.yaml", fmt.Sprintf(metricsObjects, metricsPort))
}

// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// metricsServerVariable names the program that e2e/metrics-server.sh builds.
const metricsServerVariable = "KEELSON_METRICS_SERVER"

// metricsStep is the step of the session that needs metrics-server.
const metricsStep = "top"

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

// startMetricsServer starts metrics-server as an administrator of the cluster, and registers it with
// the API server. The caller must call stop.
func startMetricsServer(ctx context.Context, c *cluster, logFile string) (stop func(), err error) {
	ports, err := freePorts()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	kubeconfig := c.server.Kubeconfig()
	cmd := exec.Command(os.Getenv(metricsServerVariable), "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		fmt.Sprintf("--secure-port=%d", ports[0]), "--bind-address=127.0.0.1", "--cert-dir="+filepath.Join(c.dir, "metrics-server"),
		"--metric-resolution=10s", "--kubelet-request-timeout=9s",
		"--kubelet-insecure-tls", "--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // the process ends by a signal
	}
	objects := filepath.Join(c.dir, "metrics-server.yaml")
	err = os.WriteFile(objects, fmt.Appendf(nil, metricsObjects, ports[0]), 0o600)
	if err == nil {
		err = applyObjects(ctx, c, objects)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// applyObjects applies a file as soon as the API server accepts it: the namespace comes later than
// the server.
func applyObjects(ctx context.Context, c *cluster, file string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := c.server.Kubectl(ctx, "apply", "-f", file)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(time.Second):
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build !nolocalapi && !noapiserver

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/examples/nodeagent/localapi"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestats"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
)

// serveKubectl adds logs, streams and usage to the API, and listens on --kubectl-port.
func (l *local) serveKubectl(ctx context.Context, parts serverParts, opts *localapi.Options, socket *http.ServeMux) (func(context.Context), error) {
	open := func(next http.Handler) http.Handler { return next } // localapi authenticates
	kubelet, err := nodeserver.New(nodeserver.Options{Guard: open, Logger: l.log, Groups: []nodeserver.Group{
		nodeserver.Logs(nodeserver.LogOptions{Pods: parts.find, Runtime: parts.runtime, Logger: l.log}),
		nodeserver.Streams(nodeserver.StreamOptions{Pods: parts.find, Runtime: parts.runtime, IdleTimeout: l.flags.server.idleTimeout(), Logger: l.log}),
	}})
	if err != nil {
		return nil, err
	}
	opts.Kubelet = kubelet
	opts.Usage = func(ctx context.Context) (localapi.Usage, error) { return usageOf(ctx, parts.usage) }
	if l.flags.local.port == 0 {
		return func(ctx context.Context) {
			<-ctx.Done()
			kubelet.Close()
		}, nil
	}
	loopback := func() []net.IP { return []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback} }
	certificate, err := nodeserver.SelfSigned(nodeserver.SelfSignedOptions{Dir: filepath.Join(l.flags.root, "kubectl"), Host: "localhost", IPs: loopback, Logger: l.log})
	if err != nil {
		return nil, fmt.Errorf("--kubectl-port: %w", err)
	}
	config, err := nodeserver.NewTLSConfig(nodeserver.TLSOptions{Certificate: certificate})
	if err != nil {
		return nil, fmt.Errorf("--kubectl-port: %w", err)
	}
	tokens := localapi.NewTokens()
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.api.ServeHTTP(w, r) })
	var paths []nodeserver.Group
	for _, path := range []string{"/api", "/api/", "/apis", "/apis/", "/openapi/", "/version", "/healthz", "/livez", "/readyz"} {
		paths = append(paths, nodeserver.Handle(path, api))
	}
	server, err := nodeserver.New(nodeserver.Options{Guard: tokens.Guard, Groups: paths, Logger: l.log})
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx, "127.0.0.1", l.flags.local.port)
	if err != nil {
		return nil, fmt.Errorf("serve kubectl: %w (choose another --kubectl-port, or 0 for none)", err)
	}
	address := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(l.flags.local.port))
	socket.Handle("POST /keelson/token", tokens)
	socket.HandleFunc("GET /keelson/kubectl", func(w http.ResponseWriter, _ *http.Request) {
		pair, err := certificate()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		info := kubectlInfo{address, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})}
		_ = json.NewEncoder(w).Encode(info) // a client that has left cannot be told
	})
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			<-ctx.Done()
			kubelet.Close()
		})
		if err := server.Serve(ctx, tls.NewListener(listener, config)); err != nil {
			l.log.Error("--kubectl-port is not served any more", zap.Error(err))
		}
	}, nil
}

// usageOf measures the node for metrics.k8s.io.
func usageOf(ctx context.Context, c *collector) (localapi.Usage, error) {
	snapshot, err := c.Collect(ctx, nodestats.Request{Detail: nodestats.CPUAndMemory})
	if err != nil {
		return localapi.Usage{}, err
	}
	s := snapshot.Summary
	u := localapi.Usage{At: snapshot.At, Node: amounts(s.Node.CPU, s.Node.Memory), Containers: map[types.UID]map[string]v1.ResourceList{}}
	for i := range s.Pods {
		of := map[string]v1.ResourceList{}
		for _, container := range s.Pods[i].Containers {
			of[container.Name] = amounts(container.CPU, container.Memory)
		}
		u.Containers[types.UID(s.Pods[i].PodRef.UID)] = of
	}
	return u, nil
}

// amounts returns the usage of processor and working set. Both are zero if they are not known.
func amounts(cpu *statsapi.CPUStats, memory *statsapi.MemoryStats) v1.ResourceList {
	var cores, bytes int64
	if cpu != nil && cpu.UsageNanoCores != nil {
		cores = int64(*cpu.UsageNanoCores)
	}
	if memory != nil && memory.WorkingSetBytes != nil {
		bytes = int64(*memory.WorkingSetBytes)
	}
	return v1.ResourceList{
		v1.ResourceCPU: *resource.NewScaledQuantity(cores, resource.Nano), v1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI),
	}
}

// describe adds the container runtime and the pressure to a Node object.
func (n *localNode) describe(object *v1.Node) {
	facts := nodestatus.Facts{Info: object.Status.NodeInfo}
	describeRuntime(&facts, n.parts.runtime)
	object.Status.NodeInfo, object.Status.RuntimeHandlers, object.Status.Features = facts.Info, facts.RuntimeHandlers, facts.Features
}

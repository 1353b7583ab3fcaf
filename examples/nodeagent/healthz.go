// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeserver"
)

// newHealthz listens on --healthz-port and returns the function that serves /healthz there until
// its context ends. kubeadm waits for the endpoint.
func newHealthz(ctx context.Context, f flags, parts serverParts) (func(context.Context), error) {
	if f.server.healthzPort == 0 {
		return func(context.Context) {}, nil
	}
	everyone := func(h http.Handler) http.Handler { return h }
	server, err := nodeserver.New(nodeserver.Options{Guard: everyone, Groups: []nodeserver.Group{nodeserver.Health(parts.checks()...)}})
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx, f.server.healthzAddress, f.server.healthzPort)
	if err != nil {
		return nil, fmt.Errorf("serve /healthz: %w (choose another --healthz-port, or 0 for none)", err)
	}
	return func(ctx context.Context) { serve(ctx, listener, server) }, nil
}

// loopPatience limits the health check of the sync loop.
const loopPatience = 2 * time.Second

// checks returns the health checks of --port and --healthz-port.
func (p *serverParts) checks() []nodeserver.Check {
	return append(p.devices.checks(), nodeserver.Check{Name: "syncloop", Do: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, loopPatience)
		defer cancel()
		return p.agent.Alive(ctx)
	}})
}

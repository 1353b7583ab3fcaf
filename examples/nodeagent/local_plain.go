// SPDX-License-Identifier: Apache-2.0

//go:build !nolocalapi && noapiserver

package main

import (
	"context"
	"errors"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/localapi"
)

// serveKubectl adds nothing to the API: this program has no streams.
func (l *local) serveKubectl(context.Context, serverParts, *localapi.Options, *http.ServeMux) (func(context.Context), error) {
	if l.flags.local.port != 0 {
		return nil, errors.New("--kubectl-port: this program was built without API servers (tag noapiserver)")
	}
	return func(context.Context) {}, nil
}

func (n *localNode) describe(*v1.Node) {}

// SPDX-License-Identifier: Apache-2.0

//go:build noapiserver

package main

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"
)

// receiveKlog does nothing: no package of this program logs through klog.
func receiveKlog(*zap.Logger, *verbosity) {}

func setKlogVerbosity(int) {}

func newServer(_ context.Context, f flags, _ serverParts) (func(context.Context), error) {
	if f.server.port != 0 {
		return nil, errors.New("--port: this program was built without API servers (tag noapiserver)")
	}
	return func(context.Context) {}, nil
}

func usageHandler(*collector) (http.Handler, error) { return http.NotFoundHandler(), nil }

func newHealthz(_ context.Context, f flags, _ serverParts) (func(context.Context), error) {
	if f.server.healthzPort != 0 {
		return nil, errors.New("--healthz-port: this program was built without API servers (tag noapiserver)")
	}
	return func(context.Context) {}, nil
}

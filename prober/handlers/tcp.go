// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/prober"
)

// tcpSocket is healthy if the target accepts a connection. The connection is closed at once.
func (h *Handler) tcpSocket(ctx context.Context, t prober.Target, action *v1.TCPSocketAction) (prober.Outcome, error) {
	address, err := addressOf(t, action.Host, action.Port)
	if err != nil {
		return prober.Outcome{}, err
	}
	c, err := h.dialOf(t, action.Host)(ctx, "tcp", address)
	if err != nil {
		return failure(ctx, "%v", err)
	}
	reset(c)
	_ = c.Close()
	return prober.Outcome{Verdict: prober.VerdictSuccess}, nil
}

// SPDX-License-Identifier: Apache-2.0

package handlers

import (
	"context"
	"net"
)

// UserAgent is userAgent.
const UserAgent = userAgent

// Dial makes h connect by dial.
func (h *Handler) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	h.dial = dial
}

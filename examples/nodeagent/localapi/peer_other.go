// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package localapi

import (
	"errors"
	"net"
)

// peerOf knows no peers: on other systems than Linux, Peers refuses all requests.
func peerOf(net.Conn) (Peer, error) { return Peer{}, errors.ErrUnsupported }

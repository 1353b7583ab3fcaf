// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"net/url"
)

// Streamer is an optional ability of a Runtime: to let somebody talk to a
// container while it runs, as kubectl exec, attach and port-forward do. It only
// tells where to: the caller connects there, or sends its own caller there, who
// upgrades the connection to SPDY or WebSocket with the kubelet's protocols.
//
// A URL is good for one connection, and for a short while only (containerd: a
// minute). It holds the right to connect, so it goes into no log or event. It is
// absolute, and may be reachable from the node only.
//
// Errors wrap ErrNotFound where there is no such container or sandbox. To ask for
// no stream, for an empty command or for a port that is none is an error, and so
// is what does not run: of the call, or of the connection that is made later.
type Streamer interface {
	// ExecURL is for running cmd beside a running container.
	ExecURL(ctx context.Context, id ContainerID, cmd []string, streams Streams) (*url.URL, error)
	// AttachURL is for the main process of a running container. streams.TTY must
	// be what the container was made with, and Stdin only if it was made with it.
	AttachURL(ctx context.Context, id ContainerID, streams Streams) (*url.URL, error)
	// PortForwardURL is for TCP ports of a pod, whose current sandbox this is. A
	// caller over SPDY names the ports per stream, and ports may be empty; one
	// over WebSocket has to name them here.
	PortForwardURL(ctx context.Context, id SandboxID, ports []int32) (*url.URL, error)
}

// Streams are what is to be connected; at least one. With a TTY there is no
// standard error: what is written there comes as standard output, and Stderr
// means nothing.
type Streams struct {
	Stdin, Stdout, Stderr bool
	TTY                   bool
}

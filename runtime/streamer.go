// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"net/url"
)

// Streamer is an optional ability of a Runtime: to return URLs for streams to a running container,
// as needed by kubectl exec, attach and port-forward. The caller connects to the URL, or redirects
// its own client to the URL. The client upgrades the connection to SPDY or WebSocket with the
// kubelet's protocols.
//
// A URL is valid for a single connection and for a short time only (containerd: a minute). Knowing
// the URL is the permission to connect, so do not write a URL to a log or an event. The URL is
// absolute, and may be reachable from the node only.
//
// Errors wrap ErrNotFound if the container or sandbox does not exist. A call without any stream,
// with an empty command or with an invalid port is an error. If the container does not run, either
// the call or the later connection fails.
type Streamer interface {
	// ExecURL returns the URL of a new command in a running container.
	ExecURL(ctx context.Context, id ContainerID, cmd []string, streams Streams) (*url.URL, error)
	// AttachURL returns the URL of the main process of a running container. streams.TTY must equal
	// the container's TTY field. Stdin is allowed only for a container with Stdin.
	AttachURL(ctx context.Context, id ContainerID, streams Streams) (*url.URL, error)
	// PortForwardURL returns the URL of TCP ports of the pod with the current sandbox id. A client
	// over SPDY names the ports per stream, and ports may be empty. For a client over WebSocket,
	// ports has all ports.
	PortForwardURL(ctx context.Context, id SandboxID, ports []int32) (*url.URL, error)
}

// Streams selects the streams of a connection, at least one. With a TTY, standard error is part of
// standard output and Stderr is ignored.
type Streams struct {
	Stdin, Stdout, Stderr bool
	TTY                   bool
}

// SPDX-License-Identifier: Apache-2.0

// Package grpcunix connects clients with gRPC servers on Unix sockets, and serves until a context ends.
package grpcunix

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// NewClient returns a client for the socket at path. The first call connects. The environment's proxies and service
// configs do not apply. maxMessage bounds an answer, in bytes.
func NewClient(path string, maxMessage int, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///unix", append([]grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}),
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.ForceCodecV2(newCodec())),
	}, more...)...)
}

// Serve serves a listener until ctx ends and all connections are closed. The error is nil after the end of ctx. With
// grpc.WaitForHandlers, all calls have returned.
func Serve(ctx context.Context, server *grpc.Server, l net.Listener) error {
	defer context.AfterFunc(ctx, server.Stop)()
	err := server.Serve(l)
	server.Stop()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

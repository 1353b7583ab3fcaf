// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// retryEvery is the poll interval for states of containerd without an event.
const retryEvery = 10 * time.Millisecond

// dial returns a connection to socket, which may be created later. The connection is restored at
// once when containerd restarts.
func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryEvery, Multiplier: 1, MaxDelay: retryEvery},
			MinConnectTimeout: time.Second,
		}))
}

// waitReady returns when the runtime and its network are ready. Other conditions do not affect
// readiness; containerd 2 has a condition about deprecated configuration.
func waitReady(ctx context.Context, runtime runtimeapi.RuntimeServiceClient) error {
	return retry(ctx, func() error {
		status, err := runtime.Status(ctx, &runtimeapi.StatusRequest{})
		if err != nil {
			return err
		}
		for _, c := range status.GetStatus().GetConditions() {
			ready := c.GetType() == runtimeapi.RuntimeReady || c.GetType() == runtimeapi.NetworkReady
			if ready && !c.GetStatus() {
				return fmt.Errorf("not %s: %s: %s", c.GetType(), c.GetReason(), c.GetMessage())
			}
		}
		return nil
	})
}

// waitImage returns when the CRI has the named image. containerd reports an import to the CRI by an
// event.
func waitImage(ctx context.Context, images runtimeapi.ImageServiceClient, name string) error {
	return retry(ctx, func() error {
		status, err := images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if err == nil && status.GetImage() == nil {
			err = fmt.Errorf("the runtime does not have the image %s", name)
		}
		return err
	})
}

// retry calls f until success or the end of ctx. The error then includes the last error of f.
func retry(ctx context.Context, f func() error) error {
	ticker := time.NewTicker(retryEvery)
	defer ticker.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

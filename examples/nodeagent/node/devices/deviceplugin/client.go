// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	plugins "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/ledger"
	"github.com/keelson-dev/keelson/internal/grpcunix"
)

// dialTimeout limits the connection to a plug-in and its first answer.
const dialTimeout = 10 * time.Second

// maxMessage is the largest message of a plug-in, in bytes.
const maxMessage = 16 << 20

// client implements devices.Plugin.
type client struct {
	path    string
	conn    *grpc.ClientConn
	api     plugins.DevicePluginClient
	options *plugins.DevicePluginOptions
}

// dial connects to the plug-in at a socket and reads its options.
func dial(ctx context.Context, path string) (*client, error) {
	conn, err := grpcunix.NewClient(path, maxMessage)
	if err != nil {
		return nil, fmt.Errorf("device plug-in at %s: %w", path, err)
	}
	c := &client{path: path, conn: conn, api: plugins.NewDevicePluginClient(conn)}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if c.options, err = c.api.GetDevicePluginOptions(ctx, &plugins.Empty{}, grpc.WaitForReady(true)); err != nil {
		c.close()
		return nil, fmt.Errorf("device plug-in at %s: failed to get device plugin options: %w", path, err) // words of the kubelet
	}
	return c, nil
}

func (c *client) close() { _ = c.conn.Close() }

// Watch implements devices.Plugin.
func (c *client) Watch(ctx context.Context, report func([]ledger.Device)) error {
	stream, err := c.api.ListAndWatch(ctx, &plugins.Empty{})
	if err != nil {
		return fmt.Errorf("ListAndWatch: %w", err)
	}
	for {
		list, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("ListAndWatch: %w", err)
		}
		report(devicesOf(list.Devices))
	}
}

func devicesOf(list []*plugins.Device) (all []ledger.Device) {
	for _, d := range list {
		device := ledger.Device{ID: d.ID, Healthy: d.Health == plugins.Healthy}
		for _, node := range d.GetTopology().GetNodes() {
			device.NUMA = append(device.NUMA, node.ID)
		}
		all = append(all, device)
	}
	return all
}

// Prefer implements devices.Plugin.
func (c *client) Prefer(ctx context.Context, choice ledger.Choice) ([]string, error) {
	if !c.options.GetGetPreferredAllocationAvailable() {
		return nil, nil
	}
	answer, err := c.api.GetPreferredAllocation(ctx, &plugins.PreferredAllocationRequest{ContainerRequests: []*plugins.ContainerPreferredAllocationRequest{{
		AvailableDeviceIDs: choice.Available, MustIncludeDeviceIDs: choice.MustInclude, AllocationSize: int32(choice.Size),
	}}})
	if err != nil || len(answer.ContainerResponses) == 0 {
		return nil, err
	}
	return answer.ContainerResponses[0].DeviceIDs, nil
}

// Allocate implements devices.Plugin.
func (c *client) Allocate(ctx context.Context, ids []string) (*plugins.ContainerAllocateResponse, error) {
	answer, err := c.api.Allocate(ctx, &plugins.AllocateRequest{ContainerRequests: []*plugins.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		return nil, err
	}
	if len(answer.ContainerResponses) == 0 {
		return nil, fmt.Errorf("no containers in response: %v", answer)
	}
	return answer.ContainerResponses[0], nil
}

// PreStart implements devices.Plugin.
func (c *client) PreStart(ctx context.Context, ids []string) error {
	if !c.options.GetPreStartRequired() {
		return nil
	}
	_, err := c.api.PreStartContainer(ctx, &plugins.PreStartContainerRequest{DevicesIds: ids})
	return err
}

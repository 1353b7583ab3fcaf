// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keelson-dev/keelson/internal/grpcunix"
	"github.com/keelson-dev/keelson/volumemanager"
)

// ErrNoDriver reports that no process listens on a driver's socket. The driver was not called.
var ErrNoDriver = errors.New("the CSI driver does not run")

// maxMessage is the largest accepted answer, in bytes.
const maxMessage = 4 << 20

// abilities are the relevant capabilities of a driver's node service.
type abilities struct {
	stage  bool // STAGE_UNSTAGE_VOLUME
	expand bool // EXPAND_VOLUME
	group  bool // VOLUME_MOUNT_GROUP
	modes  bool // SINGLE_NODE_MULTI_WRITER: the driver distinguishes the two single-node modes
}

// node is a connection for a single operation.
type node struct {
	csi.NodeClient
	conn   *grpc.ClientConn
	can    abilities
	cancel context.CancelFunc
}

func (n *node) close() {
	n.cancel()
	_ = n.conn.Close()
}

// connect connects to a driver and queries its capabilities. Use the returned ctx for all calls
// until close.
func (p *Plugin) connect(ctx context.Context, driver string) (*node, context.Context, error) {
	path := p.options.Socket(driver)
	if path == "" {
		return nil, nil, volumemanager.Transient(fmt.Errorf("driver %q: %w", driver, ErrNoDriver))
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, volumemanager.Transient(fmt.Errorf("driver %q: %w: no %s", driver, ErrNoDriver, path))
	}
	conn, err := grpcunix.NewClient(path, maxMessage)
	if err != nil {
		return nil, nil, volumemanager.Transient(fmt.Errorf("driver %q: %w", driver, err))
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	n := &node{NodeClient: csi.NewNodeClient(conn), conn: conn, cancel: cancel}
	answer, err := n.NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
	if err != nil {
		n.close()
		if status.Code(err) == codes.Unavailable {
			err = ErrNoDriver
		}
		return nil, nil, volumemanager.Transient(fmt.Errorf("driver %q: %w", driver, plain(err, nil)))
	}
	n.can = abilitiesOf(answer)
	return n, ctx, nil
}

func abilitiesOf(answer *csi.NodeGetCapabilitiesResponse) abilities {
	var can abilities
	for _, c := range answer.GetCapabilities() {
		switch c.GetRpc().GetType() {
		case csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
			can.stage = true
		case csi.NodeServiceCapability_RPC_EXPAND_VOLUME:
			can.expand = true
		case csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:
			can.group = true
		case csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			can.modes = true
		}
	}
	return can
}

// judge classifies a driver's error: whether the operation may still be under way, or have left
// anything behind.
func judge(call string, err error, secrets map[string]string) error {
	if err == nil {
		return nil
	}
	judged := fmt.Errorf("%s: %w", call, plain(err, secrets))
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted, codes.Unknown:
		return volumemanager.Uncertain(judged)
	}
	return volumemanager.Final(judged)
}

// driverError is an error answer of a driver.
type driverError struct {
	code codes.Code
	text string
	err  error
}

func (e *driverError) Error() string { return fmt.Sprintf("%s: %s", e.code, e.text) }
func (e *driverError) Unwrap() error { return e.err }

// shortest is the minimum length of a secret's value that is removed from an error text.
const shortest = 4

// plain returns a gRPC error without gRPC's phrases, and without the values of secrets.
func plain(err error, secrets map[string]string) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := s.Message()
	for _, value := range secrets {
		if len(value) >= shortest {
			text = strings.ReplaceAll(text, value, "(secret)")
		}
	}
	e := &driverError{code: s.Code(), text: text}
	switch s.Code() {
	case codes.DeadlineExceeded:
		e.err = context.DeadlineExceeded
	case codes.Canceled:
		e.err = context.Canceled
	}
	return e
}

// secretsOf returns the content of a secret named by the volume.
func (p *Plugin) secretsOf(ctx context.Context, namespace, name string) (map[string]string, error) {
	if p.options.Secrets == nil {
		return nil, volumemanager.Terminal(errors.New("the volume needs a secret, and this agent has no source of secrets"))
	}
	s, err := p.options.Secrets.Secret(ctx, namespace, name)
	if err != nil {
		return nil, volumemanager.Transient(fmt.Errorf("secret %s/%s: %w", namespace, name, err))
	}
	out := make(map[string]string, len(s.Data))
	for k, v := range s.Data {
		out[k] = string(v)
	}
	return out, nil
}

// Info is a driver's information about itself on this node, for a CSINode object.
type Info struct {
	NodeID     string
	MaxVolumes int64 // 0: no limit
	Topology   map[string]string
}

// Info calls NodeGetInfo of a driver.
func (p *Plugin) Info(ctx context.Context, driver string) (Info, error) {
	n, ctx, err := p.connect(ctx, driver)
	if err != nil {
		return Info{}, err
	}
	defer n.close()
	answer, err := n.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil {
		return Info{}, fmt.Errorf("driver %q: %w", driver, judge("NodeGetInfo", err, nil))
	}
	return Info{answer.GetNodeId(), answer.GetMaxVolumesPerNode(), answer.GetAccessibleTopology().GetSegments()}, nil
}

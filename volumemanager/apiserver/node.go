// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
)

// NodeOptions are the options of NewNode.
type NodeOptions struct {
	// Client reads nodes; client-go's CoreV1() is one. Required.
	Client corev1.NodesGetter
	// NodeName is the node's name. Required.
	NodeName types.NodeName
	// Timeout is how long one request may take. Defaults to DefaultTimeout.
	Timeout time.Duration
}

// Node reads the API server's object of one node, at each call; calls that come together share a request. It is a
// volumemanager.Node.
type Node struct {
	options NodeOptions
	gets    flights[types.NodeName, *v1.Node]
}

var _ volumemanager.Node = (*Node)(nil)

// NewNode returns a Node. An error names the option that is wrong.
func NewNode(o NodeOptions) (*Node, error) {
	switch {
	case o.Client == nil:
		return nil, fmt.Errorf("%w: NodeOptions.Client is required", ErrOptions)
	case o.NodeName == "":
		return nil, fmt.Errorf("%w: NodeOptions.NodeName is required", ErrOptions)
	case o.Timeout < 0:
		return nil, fmt.Errorf("%w: NodeOptions.Timeout is negative: %v", ErrOptions, o.Timeout)
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	return &Node{options: o}, nil
}

// Get returns the node as the server has it. It may be shared, and is not to be written to. The error is an *Error, or
// the cause of ctx's end.
func (n *Node) Get(ctx context.Context) (*v1.Node, error) {
	return n.gets.do(ctx, n.options.NodeName, func(ctx context.Context) (*v1.Node, error) {
		return request(ctx, n.options.Timeout, VerbGet, func(ctx context.Context) (*v1.Node, error) {
			return n.options.Client.Nodes().Get(ctx, string(n.options.NodeName), metav1.GetOptions{})
		})
	})
}

// AttachedVolumes returns the node's status.volumesAttached: device paths by volume.
func (n *Node) AttachedVolumes(ctx context.Context) (map[v1.UniqueVolumeName]string, error) {
	node, err := n.Get(ctx)
	if err != nil {
		return nil, err
	}
	attached := make(map[v1.UniqueVolumeName]string, len(node.Status.VolumesAttached))
	for _, v := range node.Status.VolumesAttached {
		attached[v.Name] = v.DevicePath
	}
	return attached, nil
}

// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/internal/clientkit"
	"github.com/keelson-dev/keelson/volumemanager"
)

// NodeOptions are the options of NewNode.
type NodeOptions struct {
	// Client reads nodes, for example FromCore(CoreV1()) with client-go. Required.
	Client NodesClient
	// NodeName is the node's name. Required.
	NodeName types.NodeName
	// Changed is called by Run with the present node, and after each change of the node. Call
	// Manager.NodeChanged, and Manager.MarkVolumesAsReportedInUse with the node's list, in it.
	// Changed must not write to the node, and should not block. Defaults to no call.
	Changed func(*v1.Node)
	// Logger receives Run's failures to follow the node. Defaults to silence.
	Logger *zap.Logger
}

// Node reads the API server's object of a node at each call. Concurrent calls share a request. Node
// implements volumemanager.Node.
type Node struct {
	options NodeOptions
	ran     atomic.Bool
	gets    flights[types.NodeName, *v1.Node]
}

var _ volumemanager.Node = (*Node)(nil)

// NewNode returns a Node. The error names the invalid option.
func NewNode(o NodeOptions) (*Node, error) {
	switch {
	case o.Client == nil:
		return nil, fmt.Errorf("%w: NodeOptions.Client is required", ErrOptions)
	case o.NodeName == "":
		return nil, fmt.Errorf("%w: NodeOptions.NodeName is required", ErrOptions)
	}
	if o.Changed == nil {
		o.Changed = func(*v1.Node) {}
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return &Node{options: o}, nil
}

// Run calls NodeOptions.Changed for changes until ctx ends, then returns nil. A second Run is an
// error. The other methods work without Run.
func (n *Node) Run(ctx context.Context) error {
	if n.ran.Swap(true) {
		return ErrRunning
	}
	nodes, selector := n.options.Client.Nodes(), fields.OneTermEqualSelector("metadata.name", string(n.options.NodeName)).String()
	f := feed{what: "Node", logger: n.options.Logger}
	f.list = func(ctx context.Context) (string, error) {
		list, err := nodes.List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err == nil && (list == nil || list.ResourceVersion == "") {
			err = clientkit.ErrBadAnswer // client-go reads any JSON object as a list
		}
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			n.changed(&list.Items[i])
		}
		return list.ResourceVersion, nil
	}
	f.watch = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = selector
		return nodes.Watch(ctx, o)
	}
	f.see = func(e watch.Event) {
		if node, ok := e.Object.(*v1.Node); ok && e.Type != watch.Deleted {
			n.changed(node)
		}
	}
	f.follow(ctx)
	return nil
}

// changed passes on this node only, because a server may ignore the selector.
func (n *Node) changed(node *v1.Node) {
	if node.Name == string(n.options.NodeName) {
		n.options.Changed(node)
	}
}

// ReportInUse writes the node's status.volumesInUse, so that no controller detaches these volumes,
// and returns the server's list after the write. ReportInUse also sets the annotation by which the
// attach/detach controller attaches volumes to this node.
func (n *Node) ReportInUse(ctx context.Context, names []v1.UniqueVolumeName) ([]v1.UniqueVolumeName, error) {
	if names == nil {
		names = []v1.UniqueVolumeName{}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{managedAttach: "true"}},
		"status":   map[string]any{"volumesInUse": names},
	})
	if err != nil {
		return nil, err
	}
	node, err := request(ctx, verbPatch, func(ctx context.Context) (*v1.Node, error) {
		return n.options.Client.Nodes().Patch(ctx, string(n.options.NodeName), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	})
	if err != nil {
		return nil, err
	}
	return node.Status.VolumesInUse, nil
}

// managedAttach is the annotation of a node whose volumes a controller attaches.
const managedAttach = "volumes.kubernetes.io/controller-managed-attach-detach"

// Get returns the server's latest state of the node. The node may be shared: do not write to it.
// The error is an *Error, or the cause of ctx.
func (n *Node) Get(ctx context.Context) (*v1.Node, error) {
	return n.gets.do(ctx, n.options.NodeName, func(ctx context.Context) (*v1.Node, error) {
		return request(ctx, verbGet, func(ctx context.Context) (*v1.Node, error) {
			return n.options.Client.Nodes().Get(ctx, string(n.options.NodeName), metav1.GetOptions{})
		})
	})
}

// AttachedVolumes returns the node's status.volumesAttached: device paths by volume name.
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

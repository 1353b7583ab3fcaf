// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
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
	// Changed is told, by Run, of the node as it is and whenever it has changed: that is when Manager.NodeChanged is to
	// be called, and Manager.MarkVolumesAsReportedInUse with its list. It does not write to the node, and returns soon.
	// Defaults to nobody.
	Changed func(*v1.Node)
	// Logger is told by Run when the server cannot be followed. Defaults to nobody.
	Logger *zap.Logger
}

// Node reads the API server's object of one node, at each call; calls that come together share a request. It is a
// volumemanager.Node.
type Node struct {
	options NodeOptions
	running once
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
	if o.Changed == nil {
		o.Changed = func(*v1.Node) {}
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return &Node{options: o}, nil
}

// Run tells NodeOptions.Changed of changes until ctx ends; then it returns nil. There is one Run per Node; the other
// methods need none.
func (n *Node) Run(ctx context.Context) error {
	if err := n.running.begin(); err != nil {
		return err
	}
	nodes, selector := n.options.Client.Nodes(), fields.OneTermEqualSelector("metadata.name", string(n.options.NodeName)).String()
	f := feed{what: "Node", timeout: n.options.Timeout, logger: n.options.Logger}
	f.list = func(ctx context.Context) (string, error) {
		list, err := nodes.List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err == nil && (list == nil || list.ResourceVersion == "") {
			err = errBadAnswer // client-go reads any JSON object as a list
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

// changed passes on what is about this node: not every server knows the selector.
func (n *Node) changed(node *v1.Node) {
	if node.Name == string(n.options.NodeName) {
		n.options.Changed(node)
	}
}

// ReportInUse writes the node's status.volumesInUse, so that no controller detaches these volumes, and returns the list
// that the server has after that. It also says, by the annotation that the attach/detach controller looks for, that a
// controller is to attach volumes to this node.
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
	node, err := request(ctx, n.options.Timeout, VerbPatch, func(ctx context.Context) (*v1.Node, error) {
		return n.options.Client.Nodes().Patch(ctx, string(n.options.NodeName), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	})
	if err != nil {
		return nil, err
	}
	return node.Status.VolumesInUse, nil
}

// managedAttach is the annotation of a node that a controller attaches volumes to.
const managedAttach = "volumes.kubernetes.io/controller-managed-attach-detach"

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

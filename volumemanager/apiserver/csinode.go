// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	storageclient "k8s.io/client-go/kubernetes/typed/storage/v1"
)

// Times of a CSINode.
const (
	// DriverInterval is the time between two questions to the drivers; a socket tells nobody that its driver has changed.
	DriverInterval = 10 * time.Second
	// DriverGone is for how long a driver may be silent, as while it is replaced, before it is taken out of the object.
	DriverGone = time.Minute
	// CSINodeCheck is how often the object is read, for what others made of it.
	CSINodeCheck = 5 * time.Minute
	firstRetry   = time.Second
)

// CSINodeOptions are the options of NewCSINode.
type CSINodeOptions struct {
	// Client writes the CSINode object; client-go's StorageV1() is one. Required.
	Client storageclient.CSINodesGetter
	// Nodes reads the Node, which must exist, and labels it; client-go's CoreV1() is one. Required.
	Nodes corev1.NodesGetter
	// NodeName is the node's name. Required.
	NodeName types.NodeName
	// Drivers are the names of the drivers there may be. Required.
	Drivers []string
	// Info asks a driver; an error says that it does not answer. It is called concurrently, and with a time limit.
	// (*csi.Plugin).Info fits, with a conversion of what it returns. Required.
	Info func(ctx context.Context, driver string) (DriverInfo, error)
	// Timeout is how long one request may take. Defaults to DefaultTimeout.
	Timeout time.Duration
	// Logger is told by Run what cannot be written. Defaults to nobody.
	Logger *zap.Logger
}

// CSINode keeps the API server's CSINode object of a node: which drivers there are, what they call the node, how many
// volumes each takes, and by which labels of the node its volumes are placed. Controllers that attach volumes, and the
// scheduler, go by it. It is the kubelet's work (1.36), where drivers are those that have registered.
type CSINode struct {
	options CSINodeOptions
	running once

	// Of the goroutine that calls Publish.
	since   time.Time             // of the first call
	infos   map[string]DriverInfo // of the drivers that are not gone
	heard   map[string]time.Time  // when each last answered
	written *desired              // what the server has; nil: unknown
	checked time.Time
}

// desired is what the object is to say.
type desired struct {
	infos  map[string]DriverInfo
	silent []string // drivers of which an entry is to be left as it is
}

// NewCSINode returns a CSINode. An error names the option that is wrong.
func NewCSINode(o CSINodeOptions) (*CSINode, error) {
	wrong := func(what string) (*CSINode, error) {
		return nil, fmt.Errorf("%w: CSINodeOptions.%s", ErrOptions, what)
	}
	switch {
	case o.Client == nil:
		return wrong("Client is required")
	case o.Nodes == nil:
		return wrong("Nodes is required")
	case o.NodeName == "":
		return wrong("NodeName is required")
	case len(o.Drivers) == 0:
		return wrong("Drivers is required")
	case o.Info == nil:
		return wrong("Info is required")
	case o.Timeout < 0:
		return wrong(fmt.Sprintf("Timeout is negative: %v", o.Timeout))
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	o.Drivers = slices.Clone(o.Drivers)
	return &CSINode{options: o, infos: make(map[string]DriverInfo), heard: make(map[string]time.Time)}, nil
}

// Run publishes until ctx ends; then it returns nil, and the object stays: the volumes do, too. There is one Run per
// CSINode.
func (c *CSINode) Run(ctx context.Context) error {
	if err := c.running.begin(); err != nil {
		return err
	}
	told := ""
	for pause := firstRetry; ; {
		err := c.Publish(ctx)
		if ctx.Err() != nil {
			return nil
		}
		wait := DriverInterval
		if err != nil || len(c.infos) < len(c.options.Drivers) && time.Since(c.since) < DriverGone {
			wait, pause = pause, min(2*pause, DriverInterval)
		} else {
			pause = firstRetry
		}
		if err == nil {
			told = ""
		} else if told != err.Error() {
			told = err.Error()
			c.options.Logger.Warn("CSINode cannot be published", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// Publish asks the drivers, and writes what has changed; it is the step of Run, for one goroutine at a time. A driver that
// does not answer is no error.
func (c *CSINode) Publish(ctx context.Context) error {
	c.ask(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := c.desire(time.Now())
	if c.written != nil && reflect.DeepEqual(*c.written, now) && time.Since(c.checked) < CSINodeCheck {
		return nil
	}
	c.written = nil
	if err := c.write(ctx, now); err != nil {
		return fmt.Errorf("CSINode %s: %w", c.options.NodeName, err)
	}
	c.written, c.checked = &now, time.Now()
	return nil
}

// ask has every driver speak for itself.
func (c *CSINode) ask(ctx context.Context) {
	infos, errs := make([]DriverInfo, len(c.options.Drivers)), make([]error, len(c.options.Drivers))
	var wg sync.WaitGroup
	for i, driver := range c.options.Drivers {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
			defer cancel()
			infos[i], errs[i] = c.options.Info(ctx, driver)
		})
	}
	wg.Wait()
	for i, driver := range c.options.Drivers {
		if errs[i] == nil && infos[i].NodeID != "" {
			c.infos[driver], c.heard[driver] = infos[i], time.Now()
		}
	}
}

// desire is what the object is to say now.
func (c *CSINode) desire(now time.Time) desired {
	if c.since.IsZero() {
		c.since = now
	}
	d := desired{infos: make(map[string]DriverInfo)}
	for _, driver := range c.options.Drivers {
		heard, known := c.heard[driver]
		switch {
		case known && now.Sub(heard) < DriverGone:
			d.infos[driver] = c.infos[driver]
		case known:
			delete(c.infos, driver)
			delete(c.heard, driver)
		case now.Sub(c.since) < DriverGone:
			d.silent = append(d.silent, driver)
		}
	}
	return d
}

// write brings the Node's labels and the object to what is desired.
func (c *CSINode) write(ctx context.Context, d desired) error {
	node, err := request(ctx, c.options.Timeout, VerbGet, func(ctx context.Context) (*v1.Node, error) {
		return c.options.Nodes.Nodes().Get(ctx, string(c.options.NodeName), metav1.GetOptions{})
	})
	if err != nil {
		return fmt.Errorf("its Node: %w", err)
	}
	infos, labels, clash := agreeing(node, d.infos)
	if err := c.label(ctx, node, infos, labels); err != nil {
		return err
	}
	if err := c.writeObject(ctx, node, infos, d.silent); err != nil {
		return err
	}
	return clash
}

func (c *CSINode) writeObject(ctx context.Context, node *v1.Node, infos map[string]DriverInfo, silent []string) error {
	object, err := request(ctx, c.options.Timeout, VerbGet, func(ctx context.Context) (*storagev1.CSINode, error) {
		return c.options.Client.CSINodes().Get(ctx, node.Name, metav1.GetOptions{})
	})
	switch {
	case apierrors.IsNotFound(err):
		return c.create(ctx, node, driverEntries(infos, nil, nil))
	case err != nil:
		return err
	case !owns(node, object): // of a Node that was deleted; nothing that it says is true
		if err := c.remove(ctx, object); err != nil {
			return err
		}
		return c.create(ctx, node, driverEntries(infos, nil, nil))
	}
	entries := driverEntries(infos, silent, object.Spec.Drivers)
	if sameEntries(entries, object.Spec.Drivers) {
		return nil
	}
	_, err = c.update(ctx, object, entries)
	less := unchanged(object.Spec.Drivers, entries)
	if !apierrors.IsInvalid(err) || len(less) == len(entries) {
		return err
	}
	if object, err = c.update(ctx, object, less); err != nil {
		return err
	}
	_, err = c.update(ctx, object, entries)
	return err
}

func (c *CSINode) create(ctx context.Context, node *v1.Node, entries []storagev1.CSINodeDriver) error {
	_, err := request(ctx, c.options.Timeout, VerbCreate, func(ctx context.Context) (*storagev1.CSINode, error) {
		return c.options.Client.CSINodes().Create(ctx, &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
			}},
			Spec: storagev1.CSINodeSpec{Drivers: entries},
		}, metav1.CreateOptions{})
	})
	return err
}

func (c *CSINode) update(ctx context.Context, object *storagev1.CSINode, entries []storagev1.CSINodeDriver) (*storagev1.CSINode, error) {
	next := object.DeepCopy()
	next.Spec.Drivers = entries
	return request(ctx, c.options.Timeout, VerbUpdate, func(ctx context.Context) (*storagev1.CSINode, error) {
		return c.options.Client.CSINodes().Update(ctx, next, metav1.UpdateOptions{})
	})
}

func (c *CSINode) remove(ctx context.Context, object *storagev1.CSINode) error {
	_, err := request(ctx, c.options.Timeout, VerbDelete, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.options.Client.CSINodes().Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID}})
	})
	return err
}

// nodeIDs is the annotation of a node that says what the drivers call it, for attachers from before CSINode objects.
const nodeIDs = "csi.volume.kubernetes.io/nodeid"

// label puts the drivers' topology on the Node, where the scheduler looks for it. Labels of drivers that are gone stay, as
// in the kubelet: their volumes do.
func (c *CSINode) label(ctx context.Context, node *v1.Node, infos map[string]DriverInfo, labels map[string]string) error {
	ids := make(map[string]string, len(infos))
	for driver, info := range infos {
		ids[driver] = info.NodeID
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	annotated := node.Annotations[nodeIDs] == string(text) || len(ids) == 0
	if annotated && len(labels) == 0 {
		return nil
	}
	metadata := map[string]any{"labels": labels}
	if !annotated {
		metadata["annotations"] = map[string]string{nodeIDs: string(text)}
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = request(ctx, c.options.Timeout, VerbPatch, func(ctx context.Context) (*v1.Node, error) {
		return c.options.Nodes.Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	})
	if err != nil {
		return fmt.Errorf("labels of its Node: %w", err)
	}
	return nil
}

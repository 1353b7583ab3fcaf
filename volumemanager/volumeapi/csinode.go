// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/retry"
)

// Times of a CSINode.
const (
	// driverInterval is the time between two queries of the drivers, because a socket does not
	// report a changed driver.
	driverInterval = 10 * time.Second
	// driverGone is the time after which the entry of a silent driver is removed from the object. A
	// driver is silent while it is replaced.
	driverGone = time.Minute
	// csiNodeCheck is the interval between reads of the object, to find changes by other writers.
	csiNodeCheck = 5 * time.Minute
	firstRetry   = time.Second
)

// CSINodeOptions are the options of NewCSINode.
type CSINodeOptions struct {
	// Client writes the CSINode object, for example FromStorage(StorageV1()) with client-go. Required.
	Client StorageClient
	// Nodes reads and labels the Node, which must exist; for example client-go's CoreV1().
	// Required.
	Nodes NodesClient
	// NodeName is the node's name. Required.
	NodeName types.NodeName
	// Drivers are the names of the possible drivers. Required.
	Drivers []string
	// Info queries a driver. An error means that the driver does not answer. Info is called
	// concurrently, and with a time limit. (*csi.Plugin).Info fits after a conversion of its
	// result. Required.
	Info func(ctx context.Context, driver string) (DriverInfo, error)
	// Logger receives Run's write failures. Defaults to silence.
	Logger *zap.Logger
}

// CSINode maintains the API server's CSINode object of a node: the node's drivers, each driver's ID
// of the node, the number of volumes each driver accepts, and the node labels of its volume
// topology. Attach controllers and the scheduler read the object. In the kubelet (1.36), the
// drivers are the registered drivers.
type CSINode struct {
	options CSINodeOptions
	ran     atomic.Bool

	// The goroutine that calls Publish owns the following fields.
	since   time.Time             // time of the first call
	infos   map[string]DriverInfo // of the drivers that are not gone
	heard   map[string]time.Time  // time of each driver's last answer
	written *desired              // state on the server; nil: unknown
	checked time.Time
}

// desired is the desired content of the object.
type desired struct {
	infos  map[string]DriverInfo
	silent []string // drivers whose present entry is kept
}

// NewCSINode returns a CSINode. The error names the invalid option.
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
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	o.Drivers = slices.Clone(o.Drivers)
	return &CSINode{options: o, infos: make(map[string]DriverInfo), heard: make(map[string]time.Time)}, nil
}

// Run publishes until ctx ends, then returns nil. The object stays, because the volumes stay too. A
// second Run is an error.
func (c *CSINode) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return ErrRunning
	}
	failed := failurelog.Log{Logger: c.options.Logger, Failed: "CSINode cannot be published"}
	for pause := firstRetry; ; {
		err := c.Publish(ctx)
		if ctx.Err() != nil {
			return nil
		}
		wait := driverInterval
		if err != nil || len(c.infos) < len(c.options.Drivers) && time.Since(c.since) < driverGone {
			wait, pause = pause, min(2*pause, driverInterval)
		} else {
			pause = firstRetry
		}
		failed.Report(err)
		if retry.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

// Publish queries the drivers and writes the changes. Run calls Publish repeatedly. Two calls at the
// same time are not allowed. A driver without an answer is not an error.
func (c *CSINode) Publish(ctx context.Context) error {
	c.ask(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := c.desire(time.Now())
	if c.written != nil && reflect.DeepEqual(*c.written, now) && time.Since(c.checked) < csiNodeCheck {
		return nil
	}
	c.written = nil
	if err := c.write(ctx, now); err != nil {
		return fmt.Errorf("CSINode %s: %w", c.options.NodeName, err)
	}
	c.written, c.checked = &now, time.Now()
	return nil
}

// ask queries all drivers at the same time and records their answers.
func (c *CSINode) ask(ctx context.Context) {
	infos, errs := make([]DriverInfo, len(c.options.Drivers)), make([]error, len(c.options.Drivers))
	var wg sync.WaitGroup
	for i, driver := range c.options.Drivers {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
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

// desire returns the desired content of the object at the time now.
func (c *CSINode) desire(now time.Time) desired {
	if c.since.IsZero() {
		c.since = now
	}
	d := desired{infos: make(map[string]DriverInfo)}
	for _, driver := range c.options.Drivers {
		heard, known := c.heard[driver]
		switch {
		case known && now.Sub(heard) < driverGone:
			d.infos[driver] = c.infos[driver]
		case known:
			delete(c.infos, driver)
			delete(c.heard, driver)
		case now.Sub(c.since) < driverGone:
			d.silent = append(d.silent, driver)
		}
	}
	return d
}

// write updates the Node's labels and the object to the desired content.
func (c *CSINode) write(ctx context.Context, d desired) error {
	node, err := request(ctx, verbGet, func(ctx context.Context) (*v1.Node, error) {
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
	object, err := request(ctx, verbGet, func(ctx context.Context) (*storagev1.CSINode, error) {
		return c.options.Client.CSINodes().Get(ctx, node.Name, metav1.GetOptions{})
	})
	switch {
	case apierrors.IsNotFound(err):
		return c.create(ctx, node, driverEntries(infos, nil, nil))
	case err != nil:
		return err
	case !owns(node, object): // of a deleted Node of the same name; its content is obsolete
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
	_, err := request(ctx, verbCreate, func(ctx context.Context) (*storagev1.CSINode, error) {
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
	return request(ctx, verbUpdate, func(ctx context.Context) (*storagev1.CSINode, error) {
		return c.options.Client.CSINodes().Update(ctx, next, metav1.UpdateOptions{})
	})
}

func (c *CSINode) remove(ctx context.Context, object *storagev1.CSINode) error {
	_, err := request(ctx, verbDelete, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.options.Client.CSINodes().Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID}})
	})
	return err
}

// nodeIDs is the Node annotation with the drivers' IDs of the node, for attachers older than
// CSINode objects.
const nodeIDs = "csi.volume.kubernetes.io/nodeid"

// label writes the drivers' topology labels to the Node for the scheduler. As in the kubelet,
// labels of drivers that are gone stay, because their volumes stay.
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
	_, err = request(ctx, verbPatch, func(ctx context.Context) (*v1.Node, error) {
		return c.options.Nodes.Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	})
	if err != nil {
		return fmt.Errorf("labels of its Node: %w", err)
	}
	return nil
}

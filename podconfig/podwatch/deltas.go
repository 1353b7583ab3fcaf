// SPDX-License-Identifier: Apache-2.0

package podwatch

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/podconfig"
)

// deltas is the reflector's store. It stores no object and submits every change, with the objects
// given away. The reflector calls deltas from a single goroutine.
type deltas struct {
	ctx  context.Context // of the Run; the reflector passes no context
	out  podconfig.Sink
	stop func() // ends the reflector
	err  error  // the first error of out
}

var _ cache.ReflectorStore = (*deltas)(nil)

func (d *deltas) Add(obj any) error { return d.upsert(obj) }

func (d *deltas) Update(obj any) error { return d.upsert(obj) }

func (d *deltas) Delete(obj any) error {
	p, ok := obj.(*v1.Pod)
	if !ok {
		return errNoPod
	}
	return d.submit(podconfig.Remove(p.UID))
}

// Replace submits a complete list.
func (d *deltas) Replace(list []any, _ string) error {
	pods := make([]*v1.Pod, 0, len(list))
	for _, obj := range list {
		if p, ok := obj.(*v1.Pod); ok {
			pods = append(pods, p)
		}
	}
	return d.submit(podconfig.Snapshot(pods...).Given())
}

// Resync is never called.
func (d *deltas) Resync() error { return nil }

var errNoPod = errors.New("podwatch: not a pod")

func (d *deltas) upsert(obj any) error {
	p, ok := obj.(*v1.Pod)
	if !ok {
		return errNoPod
	}
	return d.submit(podconfig.Upsert(p).Given())
}

func (d *deltas) submit(c podconfig.Change) error {
	err := d.out.Submit(d.ctx, c)
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("podwatch: submit %v: %w", c.Kind(), err)
		d.stop()
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
)

// Follow runs the sources with a store of its own and passes all pods of all sources to set,
// whenever they may have changed. It is a form of Run for a consumer of the complete state rather
// than of changes. podworkers.Workers.SetPods fits as set.
//
//   - Calls of set are sequential, in the goroutine of Follow. Changes during a call lead to a
//     single further call with the newest pods.
//   - An unchanged pod has the same pointer as in the previous call. Pods are ordered by source and
//     then by arrival. set owns the slice; the pods are shared and must not be edited.
//   - complete reports that every source has delivered all its pods at least once, so that a
//     missing pod is not configured. It never becomes false again.
//
// o configures the store. Follow returns nil after ctx has ended.
// Otherwise it returns the error of set, or of the first failed source. Every source has returned
// before Follow returns.
func Follow(ctx context.Context, o StoreOptions, set func(pods []*v1.Pod, complete bool) error, sources ...Source) error {
	if set == nil {
		return errors.New("podconfig: Follow: set must not be nil")
	}
	o.Shared = true
	store, err := NewStore(o)
	if err != nil {
		return err
	}
	ready, queue := NewReadiness(), NewQueue()
	for _, s := range sources {
		if s != nil { // Run reports a nil source
			ready.Register(s.Name())
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, store, queue.Push, sources...) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-queue.Ready():
		}
		for u, ok := queue.Pop(); ok; u, ok = queue.Pop() {
			ready.Consumed(u)
		}
		if ctx.Err() != nil {
			continue // changes from sources that are stopping must not reach set
		}
		if err := set(podsOf(store), ready.AllReady()); err != nil {
			cancel()
			return errors.Join(err, <-ended)
		}
	}
}

// podsOf returns the pods of all sources.
func podsOf(s *Store) []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range s.Pods() {
		pods = append(pods, pod)
	}
	return pods
}

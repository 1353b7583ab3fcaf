// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/checkpoint"
	"github.com/keelson-dev/keelson/podconfig/mirror"
)

// config merges the pods of all sources into one ordered queue of updates, and keeps the
// checkpoint.
type config struct {
	queue     *podconfig.Queue
	readiness *podconfig.Readiness
	index     *mirror.Index      // the desired pods, paired with their mirror pods
	store     *podconfig.Store   // nil before open
	keeper    *checkpoint.Writer // nil: no checkpoint
}

func newConfig(o Options) *config {
	return &config{queue: podconfig.NewQueue(), readiness: podconfig.NewReadiness(sourceNames(o.Sources)...), index: mirror.NewIndex()}
}

func sourceNames(sources []podconfig.Source) (names []string) {
	for _, s := range sources {
		names = append(names, s.Name())
	}
	return names
}

// open reads the checkpoint and constructs the store. An unusable checkpoint is logged and ignored,
// because the sources will deliver the pods.
func (c *config) open(o Options) (err error) {
	opts := podconfig.StoreOptions{Shared: true, Logger: o.Logger, Rejected: func(r podconfig.Rejection) {
		o.Logger.Warn("pod not accepted from its source", zap.String("source", r.Source), feature.PodField(r.Pod), zap.Error(r.Err))
		if r.Pod != nil && !errors.Is(r.Err, podconfig.ErrConflict) {
			o.Events.Event(feature.Reference(r.Pod), v1.EventTypeWarning, eventFailedValidation,
				fmt.Sprintf("Ignoring the pod from source %q: %v", r.Source, r.Err))
		}
	}}
	kept := keptSources(o)
	if len(kept) > 0 {
		seed, err := checkpoint.Read(o.Checkpoint)
		if err != nil {
			o.Logger.Warn("checkpoint not used: pods of sources that cannot be reached wait for them", zap.Error(err))
		}
		opts.Seed = make(map[string][]*v1.Pod, len(kept))
		for _, source := range kept { // pods of sources that are no longer configured are dropped
			if pods := seed[source]; len(pods) > 0 {
				opts.Seed[source] = pods
			}
		}
	}
	if c.store, err = podconfig.NewStore(opts); err != nil || len(kept) == 0 {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.Checkpoint), 0o700); err != nil {
		return err
	}
	c.keeper, err = checkpoint.New(checkpoint.Options{Path: o.Checkpoint, Pods: c.store, Sources: kept, Logger: o.Logger})
	return err
}

// keptSources returns the sources with pods in the checkpoint: all except the node's own manifest
// folder, which is always available on the node.
func keptSources(o Options) []string {
	if o.Checkpoint == "" {
		return nil
	}
	return slices.DeleteFunc(sourceNames(o.Sources), func(name string) bool { return name == podconfig.SourceFile })
}

// run hands every change to the loop until ctx ends or a source fails.
func (c *config) run(ctx context.Context, sources []podconfig.Source) error {
	if c.keeper == nil {
		return podconfig.Run(ctx, c.store, c.queue.Push, sources...)
	}
	for _, u := range c.store.Replay() {
		if err := c.queue.Push(ctx, u); err != nil {
			return err
		}
	}
	// The keeper ends after the sources, so that the checkpoint has their last changes.
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan error, 1)
	go func() { kept <- c.keeper.Run(keep) }()
	err := podconfig.Run(ctx, c.store, c.keeper.Tee(c.queue.Push), sources...)
	stop()
	return errors.Join(err, <-kept)
}

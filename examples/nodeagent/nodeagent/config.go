// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/checkpoint"
)

// config is how the agent comes to know what should run: many sources, one
// ordered stream, and what a former life of the agent knew.
type config struct {
	agent  *Agent
	store  *podconfig.Store
	keeper *checkpoint.Writer // nil: nothing is kept
}

// openConfig reads the checkpoint. One that cannot be used is said, and done
// without: the sources will tell.
func (a *Agent) openConfig() (*config, error) {
	opts := podconfig.StoreOptions{Logger: a.log, Rejected: func(r podconfig.Rejection) {
		a.log.Warn("pod not accepted from its source", zap.String("source", r.Source), podField(r.Pod), zap.Error(r.Err))
	}}
	kept := a.keptSources()
	if len(kept) > 0 {
		seed, err := checkpoint.Read(a.opts.Checkpoint, 0)
		if err != nil {
			a.log.Warn("checkpoint not used: pods of sources that cannot be reached wait for them", zap.Error(err))
		}
		opts.Seed = make(map[string][]*v1.Pod, len(kept))
		for _, source := range kept { // nobody speaks for those that are not there any more
			if pods := seed[source]; len(pods) > 0 {
				opts.Seed[source] = pods
			}
		}
	}
	store, err := podconfig.NewStore(opts)
	if err != nil || len(kept) == 0 {
		return &config{agent: a, store: store}, err
	}
	if err := os.MkdirAll(filepath.Dir(a.opts.Checkpoint), 0o700); err != nil {
		return nil, err
	}
	keeper, err := checkpoint.New(checkpoint.Options{Path: a.opts.Checkpoint, Pods: store, Sources: kept, Logger: a.log})
	return &config{agent: a, store: store, keeper: keeper}, err
}

// keptSources are those whose pods the checkpoint holds: all but the node's own
// folder, which is there whenever the node is.
func (a *Agent) keptSources() (names []string) {
	if a.opts.Checkpoint == "" {
		return nil
	}
	for _, s := range a.opts.Sources {
		if s.Name() != podconfig.SourceFile {
			names = append(names, s.Name())
		}
	}
	return names
}

// run hands every change to the loop until ctx ends or a source fails.
func (c *config) run(ctx context.Context) error {
	push := c.agent.queue.Push
	if c.keeper == nil {
		return podconfig.Run(ctx, c.store, push, c.agent.opts.Sources...)
	}
	for _, u := range c.store.Replay() {
		if err := push(ctx, u); err != nil {
			return err
		}
	}
	// What the sources say last is kept, too: the keeper outlives them.
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan error, 1)
	go func() { kept <- c.keeper.Run(keep) }()
	err := podconfig.Run(ctx, c.store, c.keeper.Tee(push), c.agent.opts.Sources...)
	stop()
	return errors.Join(err, <-kept)
}

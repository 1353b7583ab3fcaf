// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/signal"
)

// ErrStopped is the cancellation cause of the context passed to pod calls when the agent ends.
var ErrStopped = errors.New("the agent is stopping")

// Agent is a node agent. The Agent connects the features with the parts of this module, since the
// parts do not import each other. features.go constructs the parts, loop.go handles configuration
// changes, and workers.go connects podsync with the features.
type Agent struct {
	opts     Options
	host     *feature.Host // the shared parts and the table of pods
	config   *config       // sources, checkpoint and the update queue
	gate     feature.Gate  // decides which pods run
	features []feature.Feature
	parts    parts           // features with methods that the Agent calls directly
	stopper  feature.Stopper // stops the pods at the end; nil: pods are left running
	health   *runtimeHealth
	state    loopState
}

// loopState is the part of the loop's state used by other goroutines.
type loopState struct {
	changed      signal.Signal // the result of Pods may have changed
	housekeeping signal.Signal // requests a housekeeping pass
	reconsider   signal.Signal // a feature may decide otherwise about a waiting pod
	pings        chan struct{} // received by the loop, for /livez
	ran          atomic.Bool
	stopping     atomic.Bool
}

// New validates opts and connects the parts. New starts no goroutine and does not access the disk.
func New(opts Options) (*Agent, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Agent{opts: opts, health: newRuntimeHealth(opts.Runtime), config: newConfig(opts), state: loopState{
		changed: signal.New(), housekeeping: signal.New(), reconsider: signal.New(), pings: make(chan struct{}),
	}}
	return a, a.wire()
}

// Run blocks until ctx ends. Then Run stops or keeps the pods according to Options.OnShutdown, and
// returns when every call and goroutine has ended. Run can be called once. After a failure, a
// source is run again (podconfig.Retry), and its pods run on. If a SourceWrapper fails, Run returns
// the error and leaves all pods running. If another agent uses Root, the error wraps ErrRootInUse
// and Run has started nothing; see LockRoot.
func (a *Agent) Run(ctx context.Context) error {
	if a.state.ran.Swap(true) {
		return errors.New("node: Run was called before")
	}
	if a.opts.RootLock == nil {
		lock, err := LockRoot(ctx, a.opts.Root, a.host.Log)
		if err != nil {
			return fmt.Errorf("node: %w", err)
		}
		defer lock.Unlock()
	}
	if err := a.config.open(a.opts); err != nil {
		return err
	}
	for _, f := range a.features {
		if f.Open != nil {
			f.Open()
		}
	}
	// The context of pod calls outlives ctx, because pods are stopped after ctx has ended.
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	configured, stopConfig := context.WithCancelCause(ctx)
	runs := []func(context.Context) error{
		a.host.Workers.Run,
		func(ctx context.Context) error {
			return a.host.Sync.Run(ctx, podWorkers{a.host.Workers, a.host, a.opts.Observer.OrphanFound})
		},
	}
	for _, f := range a.features {
		if f.Run != nil {
			runs = append(runs, f.Run)
		}
	}
	errs := make([]error, len(runs)+1)
	var wg sync.WaitGroup
	for i, run := range runs {
		wg.Go(func() { errs[i+1] = run(work) })
	}
	wg.Go(func() {
		errs[0] = a.config.run(configured, retrySources(a.opts.Sources, a.host.Log))
		stopConfig(errs[0])
	})
	a.loop(configured)
	a.state.stopping.Store(true)
	if ctx.Err() != nil && a.stopper != nil && (a.opts.MachineStops == nil || a.opts.MachineStops()) {
		a.stopper.Stop(work)
	}
	stopConfig(ErrStopped)
	stopWork(ErrStopped)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}

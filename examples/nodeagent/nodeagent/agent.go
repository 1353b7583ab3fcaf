// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/statusmanager"
)

// ErrStopped is the cause of the context that pod calls see when the agent ends.
var ErrStopped = errors.New("the agent is stopping")

// Agent is a node agent. Its parts know nothing of each other; this file is
// where they meet, loop.go is the order in which things happen, and syncer.go
// what happens to one pod.
type Agent struct {
	opts    Options
	log     *zap.Logger
	runtime runtime.Runtime

	pods         *pods         // what should run
	index        *mirror.Index // what should run, and how the API server shows it
	statuses     *statuses     // what is
	failures     *failures     // how pod calls failed last
	declarations *declarations // what others have said of pods
	volumes      *volumes      // what it mounts
	volumeImages *volumeImages // and which images that is

	gate      *gate      // who may come in
	deadlines *deadlines // and until when

	queue     *podconfig.Queue
	readiness *podconfig.Readiness
	workers   *podworkers.Workers    // when a pod is worked on
	manager   *runtime.Manager       // making it run
	syncer    *syncer                // what happens to one pod
	probes    *probes                // is it healthy
	tracker   *runtime.Tracker       // what changed by itself
	status    *statusmanager.Manager // what the cluster sees
	mirrors   *mirrors
	memory    *memory            // what the next agent cannot see; nil before Run
	images    *imagegc.Collector // what may be deleted; nil = nothing
	collector *collector         // what is left of pods that are gone
	leftovers *leftovers         // how the loop finds them

	housekeeping chan struct{} // capacity 1: look for leftovers now
	pings        chan struct{} // received by the loop, for /healthz
	sourced      chan struct{} // closed by the loop when every source has spoken
	ran          atomic.Bool
	stopping     atomic.Bool
}

// New validates opts and wires the parts. It starts nothing and touches no disk.
func New(opts Options) (*Agent, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	if opts.LogDir == "" {
		opts.LogDir = filepath.Join(opts.Root, "logs")
	}
	if opts.HousekeepingInterval == 0 {
		opts.HousekeepingInterval = 30 * time.Second
	}
	if opts.Random == nil {
		opts.Random = rand.Float64
	}
	if opts.Events == nil {
		opts.Events = logEvents{opts.Logger}
	}
	if opts.Cluster.Events != nil {
		opts.Events = bothEvents{opts.Events, opts.Cluster.Events}
	}
	a := &Agent{
		opts:         opts,
		log:          opts.Logger,
		runtime:      opts.Runtime,
		pods:         newPods(),
		statuses:     newStatuses(opts.Status),
		failures:     newFailures(),
		declarations: newDeclarations(),
		volumeImages: newVolumeImages(),
		leftovers:    newLeftovers(),
		deadlines:    newDeadlines(),
		queue:        podconfig.NewQueue(),
		housekeeping: make(chan struct{}, 1),
		pings:        make(chan struct{}),
		sourced:      make(chan struct{}),
	}
	a.statuses.report = a.report
	a.gate = newGate(a)
	if err := a.wire(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Agent) wire() error {
	names := make([]string, 0, len(a.opts.Sources))
	for _, s := range a.opts.Sources {
		names = append(names, s.Name())
	}
	a.readiness = podconfig.NewReadiness(names...)

	var err error
	if a.volumes, err = a.newVolumes(); err != nil {
		return err
	}
	own, err := runtime.NewDefaultGenerator(runtime.DefaultGeneratorOptions{
		LogRoot:     a.opts.LogDir,
		HostIPs:     a.opts.HostIPs,
		Allocatable: a.opts.Allocatable,
		Volumes:     a.volumes.mounts,
		Groups:      a.volumes.GetExtraSupplementalGroupsForPod,
		Objects:     a.opts.Objects,
		Services:    a.opts.Cluster.Services,
	})
	if err != nil {
		return err
	}
	var generator runtime.Generator = own
	if a.opts.Generator != nil {
		generator = a.opts.Generator(own)
	}
	keyring := a.opts.Keyring
	if keyring == nil {
		if keyring, err = a.newKeyring(); err != nil {
			return err
		}
	}
	if a.manager, err = runtime.New(runtime.Options{
		Runtime:             a.runtime,
		Generator:           generator,
		Events:              a.opts.Events,
		Hooks:               a.opts.Hooks,
		Backoff:             a.opts.Backoff,
		Keyring:             keyring,
		MaxConcurrentStarts: a.opts.MaxConcurrentStarts,
		Logger:              a.log,
	}); err != nil {
		return err
	}
	if a.tracker, err = runtime.NewTracker(runtime.TrackerOptions{Runtime: a.runtime, Logger: a.log}); err != nil {
		return err
	}
	if a.probes, err = a.newProbes(); err != nil {
		return err
	}
	if err = a.newCluster(); err != nil {
		return err
	}
	if a.images, err = a.newImages(); err != nil {
		return err
	}
	a.collector = newCollector(a.manager, a.volumes, a.opts.LogDir, a.log)
	a.syncer = newSyncer(a)
	a.workers, err = podworkers.New(podworkers.Options{
		Syncer: a.syncer,
		OnSync: a.synced,
		Jitter: a.later,
	})
	return err
}

// later is d and up to half of it more.
func (a *Agent) later(d time.Duration) time.Duration {
	return d + time.Duration(a.opts.Random()*float64(d)/2)
}

// Run blocks until ctx ends or a source fails, deals with the pods as
// Options.OnShutdown says, and returns when every call and goroutine has ended.
// It can be called once. A source's failure leaves the pods running.
func (a *Agent) Run(ctx context.Context) error {
	if a.ran.Swap(true) {
		return errors.New("nodeagent: Run was called before")
	}
	config, err := a.openConfig()
	if err != nil {
		return err
	}
	a.memory = a.openMemory()
	// Pod calls outlive ctx: a pod is stopped after it.
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	configured, stopConfig := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	var workersErr, trackerErr, probesErr, statusErr, volumesErr, imagesErr, sourceErr error
	wg.Go(func() { workersErr = a.workers.Run(work) })
	wg.Go(func() { trackerErr = a.tracker.Run(work) })
	wg.Go(func() { probesErr = a.probes.Run(work) })
	wg.Go(func() { statusErr = a.status.Run(work) })
	wg.Go(func() { volumesErr = a.volumes.run(work) })
	wg.Go(func() { a.memory.run(work) })
	wg.Go(func() { a.mirrors.run(work) })
	if a.images != nil {
		wg.Go(func() { imagesErr = a.collectImages(work) })
	}
	wg.Go(func() { a.collectGarbage(work) })
	wg.Go(func() { a.gate.lookBack(configured) })
	wg.Go(func() { a.gate.follow(configured) })
	wg.Go(func() {
		sourceErr = config.run(configured)
		stopConfig(sourceErr)
	})
	a.loop(configured)
	a.stopping.Store(true)
	if ctx.Err() != nil && a.opts.OnShutdown == StopPods {
		a.stopPods(work)
	}
	stopConfig(ErrStopped)
	stopWork(ErrStopped)
	a.deadlines.stop()
	wg.Wait()
	a.collector.wait()
	if err := errors.Join(sourceErr, workersErr, trackerErr, probesErr, statusErr, volumesErr, imagesErr); err != nil {
		return fmt.Errorf("nodeagent: %w", err)
	}
	return nil
}

// podField names a pod in the log, "namespace/name".
func podField(pod *v1.Pod) zap.Field {
	return zap.String("pod", pod.Namespace+"/"+pod.Name)
}

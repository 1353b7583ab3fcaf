// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podsync"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/emptydir"
)

// partsAgent is the agent of docs/embedding.md, of parts alone, over the runtime and the sources of a Node, with a
// statusmanager for the pods of its API server.
type partsAgent struct {
	opts    node.Options
	probes  *prober.Prober
	volumes *volumemanager.Manager
	pods    *podsync.Pods
	workers *podworkers.Workers
	status  *statusmanager.Manager

	mu   sync.Mutex
	last map[types.UID]*v1.Pod // of every pod that the workers may know
	api  map[types.UID]*v1.Pod // of the API server
}

// newPartsAgent is a nodetest.Assemble.
func newPartsAgent(o node.Options) (nodetest.Assembly, error) {
	a := &partsAgent{opts: o, last: map[types.UID]*v1.Pod{}, api: map[types.UID]*v1.Pod{}}
	var err error
	if a.probes, err = prober.New(prober.Options{Handler: o.ProbeHandler, Jitter: a.fraction}); err != nil {
		return nil, err
	}
	if err := a.newVolumes(); err != nil {
		return nil, err
	}
	if a.pods, err = podsync.New(podsync.Options{
		Runtime: o.Runtime, Generator: runtime.DefaultGeneratorOptions{LogRoot: o.Root + "/logs", Objects: o.Objects},
		Volumes: a.volumes, Probes: a.probes, Status: a.publish, Ended: a.ended, Jitter: a.later,
	}); err != nil {
		return nil, err
	}
	if a.workers, err = podworkers.New(podworkers.Options{
		Syncer: podworkers.Over(a.pods),
		Jitter: a.later,
	}); err != nil {
		return nil, err
	}
	a.status, err = statusmanager.New(statusmanager.Options{
		Patcher: o.Cluster.Patcher, Pods: a, Drain: time.Second,
		Safety: statusmanager.SafetyFunc(a.workers.CouldHaveRunningContainers),
	})
	return a, err
}

func (a *partsAgent) newVolumes() error {
	empty, err := emptydir.New(emptydir.Options{})
	if err != nil {
		return err
	}
	configs, err := configmap.New(configmap.Options{Source: a.opts.Objects})
	if err != nil {
		return err
	}
	a.volumes, err = volumemanager.New(volumemanager.Options{
		Root: a.opts.Root, Plugins: append([]volumemanager.Plugin{empty, configs}, a.opts.VolumePlugins...),
		Mounts: volumemanager.MountTableFunc(func() ([]string, error) { return nil, nil }),
	})
	return err
}

func (a *partsAgent) fraction(d time.Duration) time.Duration {
	return time.Duration(a.opts.Random() * float64(d))
}

func (a *partsAgent) later(d time.Duration) time.Duration { return d + a.fraction(d)/2 }

// Run implements nodetest.Assembly.
func (a *partsAgent) Run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx)) // pods are stopped after ctx
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{a.probes.Run, a.volumes.Run, a.workers.Run, a.status.Run} {
		wg.Go(func() { _ = run(work) })
	}
	wg.Go(func() { _ = a.pods.Run(work, a.workers) })
	err := podconfig.Follow(ctx, podconfig.StoreOptions{}, a.set, a.opts.Sources...)
	if a.opts.OnShutdown == node.StopPods {
		limited, cancel := context.WithTimeout(work, max(a.opts.StopTimeout, time.Second))
		_ = a.workers.StopAll(limited) // what a schedule has broken may not end
		cancel()
	}
	stop()
	wg.Wait()
	return err
}

// set takes in all pods, and tells the statusmanager of those of the API server.
func (a *partsAgent) set(pods []*v1.Pod, complete bool) error {
	a.mu.Lock()
	clear(a.api)
	for _, pod := range pods {
		a.last[pod.UID] = pod
		if !podconfig.IsStatic(pod) {
			a.api[pod.UID] = pod
		}
	}
	observed := maps.Clone(a.api)
	a.mu.Unlock()
	for _, pod := range observed {
		a.status.Observed(pod)
	}
	err := a.workers.SetPods(pods, complete)
	known := func(uid types.UID) bool { _, ok := a.workers.Info(uid); return ok }
	a.status.RemoveOrphanedStatuses(known)
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.last, func(uid types.UID, _ *v1.Pod) bool { return !known(uid) })
	return err
}

// publish and ended fit podsync.Options.
func (a *partsAgent) publish(pod *v1.Pod, status v1.PodStatus) {
	if !podconfig.IsStatic(pod) {
		_, _ = a.status.SetPodStatus(pod, status)
	}
	a.opts.Status(pod, status)
}

func (a *partsAgent) ended(pod *v1.Pod) {
	if !podconfig.IsStatic(pod) {
		_, _ = a.status.TerminatePod(pod)
	}
}

// Pod, Mirror and Static implement statusmanager.Pods.
func (a *partsAgent) Pod(uid types.UID) (*v1.Pod, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod, ok := a.api[uid]
	return pod, ok
}

func (a *partsAgent) Mirror(types.UID) (*v1.Pod, bool)   { return nil, false }
func (a *partsAgent) Static(types.UID) (types.UID, bool) { return "", false }

// Pods implements nodetest.Assembly.
func (a *partsAgent) Pods() []*v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*v1.Pod
	for uid := range a.workers.All() {
		if pod, ok := a.last[uid]; ok {
			shallow := *pod
			shallow.Status = a.pods.Status(pod)
			all = append(all, &shallow)
		}
	}
	slices.SortFunc(all, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return all
}

// Workers implements nodetest.Assembly.
func (a *partsAgent) Workers() iter.Seq2[types.UID, podworkers.WorkerInfo] { return a.workers.All() }

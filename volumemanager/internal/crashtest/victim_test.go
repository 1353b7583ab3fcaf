// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/downwardapi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/emptydir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/hostpath"
	"github.com/keelson-dev/keelson/volumemanager/plugins/local"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
	"github.com/keelson-dev/keelson/volumemanager/plugins/subpath"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// planEnv holds the plan of a victim. If planEnv is set, the test binary runs as a victim.
const planEnv = "KEELSON_CRASH_PLAN"

// phase is the current activity of a victim.
type phase int

const (
	reconstruction phase = iota
	mounting
	refreshing
	unmounting
	phases // the number of phases
)

func (p phase) String() string {
	return [...]string{"reconstruction", "mount", "refresh", "unmount", "none"}[p]
}

// plan is the work of a victim: it reconstructs the present volumes, then performs a step.
type plan struct {
	place
	Boundaries boundaries
	// Version is the version of all objects.
	Version int
	// Alive are the present pods; the pods in Started have running containers. Gone are the pods
	// that have ended, and may have left files or mounts.
	Alive, Started, Gone []int
	// Step is performed on Pods; for the phase of reconstruction, there is no step.
	Step phase
	Pods []int
}

// victimLife limits the time of a victim.
const victimLife = 60 * time.Second

// noTraceExit is the exit status of a victim that cannot be traced.
const noTraceExit = 3

// victimMain is the main function of a victim.
func victimMain() int {
	var p plan
	err := json.Unmarshal([]byte(os.Getenv(planEnv)), &p)
	if err == nil {
		if err := stopAt(p.Boundaries); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return noTraceExit
		}
		ctx, cancel := context.WithTimeout(context.Background(), victimLife)
		defer cancel()
		err = live(ctx, p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// agent is the state of a victim.
type agent struct {
	plan     plan
	manager  *volumemanager.Manager
	store    *objects.Store
	subpaths *subpath.Subpaths
	pods     volumetest.Pods
	// started are the pods whose containers run.
	started map[int]bool
	// moved receives a token after an operation ended.
	moved chan struct{}
}

// live runs an agent until its plan is complete.
func live(ctx context.Context, p plan) error {
	a, err := newAgent(p)
	if err != nil {
		return err
	}
	tell(markPhase, int(reconstruction), 0)
	a.set(p.Version)
	for _, pod := range p.Gone {
		a.pods.Set(uidOf(pod), volumetest.Gone)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = a.manager.Run(ctx) })
	err = errors.Join(a.up(ctx, p.Alive, p.Version), a.down(ctx, p.Gone))
	if err == nil { // Reconstruct has found the volumes of unknown pods too
		err = a.manager.WaitForUnmount(ctx, "nobody")
	}
	if err == nil {
		err = a.step(ctx)
	}
	if err == nil {
		err = a.calm(ctx)
	}
	cancel()
	wg.Wait()
	return errors.Join(err, failed)
}

func (a *agent) step(ctx context.Context) error {
	if a.plan.Step == reconstruction {
		return nil
	}
	tell(markPhase, int(a.plan.Step), 0)
	switch a.plan.Step {
	case mounting:
		return a.up(ctx, a.plan.Pods, a.plan.Version)
	case refreshing:
		for version := a.plan.Version + 1; version <= a.plan.Version+2; version++ {
			tell(markBegin, version, 0)
			a.set(version)
			if err := a.up(ctx, a.plan.Alive, version); err != nil {
				return err
			}
		}
		return nil
	}
	for _, pod := range a.plan.Pods {
		tell(markGone, pod, 0)
		a.pods.Set(uidOf(pod), volumetest.Gone)
	}
	return a.down(ctx, a.plan.Pods)
}

// up mounts the volumes of all pods at once, and starts missing containers.
func (a *agent) up(ctx context.Context, pods []int, version int) error {
	errs := make([]error, len(pods))
	var wg sync.WaitGroup
	for i, pod := range pods {
		wg.Go(func() { errs[i] = a.upOne(ctx, pod, version) })
	}
	wg.Wait()
	for _, pod := range pods {
		a.started[pod] = true
	}
	return errors.Join(errs...)
}

func (a *agent) upOne(ctx context.Context, pod, version int) error {
	if err := a.manager.WaitForAttachAndMount(ctx, a.plan.pod(pod, version)); err != nil {
		return err
	}
	tell(markUp, pod, version)
	if a.started[pod] {
		return nil
	}
	for _, r := range a.plan.parts(pod) {
		if _, err := a.subpaths.Prepare(ctx, r); err != nil {
			return err
		}
	}
	tell(markStart, pod, version)
	return nil
}

// down waits until nothing is left of gone pods, as an agent's housekeeping does.
func (a *agent) down(ctx context.Context, pods []int) error {
	if len(pods) == 0 {
		return nil
	}
	var uids []types.UID
	for _, pod := range pods {
		uids = append(uids, uidOf(pod))
	}
	for range 3 { // CleanupOrphan removes a folder with a volume in the next call
		if err := a.manager.WaitForAllPodsUnmount(ctx, uids...); err != nil {
			return err
		}
		for _, uid := range uids {
			if err := a.manager.CleanupOrphan(uid); err != nil {
				return err
			}
		}
	}
	for _, pod := range pods {
		dir := filepath.Join(a.plan.Root, "pods", string(uidOf(pod)))
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s was not removed: %w", dir, err)
		}
		tell(markRemoved, pod, 0)
	}
	return nil
}

// calm waits until no operation is under way, and each volume has a pod.
func (a *agent) calm(ctx context.Context) error {
	for {
		s := a.manager.Snapshot()
		busy := len(s.Operations) > 0
		for _, v := range s.Volumes {
			busy = busy || len(v.Pods) == 0
		}
		if !busy {
			return nil
		}
		select {
		case <-a.moved:
		case <-ctx.Done():
			return fmt.Errorf("the manager does not come to rest: %+v", s)
		}
	}
}

// set sets all objects to a version.
func (a *agent) set(version int) {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "o"}
	a.store.SetConfigMap(&v1.ConfigMap{ObjectMeta: meta, Data: keys(version)})
	a.store.SetSecret(&v1.Secret{ObjectMeta: meta, StringData: keys(version)})
}

// ended reports failures, of which there should be none, and wakes calm.
func (a *agent) ended(e volumemanager.OperationEnd) {
	if e.Err != nil {
		fmt.Fprintf(os.Stderr, "%s of %s for %s: %v\n", e.Kind, e.Volume, e.PodUID, e.Err)
	}
	select {
	case a.moved <- struct{}{}:
	default:
	}
}

// drivers is a Drivers in which every driver requires republishing, and leaves fsGroups to the
// agent.
type drivers struct{}

func (drivers) Driver(string) (*storagev1.CSIDriver, bool) {
	policy := storagev1.FileFSGroupPolicy
	return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{
		RequiresRepublish: new(true), FSGroupPolicy: &policy,
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral},
	}}, true
}

func newAgent(p plan) (*agent, error) {
	a := &agent{plan: p, moved: make(chan struct{}, 1), started: map[int]bool{}}
	for _, pod := range p.Started {
		a.started[pod] = true
	}
	var err error
	a.store, err = objects.NewStore(objects.Options{Changed: func(r objects.Ref) { a.manager.Refresh(r.UsedBy) }})
	if err != nil {
		return nil, err
	}
	var plugins []volumemanager.Plugin
	add := func(plugin volumemanager.Plugin, failed error) {
		plugins, err = append(plugins, plugin), errors.Join(err, failed)
	}
	m := p.mounter()
	add(emptydir.New(emptydir.Options{Mounter: m}))
	add(hostpath.New(hostpath.Options{}))
	add(configmap.New(configmap.Options{Mounter: m, Source: a.store}))
	add(secret.New(secret.Options{Mounter: m, Source: a.store}))
	add(downwardapi.New(downwardapi.Options{Mounter: m}))
	add(projected.New(projected.Options{Mounter: m, ConfigMaps: a.store, Secrets: a.store}))
	add(local.New(local.Options{Mounter: m}))
	add(csi.New(csi.Options{Mounter: m, Drivers: drivers{}, Socket: func(string) string { return p.Socket }}))
	var failed error
	a.subpaths, failed = subpath.New(subpath.Options{Mounter: m})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	a.manager, err = volumemanager.New(volumemanager.Options{
		Pods: &a.pods, Root: p.Root, Plugins: plugins, Claims: volumemanager.ClaimsFunc(p.claims), Subpaths: a.subpaths,
		Mounts: volumemanager.MountTableFunc(mount.Points), Hooks: volumemanager.Hooks{OperationEnded: a.ended},
	})
	return a, err
}

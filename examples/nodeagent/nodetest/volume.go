// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/volumemanager"
)

// VolumeDriver is the flexVolume driver of volumes that a Node itself provides. The volumes are
// folders. History.Volumes has the operations.
const VolumeDriver = "keelson.dev/nodetest"

// The operations of agents on volumes of VolumeDriver, for Node.CrashAgentOn.
const (
	OpSetUp    fake.Op = "SetUp"
	OpTearDown fake.Op = "TearDown"
)

// VolumeEvent is an operation on a volume of VolumeDriver.
type VolumeEvent struct {
	At      time.Duration
	UID     types.UID
	Volume  string
	What    VolumeAct
	User    *int64   // of VolumeReady: as whom the pod runs
	Running []string // at the begin of a TearDown, the running containers of the pod
}

// VolumeAct is the kind of an operation on a volume.
type VolumeAct string

// The operations on volumes.
const (
	VolumeReady   VolumeAct = "volume is ready"          // SetUp was successful
	VolumeLeaving VolumeAct = "volume is torn down"      // TearDown begins
	VolumeGone    VolumeAct = "volume is gone"           // TearDown was successful
	VolumeFailed  VolumeAct = "volume fails as injected" // Node.FailVolumes
)

// disk has the volumes of a node. It outlives the agents.
type disk struct {
	world   *fake.World
	latency time.Duration

	mu struct {
		sync.Mutex
		log   []VolumeEvent
		fail  error
		setUp bool // only what sets up fails
	}
}

func newDisk(world *fake.World, latency time.Duration) *disk {
	return &disk{world: world, latency: latency}
}

func (d *disk) events() []VolumeEvent {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clip(d.mu.log)
}

// FailVolumes makes all operations on volumes of VolumeDriver fail with err, until a call with nil.
func (n *Node) FailVolumes(err error) {
	n.disk.failOn(err, false)
}

func (d *disk) failOn(err error, setUp bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.fail, d.mu.setUp = err, setUp
}

func (d *disk) add(p volumemanager.Place, what VolumeAct, running []string, user *int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.mu.fail
	if d.mu.setUp && what != VolumeReady {
		err = nil
	}
	if err != nil {
		what, running = VolumeFailed, nil
	}
	d.mu.log = append(d.mu.log, VolumeEvent{At: d.world.Now(), UID: p.PodUID, Volume: p.Inner, What: what, Running: running, User: user})
	return err
}

// running returns the running containers of a pod, independent of the backend's reports.
func (d *disk) running(uid types.UID) (names []string) {
	for _, pod := range d.world.Truth() {
		for i := range pod.Containers {
			if c := &pod.Containers[i]; pod.UID == uid && (c.State == runtime.StateRunning || c.State == runtime.StateUnknown) {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// volumePlugin is the disk for the holder of a lease.
type volumePlugin struct {
	disk  *disk
	lease *lease
}

// Name implements volumemanager.Plugin.
func (*volumePlugin) Name() string { return VolumeDriver }

// Supports implements volumemanager.Plugin.
func (*volumePlugin) Supports(spec volumemanager.Spec) bool {
	return spec.Volume != nil && spec.Volume.FlexVolume != nil && spec.Volume.FlexVolume.Driver == VolumeDriver
}

// SetUp implements volumemanager.Plugin.
func (p *volumePlugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	call := fake.Call{Op: OpSetUp, UID: m.PodUID}
	if m.Pod != nil {
		call.Pod = m.Pod.Name
	}
	return through(ctx, p.lease, call, func(ctx context.Context) (volumemanager.Mounted, error) {
		if err := p.disk.spin(ctx); err != nil {
			return volumemanager.Mounted{}, err
		}
		if err := p.disk.add(m.Place, VolumeReady, nil, m.FSUser); err != nil {
			return volumemanager.Mounted{}, err
		}
		return volumemanager.Mounted{Path: m.Dir()}, os.MkdirAll(m.Dir(), 0o750)
	})
}

// TearDown implements volumemanager.Plugin.
func (p *volumePlugin) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	_, err := through(ctx, p.lease, fake.Call{Op: OpTearDown, UID: u.PodUID}, func(ctx context.Context) (struct{}, error) {
		if err := p.disk.add(u.Place, VolumeLeaving, p.disk.running(u.PodUID), nil); err != nil {
			return struct{}{}, err
		}
		if err := p.disk.spin(ctx); err != nil {
			return struct{}{}, err
		}
		if err := p.disk.add(u.Place, VolumeGone, nil, nil); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, os.RemoveAll(u.Dir())
	})
	return err
}

// spin waits for the latency of the disk.
func (d *disk) spin(ctx context.Context) error {
	if d.latency == 0 {
		return nil
	}
	timer := time.NewTimer(d.latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Volume adds a volume of VolumeDriver, mounted at /volumes/NAME by every container that the pod
// has so far.
func Volume(name string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		source := v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: VolumeDriver}}
		mountVolume(p, v1.Volume{Name: name, VolumeSource: source})
	}
}

func mountVolume(p *v1.Pod, volume v1.Volume) {
	p.Spec.Volumes = append(p.Spec.Volumes, volume)
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			list[i].VolumeMounts = append(list[i].VolumeMounts, v1.VolumeMount{Name: volume.Name, MountPath: "/volumes/" + volume.Name})
		}
	}
}

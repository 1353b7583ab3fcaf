// SPDX-License-Identifier: Apache-2.0

package volumemanager_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumetest"
)

// theatre is a Manager whose plugin, claims, node, subpaths and mount table can be hostile, with its pods.
type theatre struct {
	*volumetest.Plugin
	casetest.Notes
	t       *testing.T
	manager *volumemanager.Manager
	options volumemanager.Options
	root    string // of the disk
	pods    *volumetest.Pods
	stop    context.CancelFunc
	done    chan error // of Run

	mu       sync.Mutex
	size     string // of the volumes of claims
	attached map[v1.UniqueVolumeName]string
	mode     v1.PersistentVolumeAccessMode
	block    bool
	choose   func(seam string) answer
	visited  map[string]bool
	stopped  bool
	lost     bool // the records
}

// answer replaces the answer of a call of a seam.
type answer func(p *theatre, ctx context.Context, do func(context.Context) error) error

// strike sets the answers of all calls; choose returns nil for the ordinary answer.
func (p *theatre) strike(choose func(seam string) answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.choose = choose
	clear(p.visited)
}

// chosen returns the answer of a call instead of the ordinary answer, or nil.
func (p *theatre) chosen(seam string) answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasPrefix(seam, "calm ") {
		return nil
	}
	p.visited[seam] = true
	if p.choose == nil {
		return nil
	}
	return p.choose(seam)
}

// do makes a call of a seam, and notes it. seam is its name, and args tell the arguments.
func (p *theatre) do(ctx context.Context, seam, args string, do func(context.Context) error) error {
	if strings.HasPrefix(args, "a/w ") || args == "a/w" {
		seam = "calm " + seam // one of two concurrent calls is struck
	}
	other := p.chosen(seam)
	began, limit := time.Now(), "no"
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline).String()
	}
	var err error
	if other != nil {
		time.Sleep(time.Millisecond) // goroutines of the same instant have an order
		err = other(p, ctx, do)
	} else {
		err = do(ctx)
	}
	p.Note("%s %s, limit %s, took %v: %v", seam, args, limit, time.Since(began), err)
	return err
}

// The plugin.

func (p *theatre) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	return p.setUp(ctx, "SetUp", m)
}

func (p *theatre) MapBlock(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	return p.setUp(ctx, "MapBlock", m)
}

func (p *theatre) setUp(ctx context.Context, seam string, m volumemanager.Mount) (mounted volumemanager.Mounted, err error) {
	id := func(id *int64) string {
		if id == nil {
			return "-"
		}
		return fmt.Sprint(*id)
	}
	args := fmt.Sprintf("%s/%s outer %s pod %s device %s %s user %s group %s remount %t found %t", m.PodUID, m.Inner, m.Outer, m.Pod.Name,
		m.DevicePath, m.DeviceDir, id(m.FSUser), id(m.FSGroup), m.Remount, m.Reconstructed)
	err = p.do(ctx, seam, args, func(ctx context.Context) (err error) {
		mounted, err = p.Plugin.SetUp(ctx, m)
		return err
	})
	return mounted, err
}

func (p *theatre) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	return p.tearDown(ctx, "TearDown", u)
}

func (p *theatre) UnmapBlock(ctx context.Context, u volumemanager.Unmount) error {
	return p.tearDown(ctx, "UnmapBlock", u)
}

func (p *theatre) tearDown(ctx context.Context, seam string, u volumemanager.Unmount) error {
	args := fmt.Sprintf("%s/%s spec %s path %q device %s", u.PodUID, u.Inner, u.Spec.InnerName(), u.Path, u.DeviceDir)
	return p.do(ctx, seam, args, func(ctx context.Context) error { return p.Plugin.TearDown(ctx, u) })
}

func (p *theatre) MountDevice(ctx context.Context, d volumemanager.Device) error {
	return p.do(ctx, "MountDevice", showDevice(d), func(ctx context.Context) error { return p.Plugin.MountDevice(ctx, d) })
}

func (p *theatre) UnmountDevice(ctx context.Context, d volumemanager.Device) error {
	return p.do(ctx, "UnmountDevice", showDevice(d), func(ctx context.Context) error { return p.Plugin.UnmountDevice(ctx, d) })
}

func showDevice(d volumemanager.Device) string {
	return fmt.Sprintf("%s at %s of %s from %s", d.Spec.InnerName(), d.Dir, d.Root, d.Path)
}

func (p *theatre) WaitForAttach(ctx context.Context, spec volumemanager.Spec, hint string) (path string, err error) {
	err = p.do(ctx, "WaitForAttach", spec.InnerName()+" at "+hint, func(ctx context.Context) (err error) {
		path, err = p.Plugin.WaitForAttach(ctx, spec, hint)
		return err
	})
	return path, err
}

func (p *theatre) Expand(ctx context.Context, e volumemanager.Expansion) error {
	args := fmt.Sprintf("%s mounted at %s from %s to %s", showDevice(e.Device), e.MountedPath, e.From.String(), e.To.String())
	return p.do(ctx, "Expand", args, func(ctx context.Context) error { return p.Plugin.Expand(ctx, e) })
}

func (p *theatre) Exhausted(ctx context.Context, spec volumemanager.Spec) (full bool, err error) {
	err = p.do(ctx, "Exhausted", spec.InnerName(), func(context.Context) error { return nil })
	return err == nil, err
}

// The other seams.

func (p *theatre) Resolve(ctx context.Context, pod *v1.Pod, vol v1.Volume) (spec volumemanager.Spec, err error) {
	err = p.do(ctx, "Resolve", pod.Name+"/"+vol.Name, func(ctx context.Context) (err error) {
		p.mu.Lock()
		size, mode, block := p.size, p.mode, p.block
		p.mu.Unlock()
		spec, err = claims(func(pv *v1.PersistentVolume) {
			pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse(size)
			pv.Spec.AccessModes[0] = mode
			if block {
				pv.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
			}
		})(ctx, pod, vol)
		return err
	})
	return spec, err
}

func (p *theatre) AttachedVolumes(ctx context.Context) (attached map[v1.UniqueVolumeName]string, err error) {
	err = p.do(ctx, "AttachedVolumes", "", func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		attached = maps.Clone(p.attached)
		return nil
	})
	return attached, err
}

func (p *theatre) CleanSubpaths(ctx context.Context, place volumemanager.Place) error {
	return p.do(ctx, "CleanSubpaths", string(place.PodUID)+"/"+place.Inner, func(context.Context) error { return nil })
}

func (p *theatre) MountPoints() (points []string, err error) {
	err = p.do(p.t.Context(), "MountPoints", "", func(context.Context) error { return nil })
	return nil, err
}

func (p *theatre) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	p.quietly("Pods")
	return p.pods.ShouldPodRuntimeBeRemoved(uid)
}

func (p *theatre) ShouldPodContainersBeTerminating(uid types.UID) bool {
	p.quietly("Pods")
	return p.pods.ShouldPodContainersBeTerminating(uid)
}

// quietly makes a call of a seam that cannot fail, without a note.
func (p *theatre) quietly(seam string) {
	if other := p.chosen(seam); other != nil {
		_ = other(p, p.t.Context(), func(context.Context) error { return nil })
	}
}

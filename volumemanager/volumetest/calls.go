// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/volumemanager"
)

// SetUp mounts a volume with the configured Behaviour.
func (p *Plugin) SetUp(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	mounted := volumemanager.Mounted{Path: m.Dir(), Managed: true}
	c := Call{Op: OpSetUp, PodUID: m.PodUID, Volume: m.Inner, Remount: m.Remount, Reconstructed: m.Reconstructed}
	err := p.call(ctx, c, func() string { return p.rulesOfSetUp(m) }, func() error { return p.mount(m.Place) })
	if err != nil {
		return volumemanager.Mounted{}, err
	}
	return mounted, nil
}

// MapBlock calls SetUp.
func (p *Plugin) MapBlock(ctx context.Context, m volumemanager.Mount) (volumemanager.Mounted, error) {
	return p.SetUp(ctx, m)
}

// TearDown unmounts a volume with the configured Behaviour.
func (p *Plugin) TearDown(ctx context.Context, u volumemanager.Unmount) error {
	c := Call{Op: OpTearDown, PodUID: u.PodUID, Volume: u.Inner}
	return p.call(ctx, c, func() string {
		if p.options.Gone != nil && !p.options.Gone(u.PodUID) {
			return "the pod is not gone"
		}
		return ""
	}, func() error { return p.unmount(u.Place) })
}

// UnmapBlock calls TearDown.
func (p *Plugin) UnmapBlock(ctx context.Context, u volumemanager.Unmount) error {
	return p.TearDown(ctx, u)
}

// MountDevice stages a volume with the configured Behaviour.
func (p *Plugin) MountDevice(ctx context.Context, d volumemanager.Device) error {
	return p.call(ctx, Call{Op: OpMountDevice, Volume: d.Spec.InnerName()}, nil, func() error {
		if p.options.Folders {
			if err := os.MkdirAll(d.Dir, 0o750); err != nil {
				return err
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.staged[d.Spec.InnerName()] = true
		return nil
	})
}

// UnmountDevice unstages a volume with the configured Behaviour.
func (p *Plugin) UnmountDevice(ctx context.Context, d volumemanager.Device) error {
	name := d.Spec.InnerName()
	return p.call(ctx, Call{Op: OpUnmountDevice, Volume: name}, func() string {
		if uid, used := p.user(name); used {
			return fmt.Sprintf("pod %s still has it", uid)
		}
		return ""
	}, func() error {
		if p.options.Folders {
			if err := os.RemoveAll(d.Dir); err != nil {
				return err
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.mu.staged, name)
		return nil
	})
}

// WaitForAttach returns a device path named after the volume, with the configured Behaviour.
func (p *Plugin) WaitForAttach(ctx context.Context, spec volumemanager.Spec, _ string) (string, error) {
	err := p.call(ctx, Call{Op: OpWaitForAttach, Volume: spec.InnerName()}, nil, func() error { return nil })
	return "/dev/" + spec.InnerName(), err
}

// Expand changes nothing and returns with the configured Behaviour.
func (p *Plugin) Expand(ctx context.Context, e volumemanager.Expansion) error {
	return p.call(ctx, Call{Op: OpExpand, Volume: e.Spec.InnerName()}, nil, func() error { return nil })
}

// call performs a call. rules returns the violation of the call, or "", and is called with the lock
// held.
func (p *Plugin) call(ctx context.Context, c Call, rules func() string, effect func() error) error {
	key := string(c.PodUID) + "/" + c.Volume
	behaviour, entry, release := p.begin(c, key, rules)
	err := behaviour.wait(ctx, release)
	if err == nil {
		err = behaviour.Err
	}
	if err == nil || behaviour.Done {
		if failed := effect(); err == nil {
			err = failed
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !behaviour.Done {
		p.undo(c, err)
	}
	p.mu.running[key]--
	entry.Ended, entry.Err = time.Now(), err
	return err
}

// undo removes the volume if the class of the error promises that nothing is left. The lock is
// held.
func (p *Plugin) undo(c Call, err error) {
	if !errors.Is(err, volumemanager.ErrFinal) && !errors.Is(err, volumemanager.ErrTerminal) {
		return
	}
	switch c.Op {
	case OpSetUp:
		if !c.Remount && !c.Reconstructed {
			delete(p.mu.mounted, volumeOfPod{c.PodUID, c.Volume})
		}
	case OpMountDevice:
		if _, used := p.user(c.Volume); !used {
			delete(p.mu.staged, c.Volume)
		}
	}
}

// user returns a pod with the volume mounted. The lock is held.
func (p *Plugin) user(volume string) (types.UID, bool) {
	for v := range p.mu.mounted {
		if v.volume == volume {
			return v.uid, true
		}
	}
	return "", false
}

// begin records a call and its violations, and returns its Behaviour.
func (p *Plugin) begin(c Call, key string, rules func() string) (Behaviour, *Call, <-chan struct{}) {
	p.mu.Lock()
	for _, old := range p.mu.calls {
		if old.Op == c.Op && old.PodUID == c.PodUID && old.Volume == c.Volume {
			c.N++
		}
	}
	c.Began = time.Now()
	entry := &c
	p.mu.calls = append(p.mu.calls, entry)
	for other, n := range p.mu.running {
		_, volume, _ := strings.Cut(other, "/")
		if n > 0 && volume == c.Volume && (other == key || c.PodUID == "" || other == "/"+volume) {
			p.blame(c, "another call for the same volume is under way")
		}
	}
	p.mu.running[key]++
	if rules != nil {
		if wrong := rules(); wrong != "" {
			p.blame(c, wrong)
		}
	}
	broken, release := p.mu.broken, p.mu.release
	seen := c
	p.mu.Unlock()
	switch {
	case broken != nil && c.Op == OpSetUp:
		return Behaviour{Err: broken}, entry, release
	case p.options.Behave != nil:
		return p.options.Behave(seen), entry, release
	}
	return Behaviour{}, entry, release
}

// blame records a violation. The lock is held.
func (p *Plugin) blame(c Call, wrong string) {
	p.mu.violations = append(p.mu.violations, fmt.Sprintf("%s %s/%s: %s", c.Op, c.PodUID, c.Volume, wrong))
}

// rulesOfSetUp returns the violation of a SetUp call, or "". The lock is held.
func (p *Plugin) rulesOfSetUp(m volumemanager.Mount) string {
	_, mounted := p.mu.mounted[volumeOfPod{m.PodUID, m.Inner}]
	switch {
	case p.options.Staged && m.Spec.PV != nil && !p.mu.staged[m.Inner]:
		return "it is not staged"
	case m.Remount && !mounted:
		return "it is to be mounted again, but is not mounted"
	case m.Pod == nil || m.Pod.UID != m.PodUID:
		return "the pod is another"
	case len(m.Outer) == 0:
		return "it has no name in the pod"
	}
	return ""
}

// wait blocks for the duration of the call.
func (b Behaviour) wait(ctx context.Context, release <-chan struct{}) error {
	switch b.Hang {
	case HangForever:
		<-release
		return nil
	case HangUntilCancelled:
		<-ctx.Done()
		return ctx.Err()
	}
	if b.Delay <= 0 {
		return nil
	}
	return retry.Sleep(ctx, b.Delay)
}

// mount mounts the volume with the newest content.
func (p *Plugin) mount(place volumemanager.Place) error {
	p.mu.Lock()
	content := p.mu.content
	p.mu.Unlock()
	if p.options.Folders {
		if err := os.MkdirAll(place.Dir(), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(place.Dir(), "content"), []byte(strconv.Itoa(content)), 0o600); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.mounted[volumeOfPod{place.PodUID, place.Inner}] = content
	return nil
}

func (p *Plugin) unmount(place volumemanager.Place) error {
	if p.options.Folders {
		if err := os.RemoveAll(place.Dir()); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.mounted, volumeOfPod{place.PodUID, place.Inner})
	return nil
}

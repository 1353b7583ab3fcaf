// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/volumemanager"
)

// Op is a method of the plugin.
type Op string

// The methods that a Behaviour can be given for.
const (
	OpSetUp         Op = "SetUp"
	OpTearDown      Op = "TearDown"
	OpMountDevice   Op = "MountDevice"
	OpUnmountDevice Op = "UnmountDevice"
	OpWaitForAttach Op = "WaitForAttach"
	OpExpand        Op = "Expand"
)

// Call is one call of the plugin.
type Call struct {
	Op Op
	// PodUID is "" for what concerns the whole volume. Volume is the inner name.
	PodUID types.UID
	Volume string
	// N counts the calls of the same Op, pod and volume before.
	N int
	// Remount and Reconstructed are those of Mount.
	Remount, Reconstructed bool
	// Began and Ended are when; Ended is zero while the call is under way.
	Began, Ended time.Time
	// Err is what was returned.
	Err error
}

// Hang is how a call does not return.
type Hang uint8

// The ways.
const (
	HangNot Hang = iota
	// HangUntilCancelled returns when ctx ends, with its error.
	HangUntilCancelled
	// HangForever returns when Plugin.Release is called, whatever ctx does.
	HangForever
)

// Behaviour is what a call does. The zero value succeeds at once.
type Behaviour struct {
	// Delay is how long the call takes; if ctx ends before, it returns its error.
	Delay time.Duration
	Hang  Hang
	// Err is returned; classify it with volumemanager.Final and the like.
	Err error
	// Done: the call has its effect although it returns an error.
	Done bool
}

// Options configure a Plugin. The zero value makes one for all volumes of pods'
// own.
type Options struct {
	// Name defaults to "example.com/fake".
	Name string
	// Supports defaults to every Spec that is not zero.
	Supports func(volumemanager.Spec) bool
	// Refresh: volumes need refresh.
	Refresh bool
	// Shared: persistent volumes are shared by pods, under the name of the PV.
	Shared bool
	// Staged: shared volumes are staged first. Attachable: they are attached first.
	Staged, Attachable bool
	// Folders: SetUp makes Place.Dir with the file "content" in it, and what it has
	// set up is found there after a restart. Else the plugin touches no disk.
	Folders bool
	// Behave says what a call does. It must be safe for concurrent use. Defaults to
	// success.
	Behave func(Call) Behaviour
	// Gone is asked before a TearDown; false is a violation. Defaults to true.
	Gone func(types.UID) bool
	// Exhausted: the node has as many volumes as it can. Defaults to false.
	Exhausted func() bool
}

// Plugin is the fake. What it has set up outlives managers, as mounts in a kernel
// do: use one Plugin for the manager before and after a restart. It emulates no
// file systems, owners, modes or read-only mounts.
//
// It has every ability of a plugin; those that Options do not ask for say of each
// volume that it does not need them.
type Plugin struct {
	options Options

	mu struct {
		sync.Mutex
		calls      []*Call
		running    map[string]int
		mounted    map[volumeOfPod]int // to the version of its content
		staged     map[string]bool
		content    int
		broken     error
		release    chan struct{}
		violations []string
	}
}

// volumeOfPod is what is set up.
type volumeOfPod struct {
	uid    types.UID
	volume string
}

var (
	_ volumemanager.Refresher     = (*Plugin)(nil)
	_ volumemanager.DeviceMounter = (*Plugin)(nil)
	_ volumemanager.Attacher      = (*Plugin)(nil)
	_ volumemanager.AttachLimiter = (*Plugin)(nil)
	_ volumemanager.Expander      = (*Plugin)(nil)
	_ volumemanager.BlockMapper   = (*Plugin)(nil)
)

// NewPlugin returns a fake with nothing set up.
func NewPlugin(o Options) *Plugin {
	if o.Name == "" {
		o.Name = "example.com/fake"
	}
	p := &Plugin{options: o}
	p.mu.running = map[string]int{}
	p.mu.mounted = map[volumeOfPod]int{}
	p.mu.staged = map[string]bool{}
	p.mu.release = make(chan struct{})
	return p
}

// Clone returns a fake with the same things set up and no calls made, which goes on
// as o says: what a node would find if the agent had been killed at this moment.
func (p *Plugin) Clone(o Options) *Plugin {
	c := NewPlugin(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	c.mu.mounted, c.mu.staged = maps.Clone(p.mu.mounted), maps.Clone(p.mu.staged)
	c.mu.content = p.mu.content
	return c
}

// Name returns Options.Name.
func (p *Plugin) Name() string { return p.options.Name }

// Supports asks Options.Supports.
func (p *Plugin) Supports(spec volumemanager.Spec) bool {
	if p.options.Supports != nil {
		return p.options.Supports(spec)
	}
	return spec.InnerName() != ""
}

// NeedsRefresh returns Options.Refresh.
func (p *Plugin) NeedsRefresh(volumemanager.Spec) bool { return p.options.Refresh }

// VolumeID returns the name of the PV of a shared volume.
func (p *Plugin) VolumeID(spec volumemanager.Spec) (string, error) {
	if !p.options.Shared || spec.PV == nil {
		return "", nil
	}
	return spec.PV.Name, nil
}

// DeviceDir returns a folder named after the PV of a staged volume.
func (p *Plugin) DeviceDir(root string, spec volumemanager.Spec) (string, error) {
	if !p.options.Staged || spec.PV == nil {
		return "", nil
	}
	return filepath.Join(root, "plugins", volumemanager.EscapePluginName(p.options.Name), spec.PV.Name, "globalmount"), nil
}

// Attachable returns Options.Attachable for PVs.
func (p *Plugin) Attachable(spec volumemanager.Spec) bool {
	return p.options.Attachable && spec.PV != nil
}

// Exhausted asks Options.Exhausted.
func (p *Plugin) Exhausted(context.Context, volumemanager.Spec) (bool, error) {
	return p.options.Exhausted != nil && p.options.Exhausted(), nil
}

// SetContent changes what volumes show after their next SetUp.
func (p *Plugin) SetContent(version int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.content = version
}

// Break makes each SetUp fail with err; nil repairs that. It goes before
// Options.Behave.
func (p *Plugin) Break(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.broken = err
}

// Release lets every call return that hangs for ever.
func (p *Plugin) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.mu.release)
	p.mu.release = make(chan struct{})
}

// Content returns the content that the pod's volume shows; false if it is not
// mounted.
func (p *Plugin) Content(uid types.UID, volume string) (version int, mounted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	version, mounted = p.mu.mounted[volumeOfPod{uid, volume}]
	return version, mounted
}

// Mounted returns "<pod UID>/<volume>" of all that is set up, sorted.
func (p *Plugin) Mounted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for v := range p.mu.mounted {
		names = append(names, string(v.uid)+"/"+v.volume)
	}
	slices.Sort(names)
	return names
}

// Staged returns the names of the PVs that are staged, sorted.
func (p *Plugin) Staged() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.mu.staged))
}

// Calls returns all calls in the order in which they began.
func (p *Plugin) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := make([]Call, 0, len(p.mu.calls))
	for _, c := range p.mu.calls {
		calls = append(calls, *c)
	}
	return calls
}

// Journal returns the calls as "<Op> <pod UID>/<volume>", in the order in which they
// began.
func (p *Plugin) Journal() []string {
	var lines []string
	for _, c := range p.Calls() {
		line := string(c.Op) + " " + strings.TrimPrefix(string(c.PodUID)+"/"+c.Volume, "/")
		if c.Remount {
			line += " (remount)"
		}
		if c.Reconstructed {
			line += " (reconstructed)"
		}
		lines = append(lines, line)
	}
	return lines
}

// Violations returns how the manager broke the rules of the seam.
func (p *Plugin) Violations() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.mu.violations)
}

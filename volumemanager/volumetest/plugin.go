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

// Op is a method of Plugin.
type Op string

// The methods with a configurable Behaviour.
const (
	OpSetUp         Op = "SetUp"
	OpTearDown      Op = "TearDown"
	OpMountDevice   Op = "MountDevice"
	OpUnmountDevice Op = "UnmountDevice"
	OpWaitForAttach Op = "WaitForAttach"
	OpExpand        Op = "Expand"
)

// Call is a call of a method of Plugin.
type Call struct {
	Op Op
	// PodUID is "" for a call about the whole volume. Volume is the inner name.
	PodUID types.UID
	Volume string
	// N counts the earlier calls of the same Op, pod and volume.
	N int
	// Remount and Reconstructed are as in Mount.
	Remount, Reconstructed bool
	// Began and Ended are the times of the call; Ended is zero while the call is under way.
	Began, Ended time.Time
	// Err is the returned error.
	Err error
}

// Hang tells when a call returns.
type Hang uint8

// The ways to hang.
const (
	HangNot Hang = iota
	// HangUntilCancelled: the call returns the error of ctx when ctx ends.
	HangUntilCancelled
	// HangForever: the call ignores ctx and returns when Plugin.Release is called.
	HangForever
)

// Behaviour is the behaviour of a call. The zero value succeeds at once.
type Behaviour struct {
	// Delay is the duration of the call. If ctx ends earlier, the call returns the error of ctx.
	Delay time.Duration
	Hang  Hang
	// Err is the returned error; classify it with volumemanager.Final and the like.
	Err error
	// Done: the call takes effect although it returns an error.
	Done bool
}

// pluginName is the name of each Plugin.
const pluginName = "example.com/fake"

// Options configure a Plugin. The zero value configures a plugin for volumes that are not shared by
// pods.
type Options struct {
	// Supports defaults to every non-zero Spec.
	Supports func(volumemanager.Spec) bool
	// Refresh: volumes need refresh.
	Refresh bool
	// Shared: pods share persistent volumes, under the name of the PV.
	Shared bool
	// Staged: shared volumes need staging. Attachable: persistent volumes need an attacher.
	Staged, Attachable bool
	// Folders: SetUp creates Place.Dir with the file "content" in it, and the folder survives a
	// restart. Otherwise the plugin does not touch the disk.
	Folders bool
	// Behave returns the Behaviour of a call. It must be safe for concurrent use. Defaults to
	// success.
	Behave func(Call) Behaviour
	// Gone reports whether a pod is gone. A TearDown is a violation if Gone returns false. Defaults
	// to true.
	Gone func(types.UID) bool
	// Exhausted reports whether the node is at its attach limit. Defaults to false.
	Exhausted func() bool
}

// Plugin is the fake plugin. Its volumes outlive managers, as mounts in a kernel do: use the same
// Plugin for the manager before and after a restart. The fake emulates no file systems, owners,
// modes or read-only mounts.
//
// Plugin has every ability of a plugin. An ability that is not enabled in Options reports for each
// volume that the volume does not need it.
type Plugin struct {
	options Options

	mu struct {
		sync.Mutex
		calls      []*Call
		running    map[string]int
		mounted    map[volumeOfPod]int // content version by volume
		staged     map[string]bool
		content    int
		broken     error
		release    chan struct{}
		violations []string
	}
}

// volumeOfPod identifies a mounted volume.
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

// NewPlugin returns a fake without volumes.
func NewPlugin(o Options) *Plugin {
	p := &Plugin{options: o}
	p.mu.running = map[string]int{}
	p.mu.mounted = map[volumeOfPod]int{}
	p.mu.staged = map[string]bool{}
	p.mu.release = make(chan struct{})
	return p
}

// Clone returns a fake with the options o, the same volumes and no calls: the state of a node after
// the agent was killed at this moment.
func (p *Plugin) Clone(o Options) *Plugin {
	c := NewPlugin(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	c.mu.mounted, c.mu.staged = maps.Clone(p.mu.mounted), maps.Clone(p.mu.staged)
	c.mu.content = p.mu.content
	return c
}

// Name returns "example.com/fake".
func (p *Plugin) Name() string { return pluginName }

// Supports calls Options.Supports.
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
	return filepath.Join(root, "plugins", volumemanager.EscapePluginName(pluginName), spec.PV.Name, "globalmount"), nil
}

// Attachable returns Options.Attachable for PVs.
func (p *Plugin) Attachable(spec volumemanager.Spec) bool {
	return p.options.Attachable && spec.PV != nil
}

// Exhausted calls Options.Exhausted.
func (p *Plugin) Exhausted(context.Context, volumemanager.Spec) (bool, error) {
	return p.options.Exhausted != nil && p.options.Exhausted(), nil
}

// SetContent sets the content that volumes get in their next SetUp.
func (p *Plugin) SetContent(version int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.content = version
}

// Break makes each SetUp fail with err, until Break(nil). Break overrides Options.Behave.
func (p *Plugin) Break(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.broken = err
}

// Release makes every call with HangForever return.
func (p *Plugin) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.mu.release)
	p.mu.release = make(chan struct{})
}

// Content returns the content version of the pod's volume; false if the volume is not mounted.
func (p *Plugin) Content(uid types.UID, volume string) (version int, mounted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	version, mounted = p.mu.mounted[volumeOfPod{uid, volume}]
	return version, mounted
}

// Mounted returns "<pod UID>/<volume>" of all mounted volumes, sorted.
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

// Staged returns the names of the staged PVs, sorted.
func (p *Plugin) Staged() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.mu.staged))
}

// Calls returns all calls, sorted by their beginning.
func (p *Plugin) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := make([]Call, 0, len(p.mu.calls))
	for _, c := range p.mu.calls {
		calls = append(calls, *c)
	}
	return calls
}

// Journal returns the calls as "<Op> <pod UID>/<volume>", sorted by their beginning.
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

// Violations returns the manager's violations of the contract of volumemanager.Plugin.
func (p *Plugin) Violations() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.mu.violations)
}

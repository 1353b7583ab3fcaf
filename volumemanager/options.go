// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// The defaults of Options; the times are the kubelet's (1.36), but for
// DefaultResync, of which it has 100 ms.
const (
	DefaultResync           = time.Minute
	DefaultWaitTimeout      = 2*time.Minute + 3*time.Second
	DefaultOperationTimeout = 2 * time.Minute
	DefaultAttachTimeout    = 10 * time.Minute
	DefaultInitialBackoff   = 500 * time.Millisecond
	DefaultMaxBackoff       = 2*time.Minute + 2*time.Second
	DefaultMaxParallel      = 32
)

// Options configure a Manager.
type Options struct {
	// Pods says which pods are gone. Required.
	Pods Pods
	// Root is the folder that has pods/ and plugins/ in it; "/var/lib/kubelet" is
	// the kubelet's. Absolute. It is made if it does not exist. Required.
	Root string
	// Plugins are the kinds of volumes there are, each with a name of its own.
	// Defaults to none.
	Plugins []Plugin

	// Claims resolves claims. Defaults to nil: a pod with a claim is refused.
	Claims Claims
	// Node tells what is attached. Defaults to nil: attachable volumes are taken
	// to be attached already.
	Node Node
	// Subpaths cleans up before a TearDown. Defaults to nil: nobody makes
	// subpaths.
	Subpaths Subpaths
	// Mounts guards CleanupOrphans. Defaults to nil: it then removes nothing but
	// empty folders.
	Mounts MountTable

	// Resync is the time between two looks at all pods, the safety net for a
	// PodChanged that was not called. Negative means never. Defaults to
	// DefaultResync.
	Resync time.Duration
	// WaitTimeout is how long WaitForAttachAndMount and WaitForUnmount wait if
	// their ctx does not end before. Negative means for ever. Defaults to
	// DefaultWaitTimeout.
	WaitTimeout time.Duration
	// OperationTimeout is the deadline of one call of a plugin; AttachTimeout that
	// of Attacher.WaitForAttach. Default to DefaultOperationTimeout and
	// DefaultAttachTimeout.
	OperationTimeout, AttachTimeout time.Duration
	// InitialBackoff is the time after a first failed operation until it is tried
	// again; it doubles up to MaxBackoff. Default to DefaultInitialBackoff and
	// DefaultMaxBackoff.
	InitialBackoff, MaxBackoff time.Duration
	// MaxParallel is how many operations may run at a time. One that takes longer
	// than a second does not count any more, so that those that hang hold up
	// nobody. Defaults to DefaultMaxParallel.
	MaxParallel int

	// Hooks tell of what happens. Default to nothing.
	Hooks Hooks
	// Logger receives operations that failed. Defaults to silence.
	Logger *zap.Logger
}

// withDefaults returns o with defaults filled in, or an error that names the field
// that cannot be used.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Pods == nil:
		return o, errors.New("volumemanager: Options.Pods is required")
	case !filepath.IsAbs(o.Root):
		return o, fmt.Errorf("volumemanager: Options.Root: %q is not absolute", o.Root)
	case o.MaxParallel < 0:
		return o, fmt.Errorf("volumemanager: Options.MaxParallel is negative: %d", o.MaxParallel)
	}
	if err := checkPlugins(o.Plugins); err != nil {
		return o, err
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"OperationTimeout", &o.OperationTimeout, DefaultOperationTimeout},
		{"AttachTimeout", &o.AttachTimeout, DefaultAttachTimeout},
		{"InitialBackoff", &o.InitialBackoff, DefaultInitialBackoff},
		{"MaxBackoff", &o.MaxBackoff, DefaultMaxBackoff},
	} {
		if *d.value < 0 {
			return o, fmt.Errorf("volumemanager: Options.%s is negative: %s", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if o.Resync == 0 {
		o.Resync = DefaultResync
	}
	if o.WaitTimeout == 0 {
		o.WaitTimeout = DefaultWaitTimeout
	}
	if o.MaxParallel == 0 {
		o.MaxParallel = DefaultMaxParallel
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	o.Root = filepath.Clean(o.Root)
	o.Plugins = slices.Clone(o.Plugins)
	return o, nil
}

func checkPlugins(plugins []Plugin) error {
	seen := map[string]bool{}
	for i, p := range plugins {
		if p == nil {
			return fmt.Errorf("volumemanager: Options.Plugins[%d] is nil", i)
		}
		name := p.Name()
		prefix, rest, ok := strings.Cut(name, "/")
		switch {
		case !ok || !isElement(prefix) || !isElement(rest) || strings.ContainsAny(name, "~ "):
			return fmt.Errorf("volumemanager: Options.Plugins[%d]: name %q is not of the form prefix/name", i, name)
		case seen[name]:
			return fmt.Errorf("volumemanager: Options.Plugins[%d]: there are two with the name %q", i, name)
		}
		seen[name] = true
	}
	return nil
}

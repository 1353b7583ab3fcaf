// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
)

// limits are the times and numbers of a Manager. Except for resync, they are the kubelet's (1.36).
type limits struct {
	resync    time.Duration // interval of Manager.Resync, the safety net for a missing PodChanged call; the kubelet's is 100 ms
	wait      time.Duration // limits WaitForAttachAndMount and WaitForUnmount in addition to their ctx
	operation time.Duration // deadline of a call of a plugin, except for Attacher.WaitForAttach
	// parallel is the largest number of operations at a time. An operation counts during its first
	// second only, so that operations that hang do not block others.
	parallel int
}

func defaultLimits() limits {
	return limits{resync: time.Minute, wait: 2*time.Minute + 3*time.Second, operation: 2 * time.Minute, parallel: 32}
}

// The kubelet's deadline of Attacher.WaitForAttach, and its delays before the retries of a failed
// operation, which double from the first to the longest.
const (
	attachTimeout  = 10 * time.Minute
	firstBackoff   = 500 * time.Millisecond
	longestBackoff = 2*time.Minute + 2*time.Second
)

// Options configure a Manager.
type Options struct {
	// Pods reports which pods are gone. Defaults to nil: the calls on the Manager decide. A pod
	// needs its volumes from WaitForAttachAndMount to WaitForUnmount. After WaitForUnmount, or
	// after CleanupOrphan of a pod that has not asked for volumes, the pod is gone. So call WaitForUnmount only
	// when no container of the pod runs.
	Pods Pods
	// Root is the folder that contains pods/ and plugins/, "/var/lib/kubelet" for the kubelet.
	// Absolute. A missing folder is created. Required.
	Root string
	// Plugins are the supported kinds of volumes, with distinct names. Defaults to none.
	Plugins []Plugin

	// Claims resolves claims. Defaults to nil: a pod with a claim is refused.
	Claims Claims
	// Node returns the attached volumes. Defaults to nil: attachable volumes count as attached.
	Node Node
	// Subpaths cleans up before a TearDown. Defaults to nil: this node has no subpaths.
	Subpaths Subpaths
	// Mounts guards CleanupOrphan. Defaults to nil: CleanupOrphan then removes empty folders
	// only.
	Mounts MountTable

	// FSGroup returns the group for the files of a pod's volumes, nil for none. Defaults to the
	// pod's fsGroup.
	FSGroup func(*v1.Pod) *int64

	// Hooks report operations and changes, for metrics and events. Default to none.
	Hooks Hooks
	// Logger receives failed operations. Defaults to silence.
	Logger *zap.Logger

	limits *limits // of tests; nil: defaultLimits
}

// withDefaults returns o with defaults filled in. The error names the invalid field.
func (o Options) withDefaults() (Options, error) {
	if !filepath.IsAbs(o.Root) {
		return Options{}, fmt.Errorf("volumemanager: Options.Root: %q is not absolute", o.Root)
	}
	if err := checkPlugins(o.Plugins); err != nil {
		return Options{}, err
	}
	if o.limits == nil {
		standard := defaultLimits()
		o.limits = &standard
	}
	if o.FSGroup == nil {
		o.FSGroup = func(pod *v1.Pod) *int64 {
			if sc := pod.Spec.SecurityContext; sc != nil {
				return sc.FSGroup
			}
			return nil
		}
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
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
		prefix, rest, _ := strings.Cut(name, "/")
		switch {
		case !isElement(prefix) || !isElement(rest) || strings.ContainsAny(name, "~ "):
			return fmt.Errorf("volumemanager: Options.Plugins[%d]: name %q is not of the form prefix/name", i, name)
		case seen[name]:
			return fmt.Errorf("volumemanager: Options.Plugins[%d]: there are two with the name %q", i, name)
		}
		seen[name] = true
	}
	return nil
}

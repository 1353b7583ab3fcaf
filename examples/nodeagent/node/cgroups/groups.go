// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/internal/signal"
)

// Writer changes the cgroups of the machine. Paths are those of Path, for the Writer's driver. The
// methods are safe for concurrent use with different paths.
type Writer interface {
	// Ensure makes a cgroup with its parents, unless it exists, and writes the values.
	Ensure(path string, v Values) error
	// Limits returns the limits of a cgroup: quota, memory and process IDs. exists is false if there is
	// no such cgroup, or if it is missing in a hierarchy of cgroup version 1.
	Limits(path string) (v Values, exists bool, err error)
	// Kill kills all processes in a cgroup and below. A missing cgroup is no error.
	Kill(ctx context.Context, path string) error
	// Remove removes a cgroup and the cgroups below. The error wraps ErrBusy if there are processes. A
	// missing cgroup is no error.
	Remove(ctx context.Context, path string) error
}

// ErrBusy is wrapped by errors of Writer.Remove for a cgroup with processes.
var ErrBusy = errors.New("the cgroup has processes")

// Options configure Groups.
type Options struct {
	// Writer is required.
	Writer Writer
	// Driver is the driver of the container runtime. Required.
	Driver Driver
	// Root is the cgroup of the hierarchy, as in the kubelet's field cgroupRoot. It must exist unless
	// it is the root of the machine. Defaults to "/".
	Root string
	// Records is the folder of the records of cgroups. It is made if needed. Required.
	Records string
	// Settings apply to all pods.
	Settings Settings
	// Node has the values of the cgroup of all pods. Defaults to none.
	Node Values
	// Reserved are cgroups of the system and of the node's programs, with their values. They must
	// exist. Defaults to none.
	Reserved []Reserved
	// NodeName is the name of the node in events. Defaults to no events of the node.
	NodeName string
	// Hooks defaults to none.
	Hooks Hooks
	// Logger defaults to no logging.
	Logger *zap.Logger
}

// Reserved is a cgroup with resources that pods may not use.
type Reserved struct {
	Path   string // in the notation of cgroupfs
	Values Values
}

// Hooks are functions that the Groups call. Each may be nil.
type Hooks struct {
	// Operated is called after each operation on a cgroup: update or destroy.
	Operated func(operation string, took time.Duration)
}

// Groups are the cgroups of a node.
type Groups struct {
	opts  Options
	root  []string                  // parts of Options.Root
	whole string                    // path of the cgroup of all pods
	class map[v1.PodQOSClass]string // paths
	wake  signal.Signal             // wakes run
	mu    sync.Mutex                // guards the groups of pods
	pods  *feature.Slot[*group]     // set by Feature
}

// group is the cgroup of a pod.
type group struct {
	path  string
	class v1.PodQOSClass
	asked requests
	// have are the values of the cgroup, nil if this agent has not written them.
	have *Values
	// removal is closed at the end of a removal of leftovers that is in progress, else nil.
	removal chan struct{}
	// gone: the pod is not configured any more.
	gone bool
}

// New returns Groups. It touches no disk. The error names the bad field.
func New(o Options) (*Groups, error) {
	switch {
	case o.Writer == nil:
		return nil, errors.New("cgroups: Options.Writer is required")
	case o.Records == "":
		return nil, errors.New("cgroups: Options.Records is required")
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	g := &Groups{opts: o, root: rootParts(o.Root), wake: signal.New(), class: map[v1.PodQOSClass]string{}}
	var err error
	if g.whole, err = g.path(pods); err != nil {
		return nil, fmt.Errorf("cgroups: Options.Driver, Options.Root: %w", err)
	}
	for _, class := range []v1.PodQOSClass{v1.PodQOSBurstable, v1.PodQOSBestEffort} {
		if g.class[class], err = g.path(pods, className(class)); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// path returns the path of a cgroup below Options.Root.
func (g *Groups) path(parts ...string) (string, error) {
	return Path(g.opts.Driver, append(g.root[:len(g.root):len(g.root)], parts...)...)
}

// Whole returns the path of the cgroup of all pods.
func (g *Groups) Whole() string { return g.whole }

// Parent returns the path of a pod's cgroup, for cri.Options. It is "" if the pod's UID is no name
// of a cgroup. The sync of such a pod fails before.
func (g *Groups) Parent(pod *v1.Pod) string {
	path, err := Path(g.opts.Driver, podParts(g.root, pod)...)
	if err != nil {
		return ""
	}
	return path
}

// SetUp makes the cgroups of all pods and of the classes, and writes the values of the reserved
// cgroups. Call SetUp once, before the first pod. If the kernel refuses a value of the cgroup of
// all pods, for example because the pods use more memory, SetUp returns no error and Feature.Run
// tries again.
func (g *Groups) SetUp() error {
	if len(g.root) > 0 {
		root, err := g.path()
		if err != nil {
			return err
		}
		if _, exists, err := g.opts.Writer.Limits(root); err != nil || !exists {
			return fmt.Errorf("cgroup %s, which is to hold the cgroups of pods, is missing or incomplete: make it: %w", root, err)
		}
	}
	for _, path := range []string{g.whole, g.class[v1.PodQOSBurstable], g.class[v1.PodQOSBestEffort]} {
		if err := g.ensure(path, Values{}); err != nil {
			return err
		}
	}
	for _, r := range g.opts.Reserved {
		path, err := Path(g.opts.Driver, rootParts(r.Path)...)
		if err != nil {
			return err
		}
		if _, exists, err := g.opts.Writer.Limits(path); err != nil || !exists {
			return fmt.Errorf("reserved cgroup %s does not exist or is incomplete: make it: %w", path, err)
		}
		if err := g.ensure(path, r.Values); err != nil {
			return err
		}
	}
	return nil
}

// ensure calls Writer.Ensure. The error names the cgroup.
func (g *Groups) ensure(path string, v Values) error {
	defer g.operated("update", time.Now())
	if err := g.opts.Writer.Ensure(path, v); err != nil {
		return fmt.Errorf("cgroup %s: %w", path, err)
	}
	return nil
}

func (g *Groups) operated(operation string, since time.Time) {
	if g.opts.Hooks.Operated != nil {
		g.opts.Hooks.Operated(operation, time.Since(since))
	}
}

// requestsOf returns the requests of a pod.
func requestsOf(pod *v1.Pod) requests {
	d := podresources.OfPod(pod).WithOverhead(pod.Spec.Overhead)
	return requests{d.CPURequest, d.MemoryRequest}
}

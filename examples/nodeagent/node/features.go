// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/images"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/internal/deadline"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/internal/declared"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/internal/gate"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/internal/mirrors"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/internal/probes"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/internal/resize"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/internal/restartmemory"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/internal/statuses"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/shutdown"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/volumes"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podsync"
	"github.com/keelson-dev/keelson/runtime/pullsecrets"
)

// parts holds the features with methods that the Agent calls directly. A field is nil if the
// feature is left out.
type parts struct {
	volumes *volumes.Volumes
	images  *images.Images
	probes  *probes.Probes
	gate    *gate.Gate
}

// FeatureNames returns the names that Options.Without accepts, in the order in which the node calls
// the features.
func FeatureNames() []string {
	return []string{"declared", "deadline", "volumes", "images", "resize", "gate", "restart-memory", "statuses", "probes", "mirrors"}
}

// wire constructs the features and the parts that the features share.
func (a *Agent) wire() (err error) {
	o := &a.opts
	h := &feature.Host{
		Table: feature.NewTable(), Root: o.Root, Runtime: o.Runtime, Events: o.Events, Log: o.Logger, Refused: o.Observer.PodRejected,
		Jitter:     func(d time.Duration) time.Duration { return d + time.Duration(o.Random()*float64(d)/2) },
		Sourced:    make(chan struct{}),
		CheckPod:   a.check,
		HoldImages: func(context.Context, ...string) (func(), error) { return func() {}, nil },
		KeptImages: a.keptImages,
		Reconsider: a.state.reconsider.Notify,
	}
	a.host = h
	if err = a.addFeatures(); err != nil {
		return err
	}
	if h.Manager, err = a.newManager(); err != nil {
		return err
	}
	if h.Sync, err = a.newPodSync(); err != nil {
		return err
	}
	h.Workers, err = podworkers.New(podworkers.Options{Syncer: podworkers.Over(h.Sync), OnSync: a.synced, Jitter: h.Jitter, Logger: h.Log})
	return err
}

// addFeatures fills a.features: the features of this package, then Options.Features.
func (a *Agent) addFeatures() (err error) {
	o, h := &a.opts, a.host
	with := func(name string) bool { return !slices.Contains(o.Without, name) }
	add := func(f feature.Feature) { a.features = append(a.features, f) }
	if with("declared") {
		add(declared.New(h))
	}
	if with("deadline") {
		add(deadline.New(h))
	}
	if with("images") {
		if a.parts.images, err = images.New(h, images.Options{NodeName: o.NodeName, GC: o.ImageGC, Removed: o.Observer.ImageRemoved}); err != nil {
			return err
		}
	}
	if with("volumes") {
		v := volumes.Options{
			Mounter: o.Mounter, Objects: o.Objects, Plugins: o.VolumePlugins, Allocatable: o.Allocatable, Claims: o.Cluster.Claims,
			Attachments: o.Cluster.Attachments, Tokens: o.Cluster.Tokens, Operated: o.Observer.VolumeOperated,
		}
		if a.parts.images != nil {
			v.Images = a.parts.images
		}
		if a.parts.volumes, err = volumes.New(h, v); err != nil {
			return err
		}
		add(a.parts.volumes.Feature())
	} else {
		add(feature.Feature{Name: "no-volumes", Check: refuseVolumes})
	}
	if a.parts.images != nil {
		add(a.parts.images.Feature())
	}
	resized := func(*v1.Pod, *admission.Pending) {}
	if with("resize") {
		r := resize.New(h)
		resized = r.Decided
		add(r.Feature())
	}
	a.gate = openGate{}
	if with("gate") {
		a.parts.gate = gate.New(h, gate.Options{
			NodeName: o.NodeName, Labels: o.NodeLabels, Taints: o.NodeTaints, Allocatable: o.Allocatable, UnsafeSysctls: o.UnsafeSysctls,
			Node: o.Cluster.Node, Admit: a.obstacles, Assigned: a.isAssigned, Resized: resized,
		})
		a.gate = a.parts.gate
	}
	add(a.gate.Feature())
	var recall func(*v1.Pod) *v1.Pod
	if with("restart-memory") {
		m := restartmemory.New(h)
		recall = m.Recall
		add(m.Feature())
	}
	var told probes.Statuses
	var written func(types.UID) (v1.PodStatus, bool)
	if with("statuses") {
		s, err := statuses.New(h, statuses.Options{Patcher: o.Cluster.Patcher, Coalesce: o.Cluster.Coalesce, Index: a.config.index, Requested: o.Observer.StatusRequested})
		if err != nil {
			return err
		}
		told, written = s, s.GetPodStatus
		add(s.Feature())
	}
	if with("probes") {
		if a.parts.probes, err = probes.New(h, probes.Options{
			Handler: o.ProbeHandler, Random: o.Random, Recall: recall, Statuses: told, Attempted: o.Observer.Probed,
		}); err != nil {
			return err
		}
		add(a.parts.probes.Feature())
	}
	if o.Cluster.Mirrors != nil && with("mirrors") {
		m, err := mirrors.New(h, mirrors.Options{Index: a.config.index, Pods: o.Cluster.Mirrors, Node: o.Cluster.Node, Told: written})
		if err != nil {
			return err
		}
		add(m)
	}
	if o.Features != nil {
		a.features = append(a.features, o.Features(h)...)
	}
	if err := checkNames(a.features); err != nil {
		return err
	}
	if o.OnShutdown == StopPods || o.MachineStops != nil {
		s := shutdown.Options{Classes: o.ShutdownClasses, Timeout: o.StopTimeout}
		if a.parts.volumes != nil {
			s.Unmount = a.parts.volumes.WaitForUnmount
		}
		a.stopper = shutdown.New(h, s)
	}
	return nil
}

// keptImages returns the images that features keep.
func (a *Agent) keptImages() (references []string) {
	for _, f := range a.features {
		if f.Images != nil {
			references = append(references, f.Images()...)
		}
	}
	return references
}

// extend lets the features add to the spec of a container.
func (a *Agent) extend(ctx context.Context, pod *v1.Pod, c *v1.Container, spec *runtime.ContainerSpec) error {
	for _, f := range a.features {
		if f.Container == nil {
			continue
		}
		if err := f.Container(ctx, pod, c, spec); err != nil {
			return err
		}
	}
	return nil
}

// checkNames returns an error if a feature has no name, or the name of another feature.
func checkNames(features []feature.Feature) error {
	seen := make(map[string]bool, len(features))
	for _, f := range features {
		switch {
		case f.Name == "":
			return errors.New("node: Options.Features: a feature has no Name")
		case seen[f.Name]:
			return fmt.Errorf("node: Options.Features: two features have the name %q", f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

// refuseVolumes is the Check function of a node without the feature volumes.
func refuseVolumes(pod *v1.Pod) (refused []string) {
	for i := range pod.Spec.Volumes {
		refused = append(refused, fmt.Sprintf("spec.volumes[%d] %q (this node has no volumes)", i, pod.Spec.Volumes[i].Name))
	}
	return refused
}

// newManager constructs the runtime.Manager.
func (a *Agent) newManager() (*runtime.Manager, error) {
	o := &a.opts
	g := runtime.DefaultGeneratorOptions{
		LogRoot: o.LogDir, HostIPs: o.HostIPs, Allocatable: o.Allocatable, Objects: o.Objects, Services: o.Cluster.Services,
		Extend: a.extend,
	}
	if v := a.parts.volumes; v != nil {
		g.Volumes, g.Groups = v.Mounts, v.GetExtraSupplementalGroupsForPod
	}
	own, err := runtime.NewDefaultGenerator(g)
	if err != nil {
		return nil, err
	}
	var generator runtime.Generator = own
	if o.Generator != nil {
		generator = o.Generator(own)
	}
	keyring := o.Keyring
	if keyring == nil {
		if keyring, err = a.newKeyring(); err != nil {
			return nil, err
		}
	}
	return runtime.New(runtime.Options{
		Runtime:             o.Runtime,
		Generator:           generator,
		Events:              o.Events,
		Hooks:               o.Hooks,
		Backoff:             o.Backoff,
		Keyring:             keyring,
		PullRecords:         o.PullRecords,
		MaxConcurrentStarts: o.MaxConcurrentStarts,
		MaxConcurrentPulls:  o.MaxConcurrentPulls,
		Logger:              o.Logger,
	})
}

// newKeyring returns the credentials for pulling images of containers and volumes: the pods'
// imagePullSecrets, then Options.RegistryAuthFile, then Options.NodeKeyring. The keyring is nil if
// the agent has no source of credentials.
func (a *Agent) newKeyring() (runtime.Keyring, error) {
	opts := pullsecrets.Options{File: a.opts.RegistryAuthFile, Events: a.opts.Events, Trouble: func(err error) {
		a.host.Log.Warn("an image is pulled without the node's credentials", zap.Error(err))
	}}
	switch {
	case a.opts.Objects != nil:
		opts.Secrets = a.opts.Objects
	case opts.File == "":
		return a.opts.NodeKeyring, nil
	}
	keyring, err := pullsecrets.New(opts)
	if err != nil {
		return nil, err
	}
	if a.opts.NodeKeyring == nil {
		return keyring.Find, nil
	}
	return func(ctx context.Context, pod *v1.Pod, image string) ([]runtime.ImageAuth, error) {
		own, err := keyring.Find(ctx, pod, image)
		if err != nil {
			return nil, err
		}
		more, err := a.opts.NodeKeyring(ctx, pod, image)
		return append(own, more...), err
	}, nil
}

// newPodSync constructs podsync with the hooks of all features.
func (a *Agent) newPodSync() (*podsync.Pods, error) {
	o := podsync.Options{
		Runtime:   a.opts.Runtime,
		Generator: runtime.DefaultGeneratorOptions{LogRoot: a.opts.LogDir, HostIPs: a.opts.HostIPs},
		Manager:   a.host.Manager,
		Status:    a.publish,
		Ended:     a.ended,
		Told:      a.host.Told,
		Hooks:     []podsync.Hook{{Input: a.previous}},
		Jitter:    a.host.Jitter,
		Logger:    a.host.Log,
	}
	if a.parts.volumes != nil {
		o.Volumes = a.parts.volumes
	}
	if a.parts.probes != nil {
		o.Probes = a.parts.probes
	}
	for _, f := range a.features {
		o.Hooks = append(o.Hooks, f.Hook)
	}
	return podsync.New(o)
}

// obstacles returns the reasons of the features and of Options.Admit to refuse a new pod, and the
// event that a feature waits for.
func (a *Agent) obstacles(pod *v1.Pod) (wait string, failures []admission.Failure) {
	for _, f := range a.features {
		if f.Admit == nil {
			continue
		}
		r := f.Admit(pod)
		if r.Reason != "" {
			failures = append(failures, admission.Failure{Reason: r.Reason, Message: r.Message})
		}
		wait = cmp.Or(wait, r.Wait)
	}
	if a.opts.Admit != nil {
		failures = append(failures, a.opts.Admit(pod)...)
	}
	return wait, failures
}

// isAssigned reports whether a feature gives pieces of the resource to pods.
func (a *Agent) isAssigned(resource v1.ResourceName) bool {
	return slices.ContainsFunc(a.features, func(f feature.Feature) bool { return f.Assigns != nil && f.Assigns(resource) })
}

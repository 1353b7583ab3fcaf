// SPDX-License-Identifier: Apache-2.0

// Package volumes provides the volumes of pods. The package combines package volumemanager with the
// plugins of this module, subPaths, service account tokens, and attachable volumes.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podsync"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/configmap"
	"github.com/keelson-dev/keelson/volumemanager/plugins/downwardapi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/emptydir"
	"github.com/keelson-dev/keelson/volumemanager/plugins/hostpath"
	"github.com/keelson-dev/keelson/volumemanager/plugins/image"
	"github.com/keelson-dev/keelson/volumemanager/plugins/local"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
	"github.com/keelson-dev/keelson/volumemanager/plugins/subpath"
)

// Options configure Volumes.
type Options struct {
	// Mounter mounts volumes. Defaults to mount.Detect().
	Mounter mount.Mounter
	// Objects provides the ConfigMaps and Secrets of pods. Defaults to nil: pods with such volumes
	// are refused.
	Objects Objects
	// Images provides image volumes. Defaults to nil: pods with such volumes are refused.
	Images Images
	// Plugins adds kinds of volumes to the plugins of this module. Defaults to none.
	Plugins []volumemanager.Plugin
	// Allocatable replaces a missing limit in resourceFieldRef. Its memory is the limit for
	// emptyDirs in memory.
	Allocatable v1.ResourceList
	// Claims finds the persistent volumes of pods. Defaults to nil: pods with a claim are refused.
	Claims volumemanager.Claims
	// Attachments exchanges attached and used volumes with a controller. Defaults to nil: no
	// controller attaches volumes.
	Attachments Attachments
	// Tokens requests service account tokens. Defaults to nil: pods with such volumes are refused.
	Tokens projected.TokenSource
	// Operated is called at the end of every operation on a volume. Defaults to nil.
	Operated func(volumemanager.OperationEnd)
}

// Images provides image volumes. *images.Images implements it.
type Images interface {
	image.Ensurer
	// Mount fills in the mount of the image behind a volumeMount.
	Mount(ctx context.Context, out *runtime.Mount, pod *v1.Pod, at *v1.VolumeMount) error
}

// Objects returns ConfigMaps and Secrets for volumes and environment variables. *objects.Store
// implements Objects; set the Store's option Changed to the agent's Refresh.
type Objects interface {
	configmap.Source
	secret.Source
}

// Registrar is an optional interface of Objects, with which an implementation can watch the objects
// of the node's pods. Register is called before each sync of a pod from an API server. Unregister
// is called when no container of a pod runs and its volumes are unmounted.
type Registrar interface {
	Register(pod *v1.Pod)
	Unregister(uid types.UID)
}

// GroupMapper is an optional interface of a runtime whose containers see other groups than the host.
// FSGroup returns the group of a pod's volumes on the host, nil for none.
type GroupMapper interface {
	FSGroup(pod *v1.Pod) *int64
}

// Volumes provides the volumes of a node's pods. It implements podsync.Volumes.
type Volumes struct {
	*volumemanager.Manager
	host     *feature.Host
	opts     Options
	plugins  []volumemanager.Plugin
	tokens   *projected.TokenCache // nil without Options.Tokens
	reporter *inUse
}

// New returns the Volumes of a host.
func New(h *feature.Host, o Options) (*Volumes, error) {
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	v := &Volumes{host: h, opts: o}
	var err error
	if v.plugins, err = v.newPlugins(); err != nil {
		return nil, err
	}
	subpaths, err := subpath.New(subpath.Options{Mounter: o.Mounter})
	if err != nil {
		return nil, err
	}
	v.reporter = newInUse(v, o.Attachments, h.Log)
	var node volumemanager.Node
	if o.Attachments != nil {
		node = o.Attachments
	}
	var group func(*v1.Pod) *int64
	if m, ok := h.Runtime.(GroupMapper); ok {
		group = m.FSGroup
	}
	v.Manager, err = volumemanager.New(volumemanager.Options{
		FSGroup:  group,
		Node:     node,
		Root:     h.Root,
		Plugins:  v.plugins,
		Claims:   o.Claims,
		Subpaths: subpaths,
		Mounts:   volumemanager.MountTableFunc(v.mountPoints),
		Hooks:    volumemanager.Hooks{OperationEnded: o.Operated, InUseChanged: v.reporter.wanted.Notify},
		Logger:   h.Log,
	})
	return v, err
}

// Feature returns the functions that Volumes adds to the node, besides podsync.Volumes.
func (v *Volumes) Feature() feature.Feature {
	return feature.Feature{Name: "volumes", Check: v.check, Run: v.run, Hook: podsync.Hook{Around: v.register, Release: v.unregister}}
}

// register calls Registrar.Register, except for static pods, which cannot use objects of an API
// server.
func (v *Volumes) register(_ context.Context, req *runtime.SyncRequest) (undo func(), err error) {
	if r, ok := v.opts.Objects.(Registrar); ok && !podconfig.IsStatic(req.Pod) {
		r.Register(req.Pod)
	}
	return nil, nil
}

// unregister calls Registrar.Unregister and drops the pod's tokens from the cache.
func (v *Volumes) unregister(_ context.Context, pod *v1.Pod) error {
	if r, ok := v.opts.Objects.(Registrar); ok {
		r.Unregister(pod.UID)
	}
	if v.tokens != nil {
		v.tokens.Forget(pod.UID)
	}
	return nil
}

// newPlugins constructs a plugin for each kind of volume that the options allow.
func (v *Volumes) newPlugins() (plugins []volumemanager.Plugin, err error) {
	opts := &v.opts
	allocatable := func() v1.ResourceList { return opts.Allocatable }
	memory := func() resource.Quantity { return opts.Allocatable[v1.ResourceMemory] }
	if opts.Allocatable.Memory().IsZero() {
		memory = nil
	}
	add := func(p volumemanager.Plugin, e error) {
		plugins, err = append(plugins, p), errors.Join(err, e)
	}
	add(emptydir.New(emptydir.Options{Mounter: v.opts.Mounter, AllocatableMemory: memory}))
	add(hostpath.New(hostpath.Options{}))
	add(downwardapi.New(downwardapi.Options{Allocatable: allocatable, Mounter: v.opts.Mounter}))
	add(local.New(local.Options{Mounter: v.opts.Mounter}))
	if opts.Images != nil {
		add(image.New(image.Options{Images: opts.Images}))
	}
	if opts.Tokens != nil {
		v.tokens, err = projected.NewTokenCache(projected.TokenCacheOptions{Source: opts.Tokens, Due: func(uid types.UID) {
			v.Manager.Refresh(func(pod *v1.Pod, vol v1.Volume) bool { return pod.UID == uid && mayHaveToken(vol) })
		}})
		if err != nil {
			return nil, err
		}
	}
	projections := projected.Options{Allocatable: allocatable, Mounter: v.opts.Mounter}
	if v.tokens != nil {
		projections.Tokens = v.tokens
	}
	if opts.Objects != nil {
		projections.ConfigMaps, projections.Secrets = opts.Objects, opts.Objects
		add(configmap.New(configmap.Options{Source: opts.Objects, Mounter: v.opts.Mounter}))
		add(secret.New(secret.Options{Source: opts.Objects, Mounter: v.opts.Mounter}))
	}
	add(projected.New(projections))
	return append(plugins, opts.Plugins...), err
}

func (v *Volumes) mountPoints() ([]string, error) {
	mounts, err := v.opts.Mounter.List()
	points := make([]string, 0, len(mounts))
	for _, m := range mounts {
		points = append(points, m.Target)
	}
	return points, err
}

// check returns the volumes that can never be provided on this node.
func (v *Volumes) check(pod *v1.Pod) (refused []string) {
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		path := field.NewPath("spec", "volumes").Index(i)
		_, cannotMount := v.opts.Mounter.(mount.None)
		_, hasImages := v.host.Runtime.(runtime.Images)
		switch claimed := vol.PersistentVolumeClaim != nil || vol.Ephemeral != nil; {
		case claimed && v.opts.Claims == nil:
			refused = append(refused, fmt.Sprintf("%s %q (claims need an API server)", path, vol.Name))
		case claimed:
		case v.pluginOf(vol) == nil:
			refused = append(refused, fmt.Sprintf("%s %q (no such volumes here)", path, vol.Name))
		case vol.EmptyDir != nil && vol.EmptyDir.Medium != v1.StorageMediumDefault && cannotMount:
			refused = append(refused, path.Child("emptyDir", "medium").String()+" (the agent may not mount)")
		case vol.EmptyDir != nil:
			if err := emptydir.CheckMedium(pod, vol.EmptyDir.Medium); err != nil {
				refused = append(refused, fmt.Sprintf("%s (%v)", path.Child("emptyDir", "medium"), err))
			}
		case vol.Image != nil && !hasImages:
			refused = append(refused, fmt.Sprintf("%s (%q: the runtime has no images)", path.Child("image"), vol.Name))
		case vol.Projected != nil:
			refused = append(refused, v.checkSources(vol, path.Child("projected", "sources"))...)
		}
	}
	return refused
}

// checkSources returns the unavailable sources of a projected volume.
func (v *Volumes) checkSources(vol *v1.Volume, path *field.Path) (refused []string) {
	for i := range vol.Projected.Sources {
		s, kind, why := &vol.Projected.Sources[i], "", ""
		switch objects := v.opts.Objects != nil; {
		case s.ConfigMap != nil && !objects:
			kind, why = "configMap", "no such objects here"
		case s.Secret != nil && !objects:
			kind, why = "secret", "no such objects here"
		case s.ServiceAccountToken != nil && v.tokens == nil:
			kind, why = "serviceAccountToken", "tokens need an API server"
		case s.ClusterTrustBundle != nil:
			kind, why = "clusterTrustBundle", "this agent has no trust bundles"
		case s.PodCertificate != nil:
			kind, why = "podCertificate", "this agent has no certificates issued"
		default:
			continue
		}
		refused = append(refused, fmt.Sprintf("%s (%q: %s)", path.Index(i).Child(kind), vol.Name, why))
	}
	return refused
}

func (v *Volumes) pluginOf(vol *v1.Volume) volumemanager.Plugin {
	for _, p := range v.plugins {
		if p.Supports(volumemanager.Spec{Volume: vol}) {
			return p
		}
	}
	return nil
}

// eventFailedMount is the kubelet's event reason for volumes that are not ready.
const eventFailedMount = "FailedMount"

// WaitForAttachAndMount implements podsync.Volumes. A pod with more volumes than can be attached to
// the node is rejected.
func (v *Volumes) WaitForAttachAndMount(ctx context.Context, pod *v1.Pod) error {
	err := v.Manager.WaitForAttachAndMount(ctx, pod)
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	if limit, full := errors.AsType[*volumemanager.AttachLimitError](err); full {
		v.rejectLate(pod, limit.Error())
		return err
	}
	if info, _ := v.host.Workers.Info(pod.UID); info.LastError == nil {
		v.host.Event(pod, v1.EventTypeWarning, eventFailedMount, err.Error())
	}
	return err
}

// run sets up and tears down volumes until ctx ends.
func (v *Volumes) run(ctx context.Context) error {
	var wg sync.WaitGroup
	var tokensErr error
	if v.tokens != nil {
		wg.Go(func() { tokensErr = v.tokens.Run(ctx) })
	}
	wg.Go(func() { v.reporter.run(ctx) })
	err := v.Run(ctx)
	wg.Wait()
	return errors.Join(err, tokensErr)
}

// Mounts returns the mounts for a container's volumeMounts. It fits
// runtime.DefaultGeneratorOptions.Volumes.
func (v *Volumes) Mounts(ctx context.Context, pod *v1.Pod, container *v1.Container) ([]runtime.Mount, error) {
	ready := v.GetMountedVolumesForPod(pod.UID)
	mounts := make([]runtime.Mount, len(container.VolumeMounts))
	for i := range container.VolumeMounts {
		m, out := &container.VolumeMounts[i], &mounts[i]
		out.Name, out.ContainerPath = m.Name, m.MountPath
		var err error
		if mounted, ok := ready[m.Name]; ok && mounted.Path == "" {
			if err = v.opts.Images.Mount(ctx, out, pod, m); err != nil {
				err = fmt.Errorf("volume %q: %w", m.Name, err)
			}
		} else {
			out.HostPath, out.ReadOnly, out.SELinuxRelabel, err = v.MountOf(ctx, pod, container, i)
		}
		if err != nil {
			return nil, fmt.Errorf("volumeMounts[%d]: %w", i, err)
		}
	}
	return mounts, nil
}

// RefreshObject updates the volumes of running pods that use an object. Environment variables keep
// the values from the start of the container.
func (v *Volumes) RefreshObject(r objects.Ref) { v.Refresh(r.UsedBy) }

// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podworkers"
	"github.com/keelson-dev/keelson/runtime"
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

// Objects are where ConfigMaps and Secrets come from, for volumes and for
// environments. *objects.Store is one, with a Changed that calls the agent's
// Refresh.
type Objects interface {
	configmap.Source
	secret.Source
}

// Registrar is what Objects may be, too: told which pods of an API server there
// are, so that it can keep up with what they use. Register is called before each
// sync, Unregister when nothing of the pod is left.
type Registrar interface {
	Register(pod *v1.Pod)
	Unregister(uid types.UID)
}

// register tells a Registrar of a pod. Static pods have their objects elsewhere.
func (a *Agent) register(pod *v1.Pod) {
	if r, ok := a.opts.Objects.(Registrar); ok && !podconfig.IsStatic(pod) {
		r.Register(pod)
	}
}

func (a *Agent) unregister(uid types.UID) {
	if r, ok := a.opts.Objects.(Registrar); ok {
		r.Unregister(uid)
	}
	if a.volumes.tokens != nil {
		a.volumes.tokens.Forget(uid)
	}
}

// volumes is the glue between pods and the volume manager.
type volumes struct {
	*volumemanager.Manager
	agent    *Agent
	plugins  []volumemanager.Plugin
	subpaths *subpath.Subpaths
	tokens   *projected.TokenCache // nil: there are none
	reporter *inUse
	mounter  mount.Mounter
}

func (a *Agent) newVolumes() (*volumes, error) {
	v := &volumes{agent: a, mounter: a.opts.Mounter}
	if v.mounter == nil {
		v.mounter = mount.Detect()
	}
	var err error
	if v.plugins, err = v.newPlugins(); err != nil {
		return nil, err
	}
	if v.subpaths, err = subpath.New(subpath.Options{Mounter: v.mounter}); err != nil {
		return nil, err
	}
	v.reporter = newInUse(v, a.opts.Cluster.Attachments, a.log)
	var node volumemanager.Node
	if a.opts.Cluster.Attachments != nil {
		node = a.opts.Cluster.Attachments
	}
	v.Manager, err = volumemanager.New(volumemanager.Options{
		Pods:        volumePods{a},
		Node:        node,
		Root:        a.opts.Root,
		Plugins:     v.plugins,
		Claims:      a.opts.Cluster.Claims,
		Subpaths:    v.subpaths,
		Mounts:      volumemanager.MountTableFunc(v.mountPoints),
		WaitTimeout: mountPatience,
		Hooks:       volumemanager.Hooks{OperationEnded: a.opts.Observer.VolumeOperated, InUseChanged: v.reporter.poke},
		Logger:      a.log,
	})
	return v, err
}

// newPlugins are the kinds of volume there are.
func (v *volumes) newPlugins() (plugins []volumemanager.Plugin, err error) {
	opts := &v.agent.opts
	allocatable := func() v1.ResourceList { return opts.Allocatable }
	memory := func() resource.Quantity { return opts.Allocatable[v1.ResourceMemory] }
	if opts.Allocatable.Memory().IsZero() {
		memory = nil
	}
	add := func(p volumemanager.Plugin, e error) {
		plugins, err = append(plugins, p), errors.Join(err, e)
	}
	add(emptydir.New(emptydir.Options{Mounter: v.mounter, AllocatableMemory: memory}))
	add(hostpath.New(hostpath.Options{}))
	add(downwardapi.New(downwardapi.Options{Allocatable: allocatable, Mounter: v.mounter}))
	add(local.New(local.Options{Mounter: v.mounter}))
	add(image.New(image.Options{Images: image.EnsurerFunc(v.agent.ensureImage)}))
	if opts.Cluster.Tokens != nil {
		v.tokens, err = projected.NewTokenCache(projected.TokenCacheOptions{Source: opts.Cluster.Tokens, Due: func(uid types.UID) {
			v.Manager.Refresh(func(pod *v1.Pod, vol v1.Volume) bool { return pod.UID == uid && mayHaveToken(vol) })
		}})
		if err != nil {
			return nil, err
		}
	}
	projections := projected.Options{Allocatable: allocatable, Mounter: v.mounter}
	if v.tokens != nil {
		projections.Tokens = v.tokens
	}
	if opts.Objects != nil {
		projections.ConfigMaps, projections.Secrets = opts.Objects, opts.Objects
		add(configmap.New(configmap.Options{Source: opts.Objects, Mounter: v.mounter}))
		add(secret.New(secret.Options{Source: opts.Objects, Mounter: v.mounter}))
	}
	add(projected.New(projections))
	return append(plugins, opts.VolumePlugins...), err
}

func (v *volumes) mountPoints() ([]string, error) {
	mounts, err := v.mounter.List()
	points := make([]string, 0, len(mounts))
	for _, m := range mounts {
		points = append(points, m.Target)
	}
	return points, err
}

// volumePods says which pods are positively gone. The workers know what they
// work on; of others it is known once every source has spoken and the runtime
// has nothing of them.
type volumePods struct{ agent *Agent }

// ShouldPodRuntimeBeRemoved implements volumemanager.Pods.
func (p volumePods) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	a := p.agent
	if _, known := a.workers.Info(uid); known {
		return a.workers.ShouldPodRuntimeBeRemoved(uid)
	}
	if _, wanted := a.pods.get(uid); wanted && !a.pods.isRejected(uid) || !a.readiness.AllReady() {
		return false
	}
	if a.collector.isGone(uid) {
		return a.workers.ShouldPodRuntimeBeRemoved(uid)
	}
	listed, at := a.tracker.Pods()
	for _, pod := range listed {
		if pod.UID == uid && (len(pod.Running()) > 0 || pod.Current() != nil) {
			return false
		}
	}
	return !at.IsZero() && a.workers.ShouldPodRuntimeBeRemoved(uid)
}

// ShouldPodContainersBeTerminating implements volumemanager.Pods.
func (p volumePods) ShouldPodContainersBeTerminating(uid types.UID) bool {
	_, known := p.agent.workers.Info(uid)
	return known && p.agent.workers.ShouldPodContainersBeTerminating(uid)
}

// check lists the volumes of a pod that can never be provided here.
func (v *volumes) check(pod *v1.Pod) (refused []string) {
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		path := field.NewPath("spec", "volumes").Index(i)
		_, cannotMount := v.mounter.(mount.None)
		_, hasImages := v.agent.runtime.(runtime.Images)
		switch claimed := vol.PersistentVolumeClaim != nil || vol.Ephemeral != nil; {
		case claimed && v.agent.opts.Cluster.Claims == nil:
			refused = append(refused, fmt.Sprintf("%s %q (claims need an API server)", path, vol.Name))
		case claimed:
		case v.pluginOf(vol) == nil:
			refused = append(refused, fmt.Sprintf("%s %q (no such volumes here)", path, vol.Name))
		case vol.EmptyDir != nil && vol.EmptyDir.Medium != v1.StorageMediumDefault && cannotMount:
			refused = append(refused, path.Child("emptyDir", "medium").String()+" (the agent may not mount)")
		case vol.Image != nil && !hasImages:
			refused = append(refused, fmt.Sprintf("%s (%q: the runtime has no images)", path.Child("image"), vol.Name))
		case vol.Projected != nil:
			refused = append(refused, v.checkSources(vol, path.Child("projected", "sources"))...)
		}
	}
	return refused
}

// checkSources lists the sources of a projected volume that there are none of here.
func (v *volumes) checkSources(vol *v1.Volume, path *field.Path) (refused []string) {
	for i := range vol.Projected.Sources {
		s, kind, why := &vol.Projected.Sources[i], "", ""
		switch objects := v.agent.opts.Objects != nil; {
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

func (v *volumes) pluginOf(vol *v1.Volume) volumemanager.Plugin {
	for _, p := range v.plugins {
		if p.Supports(volumemanager.Spec{Volume: vol}) {
			return p
		}
	}
	return nil
}

// mountPatience is how long one sync waits for the pod's volumes before it says
// what is missing. They go on being set up.
const mountPatience = 10 * time.Second

// eventFailedMount is the kubelet's reason for volumes that are not ready.
const eventFailedMount = "FailedMount"

// setUp returns when the pod's volumes are ready, and up to date.
func (v *volumes) setUp(ctx context.Context, pod *v1.Pod) error {
	err := v.WaitForAttachAndMount(ctx, pod)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if limit, full := errors.AsType[*volumemanager.AttachLimitError](err); full {
		v.agent.rejectLate(pod, reasonAttachLimit, limit.Error())
		return err
	}
	if v.agent.failures.last(pod.UID) == "" {
		v.agent.opts.Events.Event(reference(pod), v1.EventTypeWarning, eventFailedMount, err.Error())
	}
	if errors.Is(err, volumemanager.ErrTerminal) {
		return err
	}
	return errors.Join(err, podworkers.ErrTransient)
}

// run sets volumes up and takes them down until ctx ends.
func (v *volumes) run(ctx context.Context) error {
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

// mounts resolves a container's volumeMounts; it fits DefaultGenerator.
func (v *volumes) mounts(ctx context.Context, pod *v1.Pod, container *v1.Container) ([]runtime.Mount, error) {
	ready := v.GetMountedVolumesForPod(pod.UID)
	mounts := make([]runtime.Mount, 0, len(container.VolumeMounts))
	for i := range container.VolumeMounts {
		m := &container.VolumeMounts[i]
		mounted, ok := ready[m.Name]
		if !ok {
			return nil, fmt.Errorf("volumeMounts[%d]: volume %q is not there", i, m.Name)
		}
		out := runtime.Mount{
			Name: m.Name, HostPath: mounted.Path, ContainerPath: m.MountPath,
			ReadOnly: m.ReadOnly || mounted.ReadOnly, SELinuxRelabel: mounted.SELinuxRelabel,
		}
		var err error
		switch {
		case mounted.Path == "":
			err = v.agent.asImage(ctx, &out, pod, m)
		case m.SubPath != "":
			out.HostPath, err = v.subpaths.Prepare(ctx, subpath.Request{
				Place:  volumemanager.Place{Root: v.agent.opts.Root, PodUID: pod.UID, Plugin: v.nameOf(pod, m.Name), Inner: mounted.Inner},
				Volume: mounted.Path, SubPath: m.SubPath, Container: container.Name, Index: i,
			})
		default:
			_, err = os.Stat(mounted.Path)
		}
		if err != nil {
			return nil, fmt.Errorf("volumeMounts[%d]: volume %q: %w", i, m.Name, err)
		}
		mounts = append(mounts, out)
	}
	return mounts, nil
}

// nameOf is the name of the plugin behind a volume of the pod; that of a claim is
// not told, and stands for itself.
func (v *volumes) nameOf(pod *v1.Pod, name string) string {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == name {
			if p := v.pluginOf(&pod.Spec.Volumes[i]); p != nil {
				return p.Name()
			}
		}
	}
	return "kubernetes.io/claim"
}

// tearDown returns when nothing of the pod's volumes is left. Nothing of the pod
// runs any more.
func (v *volumes) tearDown(ctx context.Context, uid types.UID) error {
	return v.WaitForUnmount(ctx, uid)
}

// purge removes the pod's folder, when its records are gone too.
func (v *volumes) purge(ctx context.Context, uid types.UID) error {
	return v.CleanupOrphans(ctx, func(other types.UID) bool { return other != uid })
}

// Refresh renews what of an object is in volumes of running pods; it fits
// objects.Options.Changed. Environments keep what they began with.
func (a *Agent) Refresh(r objects.Ref) { a.volumes.Refresh(r.UsedBy) }

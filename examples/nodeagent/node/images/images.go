// SPDX-License-Identifier: Apache-2.0

// Package images protects the images in use by pods, deletes unused images, and provides image
// volumes.
package images

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// GC configures image garbage collection. Images, InUse and Disk are required.
type GC struct {
	Images imagegc.ImageService
	// InUse returns the images of all containers, including containers of other programs. The
	// feature adds the images and image volumes of pods that have not ended.
	InUse  imagegc.InUse
	Disk   imagegc.DiskUsage
	Policy imagegc.Policy
	// Store keeps the ages of images across restarts of the agent. Defaults to none.
	Store imagegc.Store
	// DryRun logs the images that a pass would remove, and removes nothing.
	DryRun bool
	// Interval is the time between two passes. Defaults to the default of package imagegc.
	Interval time.Duration
	// Collected is called after each pass. Defaults to nil.
	Collected func(imagegc.Result)
}

// Options configure Images.
type Options struct {
	// NodeName names the Node in the collector's events. Required.
	NodeName string
	// GC enables image garbage collection. Defaults to nil: images are never deleted.
	GC *GC
	// Removed is called for each removed image. Defaults to nil.
	Removed func(imagegc.Removed)
}

// Images manages the images of a node.
type Images struct {
	host      *feature.Host
	collector *imagegc.Collector // nil: no garbage collection
	told      func(imagegc.Result)
	// volumes maps the references of a pod's image volumes to image IDs. A resolved image is in use
	// at once: before a container mounts the image, and even if the tag moves. The maps are never
	// modified.
	volumes *feature.Slot[map[string]string]
}

// New returns the Images of a host.
func New(h *feature.Host, o Options) (*Images, error) {
	m := &Images{host: h, volumes: feature.NewSlot[map[string]string](h.Table)}
	if o.GC == nil {
		return m, nil
	}
	m.told = o.GC.Collected
	h.HoldImages = func(ctx context.Context, references ...string) (func(), error) {
		held, err := m.hold(ctx, references...)
		return held.release, err
	}
	var used imagegc.InUse // nil: an error of imagegc.New
	if o.GC.InUse != nil {
		used = inUse{o.GC.InUse, m}
	}
	var err error
	m.collector, err = imagegc.New(imagegc.Options{
		Images: o.GC.Images, InUse: used, Disk: o.GC.Disk,
		Policy: o.GC.Policy, DryRun: o.GC.DryRun, Store: o.GC.Store, Interval: o.GC.Interval,
		OnRemoved: o.Removed,
		OnPass:    func(r imagegc.Result, _ error) { m.collected(r) }, // the collector has logged the error
		Events: imagegc.EventFunc(func(eventType, reason, message string) {
			h.Events.Event(feature.NodeReference(o.NodeName), eventType, reason, message)
		}),
		Logger: h.Log,
	})
	return m, err
}

// Feature returns the functions that Images adds to the node.
func (m *Images) Feature() feature.Feature {
	f := feature.Feature{Name: "images", Hook: podsync.Hook{Around: m.keep}}
	if m.collector != nil {
		f.Run = m.collect
	}
	return f
}

// RemoveUnused removes every image that is neither in use nor too young, however empty the disk is.
// Without Options.GC no image is removed.
func (m *Images) RemoveUnused(ctx context.Context) error {
	if m.collector == nil {
		return nil
	}
	result, err := m.collector.DeleteUnusedImages(ctx)
	m.collected(result)
	return err
}

// maxNames is the highest number of names per image in the Node status, as in the kubelet.
const maxNames = 5

// List returns the images on the node in the form of the Node status. The list is as old as the
// collector's last pass. It is empty without Options.GC.
func (m *Images) List() (all []v1.ContainerImage) {
	if m.collector == nil {
		return nil
	}
	for _, i := range m.collector.GetImageList() {
		names := slices.Concat(i.RepoDigests, i.RepoTags)
		all = append(all, v1.ContainerImage{Names: names[:min(len(names), maxNames)], SizeBytes: int64(i.Size)})
	}
	return all
}

// sourcesPatience is how long garbage collection waits for the sources' first pods. The limit
// exists because the disk may fill up meanwhile.
const sourcesPatience = 2 * time.Minute

// collect runs the collector until ctx ends. It first waits for the sources: image ages survive a
// restart, so an image of a pod that has not been listed yet would be old and unused.
func (m *Images) collect(ctx context.Context) error {
	select {
	case <-m.host.Sourced:
	case <-time.After(sourcesPatience):
	case <-ctx.Done():
	}
	return m.collector.Run(ctx)
}

// inUse is the InUse of a node: the images of containers are in use, and the images of pods are
// wanted.
type inUse struct {
	containers imagegc.InUse
	images     *Images
}

// ImagesInUse implements imagegc.InUse.
func (u inUse) ImagesInUse(ctx context.Context) ([]string, error) {
	names, err := u.containers.ImagesInUse(ctx)
	if err != nil {
		return nil, fmt.Errorf("images of containers: %w", err)
	}
	return names, nil
}

// ImagesWanted implements imagegc.Wanted. A pod that is to start has no container yet. Its images are
// kept, because the node may be unable to pull again. After leaving its source, a pod keeps volumes
// until the pod has ended.
func (u inUse) ImagesWanted(context.Context) (names []string, err error) {
	h := u.images.host
	for _, pod := range h.AdmittedPods() {
		if !podfacts.IsTerminal(h.Status(pod).Phase) {
			names = append(names, ofContainers(pod)...)
		}
	}
	for _, pod := range slices.Concat(h.DesiredPods(), h.Sync.All()) {
		names = append(names, ofVolumes(pod)...)
		names = slices.AppendSeq(names, maps.Values(u.images.volumes.Get(pod.UID)))
	}
	return append(names, h.KeptImages()...), nil
}

// held protects images from garbage collection until release. The zero value is used without a
// collector.
type held struct {
	lease *imagegc.Lease
	// found tells the collector the image ID of a reference. It fits runtime.ImageFound.
	found runtime.ImageFound
}

func (h held) release() {
	if h.lease != nil {
		h.lease.Release()
	}
}

// hold protects the images of the references, including images to which a reference is resolved
// later.
func (m *Images) hold(ctx context.Context, references ...string) (held, error) {
	if m.collector == nil {
		return held{}, nil
	}
	lease, err := m.collector.Hold(ctx, references...)
	if err != nil {
		return held{}, err
	}
	return held{lease, func(ctx context.Context, _, id string) (bool, error) { return lease.Resolved(ctx, id) }}, nil
}

// keep protects a pod's images from garbage collection during a sync, from the check for an image
// to the creation of its container.
func (m *Images) keep(ctx context.Context, req *runtime.SyncRequest) (undo func(), err error) {
	images, err := m.hold(ctx, slices.Concat(ofContainers(req.Pod), ofVolumes(req.Pod))...)
	req.ImageFound = images.found
	return images.release, err
}

// ofContainers returns the image references of a pod's containers.
func ofContainers(pod *v1.Pod) (references []string) {
	for c := range podfacts.AllContainers(&pod.Spec) {
		references = append(references, c.Image)
	}
	return slices.DeleteFunc(references, func(r string) bool { return r == "" })
}

// ofVolumes returns the references of a pod's image volumes.
func ofVolumes(pod *v1.Pod) (references []string) {
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil && image.Reference != "" {
			references = append(references, image.Reference)
		}
	}
	return references
}

// collected logs the removed images of a pass, or the plan of a dry run, and tells of the pass.
func (m *Images) collected(r imagegc.Result) {
	if m.told != nil {
		m.told(r)
	}
	if r.DryRun && len(r.Plan.Remove) > 0 {
		m.host.Log.Info("images would be removed", zap.String("plan", r.Plan.String()))
	}
	for _, removed := range r.Removed {
		m.host.Log.Info("image removed", zap.String("image", removed.Image.Name()), zap.String("reason", string(removed.Reason)))
	}
}

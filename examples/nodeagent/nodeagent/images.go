// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/runtime"
)

// ImageGC says how images are collected. Images, InUse and Disk are required.
type ImageGC struct {
	Images imagegc.ImageService
	// InUse is what containers have, also those of others than this agent. What
	// pods that are not over are to run, and mount as volumes, is added.
	InUse  imagegc.InUse
	Disk   imagegc.DiskUsage
	Policy imagegc.Policy
	// Store keeps ages over a restart. Defaults to none.
	Store imagegc.Store
	// DryRun logs what would be removed, and removes nothing.
	DryRun bool
	// Interval is the time between two collections. Defaults to imagegc's.
	Interval time.Duration
}

// newImages is nil where images are not the agent's concern.
func (a *Agent) newImages() (*imagegc.Collector, error) {
	o := a.opts.ImageGC
	if o == nil {
		return nil, nil
	}
	return imagegc.New(imagegc.Options{
		Images: o.Images, InUse: a.inUse(), Disk: o.Disk,
		Policy: o.Policy, DryRun: o.DryRun, Store: o.Store, Interval: o.Interval,
		OnRemoved: a.opts.Observer.ImageRemoved,
		OnPass:    func(r imagegc.Result, _ error) { a.imagesCollected(r) }, // it has logged its error
		Events: imagegc.EventFunc(func(eventType, reason, message string) {
			a.opts.Events.Event(nodeReference(a.opts.NodeName), eventType, reason, message)
		}),
		Logger: a.log,
	})
}

// maxImageNames is how many names of an image a node's status has, as in the
// kubelet.
const maxImageNames = 5

// Images are those on the node, as a node's status lists them; none without
// Options.ImageGC. They are as old as the last look of the collector.
func (a *Agent) Images() (all []v1.ContainerImage) {
	if a.images == nil {
		return nil
	}
	for _, i := range a.images.GetImageList() {
		names := slices.Concat(i.RepoDigests, i.RepoTags)
		all = append(all, v1.ContainerImage{Names: names[:min(len(names), maxImageNames)], SizeBytes: int64(i.Size)})
	}
	return all
}

// sourcesPatience is how long images are left alone because it is not known yet
// what is to run. A disk may be filling up meanwhile.
const sourcesPatience = 2 * time.Minute

// collectImages collects until ctx ends, but not before the sources have spoken:
// with ages that survive a restart, images of pods that are to start would be old
// enough to go, and not in use yet.
func (a *Agent) collectImages(ctx context.Context) error {
	timer := time.NewTimer(sourcesPatience)
	defer timer.Stop()
	select {
	case <-a.sourced:
	case <-timer.C:
	case <-ctx.Done():
	}
	return a.images.Run(ctx)
}

// noteSourced is the loop's.
func (a *Agent) noteSourced() {
	select {
	case <-a.sourced:
	default:
		if a.readiness.AllReady() {
			close(a.sourced)
		}
	}
}

// inUse adds to what containers have what pods mount as volumes.
func (a *Agent) inUse() imagegc.InUse {
	if a.opts.ImageGC.InUse == nil {
		return nil // imagegc says so
	}
	return imagegc.InUseFunc(func(ctx context.Context) ([]string, error) {
		names, err := a.opts.ImageGC.InUse.ImagesInUse(ctx)
		if err != nil {
			return nil, fmt.Errorf("images of containers: %w", err)
		}
		// What is to start needs its images, too, though it has no container yet: the
		// node may not be able to pull them again.
		for _, pod := range a.pods.all() {
			if !a.pods.isRejected(pod.UID) && !isOver(a.statuses.get(pod).Phase) {
				names = append(names, containerImages(pod)...)
			}
		}
		// Pods that have left their source have their volumes until they have ended.
		return append(names, a.volumeImages.inUse(slices.Concat(a.pods.all(), a.statuses.all()))...), nil
	})
}

// held keeps images from being collected until release. The zero value keeps
// nothing: nobody collects.
type held struct {
	lease *imagegc.Lease
	// found tells the collector which image a reference is; it fits
	// runtime.ImageFound.
	found runtime.ImageFound
}

func (h held) release() {
	if h.lease != nil {
		h.lease.Release()
	}
}

// holdImages keeps what the references mean, and come to mean.
func (a *Agent) holdImages(ctx context.Context, references ...string) (held, error) {
	if a.images == nil {
		return held{}, nil
	}
	lease, err := a.images.Hold(ctx, references...)
	if err != nil {
		return held{}, err
	}
	return held{lease, func(ctx context.Context, _, id string) (bool, error) { return lease.Resolved(ctx, id) }}, nil
}

// hold keeps a pod's images from being collected while it is synced: between the
// look for an image and the container that uses it.
func (a *Agent) hold(ctx context.Context, pod *v1.Pod) (held, error) {
	references := containerImages(pod)
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			references = append(references, image.Reference)
		}
	}
	return a.holdImages(ctx, references...)
}

// containerImages are the references of what a pod runs.
func containerImages(pod *v1.Pod) (references []string) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			references = append(references, list[i].Image)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		references = append(references, pod.Spec.EphemeralContainers[i].Image)
	}
	return slices.DeleteFunc(references, func(r string) bool { return r == "" })
}

// imagesCollected logs a pass that did, or would do, something.
func (a *Agent) imagesCollected(r imagegc.Result) {
	if r.DryRun && len(r.Plan.Remove) > 0 {
		a.log.Info("images would be removed", zap.String("plan", r.Plan.String()))
	}
	for _, removed := range r.Removed {
		a.log.Info("image removed", zap.String("image", removed.Image.Name()), zap.String("reason", string(removed.Reason)))
	}
}

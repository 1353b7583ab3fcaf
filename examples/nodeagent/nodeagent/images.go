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
)

// ImageGC says how images are collected. Images, InUse and Disk are required.
type ImageGC struct {
	Images imagegc.ImageService
	// InUse is what containers have, also those of others than this agent. What
	// pods mount as volumes is added.
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
		OnPass:    func(r imagegc.Result, err error) { a.imagesCollected(r, err) },
		Events: imagegc.EventFunc(func(eventType, reason, message string) {
			a.opts.Events.Event(&v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: a.opts.NodeName}, eventType, reason, message)
		}),
		Logger: a.log,
	})
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
		// Pods that have left their source have their volumes until they have ended.
		for _, pod := range slices.Concat(a.pods.all(), a.statuses.all()) {
			for i := range pod.Spec.Volumes {
				if image := pod.Spec.Volumes[i].Image; image != nil && image.Reference != "" {
					names = append(names, image.Reference)
				}
			}
		}
		return names, nil
	})
}

// hold keeps a pod's images from being collected while it is synced: between the
// look for an image and the container that uses it.
func (a *Agent) hold(ctx context.Context, pod *v1.Pod) (release func(), err error) {
	if a.images == nil {
		return func() {}, nil
	}
	var references []string
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			references = append(references, list[i].Image)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		references = append(references, pod.Spec.EphemeralContainers[i].Image)
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			references = append(references, image.Reference)
		}
	}
	lease, err := a.images.Hold(ctx, references...)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

// imagesCollected logs a pass that did, or would do, something.
func (a *Agent) imagesCollected(r imagegc.Result, err error) {
	if r.DryRun && len(r.Plan.Remove) > 0 {
		a.log.Info("images would be removed", zap.String("plan", r.Plan.String()))
	}
	for _, removed := range r.Removed {
		a.log.Info("image removed", zap.String("image", removed.Image.Name()), zap.String("reason", string(removed.Reason)))
	}
	if err != nil {
		a.log.Warn("images were not collected as wanted", zap.Error(err))
	}
}

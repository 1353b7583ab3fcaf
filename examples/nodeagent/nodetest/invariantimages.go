// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// images checks that no image is removed while a container has it or is being created with it. No
// container is created without its image. No present image is pulled, unless the pull policy of a
// pod requires a pull.
func (c *checker) images() {
	manifests := c.manifests()
	always := func(image string) bool {
		for _, pods := range manifests {
			for _, pod := range pods {
				for _, own := range allContainers(pod) {
					if own.Image == image && own.ImagePullPolicy != v1.PullIfNotPresent {
						return true
					}
				}
			}
		}
		return false
	}
	for _, e := range c.h.Images {
		switch {
		case e.What == ImageRemoved && len(e.Users) > 0:
			c.violate(e.At, "image %s is removed, and in use by %s", e.Image, e.Users)
		case e.What == ImageMissing:
			c.violate(e.At, "a container is created with image %s, which is not here", e.Image)
		case e.What == ImageAgain && !always(e.Image) && !c.cameForAnother(e):
			c.violate(e.At, "image %s is pulled, and has been here since %.3fs", e.Image, e.Since.Seconds())
		}
	}
}

// cameForAnother reports whether an image arrived by a pull of an agent that had crashed. The next agent had seen no
// image then, and its pull may have waited for other pulls.
func (c *checker) cameForAnother(e ImageEvent) bool {
	return slices.ContainsFunc(c.h.Images, func(o ImageEvent) bool {
		return o.Image == e.Image && o.What == ImagePulled && o.At == e.Since && c.agentBetween(o.Began, o.At)
	})
}

// pulledAgain checks on a peaceful node that a container with the policy Always pulls its image
// before each creation.
func (p *peace) pulledAgain(r *run) {
	if r.life < 0 || len(p.h.Images) == 0 {
		return
	}
	for _, c := range allContainers(p.lastManifest(r.uid, r.life)) {
		if c.Name != r.name || c.ImagePullPolicy != v1.PullAlways || c.Image != r.image {
			continue
		}
		if !slices.ContainsFunc(p.h.Images, func(e ImageEvent) bool {
			return e.Image == r.image && (e.What == ImagePulled || e.What == ImageAgain) && e.At <= r.created && e.At >= r.created-soon
		}) {
			p.violate(r.created, "%s (%s/%s) is created, and its image was not pulled before", r.id, r.uid, r.name)
		}
	}
}

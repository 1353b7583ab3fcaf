// SPDX-License-Identifier: Apache-2.0

// Package image is for image volumes: the files of an OCI image, read-only. The container runtime mounts them; the
// plugin sees to it that the image is there.
//
//	plugin, err := image.New(image.Options{Images: image.EnsurerFunc(pull)})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duties:
//
//  1. Pull by the volume's own policy, with the pod's credentials.
//  2. Give the container runtime the image (CRI: Mount.image, image_sub_path) where Mounted.Path is "".
//  3. Keep the image from being collected while the pod lives.
//
// A backend that cannot mount images is wired with no plugin at all, or with None: pods that want one get an error.
//
// Nothing is made on the node, there is no goroutine. Differences from the kubelet (1.36): the image is made sure of
// once per set-up and not on each sync, so that there is one event instead of one per second (issue 138655); a volume
// found after a restart needs no spec to be torn down, and is not pulled again while its image is here.
package image

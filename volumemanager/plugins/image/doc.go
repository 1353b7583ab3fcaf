// SPDX-License-Identifier: Apache-2.0

// Package image implements image volumes: the files of an OCI image, read-only. The container
// runtime mounts the images; the plugin only makes sure that they are pulled.
//
//	plugin, err := image.New(image.Options{Images: image.EnsurerFunc(pull)})
//	manager, err := volumemanager.New(volumemanager.Options{…, Plugins: []volumemanager.Plugin{plugin}})
//
// The caller's duties:
//
//  1. Pull by the volume's own policy, with the pod's credentials.
//  2. Pass the image to the container runtime (CRI: Mount.image, image_sub_path) if Mounted.Path is
//     "".
//  3. Protect the image from garbage collection while the pod lives.
//
// For a backend that cannot mount images, omit the plugin, or use None: then a pod with an image
// volume gets an error.
//
// The plugin creates no file and starts no goroutine. Differences from the kubelet (1.36): the
// image is ensured in each set-up instead of each sync, which sends a single event instead of an
// event per second (issue 138655). A volume found after a restart is torn down without a spec, and
// its image is not pulled again while present.
package image

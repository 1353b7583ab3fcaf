// SPDX-License-Identifier: Apache-2.0

// Package imagegctest simulates the images of a node in memory for tests of image collectors: a
// disk, images with shared layers, containers, a registry and faults.
//
//	node := imagegctest.New(100 << 30)
//	node.Add(imagegctest.Image{Tags: []string{"app:1"}, Layers: map[string]uint64{"base": 1 << 30, "app:1": 1 << 20}})
//	gc, err := imagegc.New(imagegc.Options{Images: node, InUse: node, Disk: node})
//	node.Run("web", "app:1")
//	…
//	assert.Empty(t, node.Violations())
//
// A Node behaves like containerd. RemoveImage removes an image even if a container uses it, and
// frees the layers used by no other image. Create fails for an absent image. Violations lists every
// wrong removal.
//
// A Node does not emulate handlers, pull progress, or writes to the disk except by Fill.
package imagegctest

// SPDX-License-Identifier: Apache-2.0

// Package imagegctest is a node's images in memory, for tests of what collects them: a disk, images that share layers,
// containers that use them, a registry to pull from, and faults.
//
//	node := imagegctest.New(100 << 30)
//	node.Add(imagegctest.Image{Tags: []string{"app:1"}, Layers: map[string]uint64{"base": 1 << 30, "app:1": 1 << 20}})
//	gc, err := imagegc.New(imagegc.Options{Images: node, InUse: node, Disk: node})
//	node.Run("web", "app:1")
//	…
//	assert.Empty(t, node.Violations())
//
// It behaves as containerd does: RemoveImage removes an image that a container uses without a word, and frees the layers
// that no other image has; a container cannot be created from an image that is not there. Violations tells of every
// removal that no collector should have asked for.
//
// It does not emulate handlers, pull progress, or a disk that others write to, but for Fill.
package imagegctest

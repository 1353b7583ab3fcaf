// SPDX-License-Identifier: Apache-2.0

// Package tree removes and walks folders writable by containers. It never follows a link and never enters another
// mount, not even a bind mount of the same disk, and not even if a container renames files meanwhile.
//
// A call holds at most MaxDescriptors file descriptors, at any depth of the tree, and needs no path longer than one
// name.
package tree

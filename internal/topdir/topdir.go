// SPDX-License-Identifier: Apache-2.0

// Package topdir tells a file system that the children of a folder do not belong together, as chattr +T does.
//
// ext2, ext3 and ext4 place a new folder near its parent, so all pods of a node end up in the same group of inodes. A
// burst of pods then queues for the lock of the group. An ext4 without a journal is slower still: for each new file
// ext4 skips, one by one, the inodes of the group that were deleted during the last minutes. With the flag on their
// parent, the folders of pods are spread over the disk, and the content of each folder stays together.
package topdir

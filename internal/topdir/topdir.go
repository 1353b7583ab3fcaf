// SPDX-License-Identifier: Apache-2.0

// Package topdir tells a file system that what is in a folder does not belong together, as chattr +T does.
//
// ext2, ext3 and ext4 put a new folder near its parent, so that all pods of a node end up in one group of inodes. A burst
// of pods then queues for the lock of that group, and an ext4 without a journal is slower still: for each new file it
// skips, one by one, the inodes of the group that were deleted during the last minutes. With the flag on their parent, the
// folders of pods are spread over the disk, and what is in one stays together.
package topdir

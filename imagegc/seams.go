// SPDX-License-Identifier: Apache-2.0

package imagegc

import "context"

// The collector makes one call at a time to each seam, except that ListImages may be called beside the others. Every
// call has a deadline (Options.CallTimeout) and is to heed its ctx. No lock is held.

// ImageService is the runtime's images.
type ImageService interface {
	// ListImages returns every image there is, or an error: never a part of them. The slice and what is in it become
	// the collector's.
	ListImages(context.Context) ([]Image, error)
	// RemoveImage removes an image with all its names. One that is not there is no error. When it returns, the image
	// is gone and its space given back, or is whole and stays.
	RemoveImage(context.Context, Image) error
}

// InUse tells which images are needed by what exists.
type InUse interface {
	// ImagesInUse returns names of the image of every container, running or not, and of every image that is mounted
	// as a volume. Name what is known of each: its ID if there is one, and a reference; what matches no image does no
	// harm. It must be read from the runtime after the call began: a cache that lags loses images. A container that
	// vanishes meanwhile is no error. An image about which nothing is known is the name "", and then no image is
	// removed.
	ImagesInUse(context.Context) ([]string, error)
}

// InUseFunc is a function that is an InUse.
type InUseFunc func(context.Context) ([]string, error)

// ImagesInUse calls f.
func (f InUseFunc) ImagesInUse(ctx context.Context) ([]string, error) { return f(ctx) }

// DiskUsage measures the file system that images are on. Package statfs has one.
type DiskUsage interface {
	// ImageFS returns how many bytes the file system has and how many are left, as they are now: it is asked after
	// every removal whether that was enough. What the file system reserves is not left. More left than there are
	// counts as all of them.
	ImageFS(context.Context) (capacity, available uint64, err error)
}

// DiskUsageFunc is a function that is a DiskUsage.
type DiskUsageFunc func(context.Context) (capacity, available uint64, err error)

// ImageFS calls f.
func (f DiskUsageFunc) ImageFS(ctx context.Context) (capacity, available uint64, err error) {
	return f(ctx)
}

// Store keeps records while no collector runs, so that ages survive a restart. Package recordfile has one.
type Store interface {
	// Load returns what was saved last; nothing if that is nothing.
	Load(context.Context) ([]Record, error)
	// Save replaces what was saved. It must not keep the slice.
	Save(context.Context, []Record) error
}

// EventSink receives events about the node. It must not block.
type EventSink interface {
	// Event reports; eventType is v1.EventTypeWarning for all events of this package.
	Event(eventType, reason, message string)
}

// EventFunc is a function that is an EventSink.
type EventFunc func(eventType, reason, message string)

// Event calls f.
func (f EventFunc) Event(eventType, reason, message string) { f(eventType, reason, message) }

// Reasons of events, with the kubelet's words.
const (
	EventImageGCFailed       = "ImageGCFailed"       // Run's collection failed twice in a row, or more often
	EventFreeDiskSpaceFailed = "FreeDiskSpaceFailed" // what was removed was not enough
	EventInvalidDiskCapacity = "InvalidDiskCapacity" // DiskUsage says that there is no disk
	EventInvalidImageID      = "InvalidImageID"      // an image without an ID
)

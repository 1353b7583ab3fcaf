// SPDX-License-Identifier: Apache-2.0

package imagegc

import "context"

// The collector makes a single call at a time to all seams, except that ListImages may run beside
// the other calls. Every call has a deadline (CallTimeout) and must respect its ctx. No
// lock is held.

// ImageService lists and removes the runtime's images.
type ImageService interface {
	// ListImages returns every present image or an error, never a partial list. The collector owns
	// the slice and its contents.
	ListImages(context.Context) ([]Image, error)
	// RemoveImage removes an image with all its names. An absent image is no error. On return,
	// either the image is gone and its space is freed, or the image is intact.
	RemoveImage(context.Context, Image) error
}

// InUse reports the images in use.
type InUse interface {
	// ImagesInUse returns names of the image of every container, running or not, and of every image
	// mounted as a volume. For each image return all known names: its ID, if known, and a
	// reference. A name without a matching image is harmless. Read the names from the runtime after
	// the call began: a lagging cache loses images. A container that vanishes meanwhile is no
	// error. Report a used image without a known name as ""; then no image is removed.
	ImagesInUse(context.Context) ([]string, error)
}

// Wanted is an optional interface of an InUse for images that are kept although no container uses
// them yet.
type Wanted interface {
	// ImagesWanted returns names of images that are needed later, for example by pods that have not
	// started. A wanted image may be absent. The collector calls ImagesWanted after ImagesInUse, so that
	// the result includes the images of pods that were added during ImagesInUse.
	ImagesWanted(context.Context) ([]string, error)
}

// InUseFunc adapts a function to InUse.
type InUseFunc func(context.Context) ([]string, error)

// ImagesInUse calls f.
func (f InUseFunc) ImagesInUse(ctx context.Context) ([]string, error) { return f(ctx) }

// DiskUsage measures the file system of the images. Package statfs implements it.
type DiskUsage interface {
	// ImageFS returns the current capacity and available bytes of the file system. It is called
	// after every removal. Reserved blocks are not available. An available value above capacity
	// counts as capacity.
	ImageFS(context.Context) (capacity, available uint64, err error)
}

// Store keeps records across a restart. Package recordfile implements it.
type Store interface {
	// Load returns the records of the last Save, or none before the first Save.
	Load(context.Context) ([]Record, error)
	// Save replaces the saved records. It must not keep the slice.
	Save(context.Context, []Record) error
}

// EventSink receives events about the node. It must not block.
type EventSink interface {
	// Event sends an event. eventType is v1.EventTypeWarning for all events of this package.
	Event(eventType, reason, message string)
}

// EventFunc adapts a function to EventSink.
type EventFunc func(eventType, reason, message string)

// Event calls f.
func (f EventFunc) Event(eventType, reason, message string) { f(eventType, reason, message) }

// Reasons of events, as in the kubelet.
const (
	eventImageGCFailed       = "ImageGCFailed"       // at least two collections of Run in a row failed
	eventFreeDiskSpaceFailed = "FreeDiskSpaceFailed" // the removals did not free enough
	eventInvalidDiskCapacity = "InvalidDiskCapacity" // DiskUsage reports a capacity of 0
	eventInvalidImageID      = "InvalidImageID"      // an image without an ID
)

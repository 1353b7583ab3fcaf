// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"errors"
	"fmt"
	"time"
)

// ErrInvalidCapacity says that DiskUsage reports a file system without any capacity.
var ErrInvalidCapacity = errors.New("imagegc: invalid capacity 0 on image file system")

// Result is what a pass has done.
type Result struct {
	Started, Ended time.Time
	Plan           Decisions // as decided before the first removal
	DryRun         bool      // nothing else happened

	Removed []Removed // in the order of removal
	Kept    []Kept    // what stays, and why, as seen last
	// Freed is by how many bytes the space available has grown, 0 if it has shrunk. It is what the file system says:
	// others write to it, too.
	Freed uint64
	// Sizes are those of the images removed, in bytes; more than Freed if they shared layers with others.
	Sizes uint64
	// UsagePercent is how full the image file system was at the end; 0 if that is not known.
	UsagePercent int
	// RetryAt is when the first image that was too young is old enough, if more is wanted than was freed; else zero.
	RetryAt time.Time
}

// Removed is an image that was removed.
type Removed struct {
	Removal
	At time.Time // when it was gone
}

// NotEnoughError says that the image file system is still too full: nothing that may go is left, or what went freed
// nothing.
type NotEnoughError struct {
	Wanted, Freed uint64 // bytes
	UsagePercent  int    // at the end
	Capacity      uint64 // bytes
	// Stalled: images that should have been enough went, and the last few changed nothing on the disk. Either it frees
	// late, or DiskUsage looks at the wrong one; images that may go were left.
	Stalled bool
}

func (e *NotEnoughError) Error() string {
	if e.Stalled {
		return fmt.Sprintf("the image file system is %d %% full of %s: wanted to free %s by removing images, but the last ones removed did not change how full it is; "+
			"is it the file system that images are on?", e.UsagePercent, formatBytes(e.Capacity), formatBytes(e.Wanted))
	}
	return fmt.Sprintf("the image file system is %d %% full of %s: wanted to free %s by removing images, freed %s, and no other may be removed; "+
		"look at what else is on it: logs, volumes, images in use", e.UsagePercent, formatBytes(e.Capacity), formatBytes(e.Wanted), formatBytes(e.Freed))
}

// RemoveError says that an image could not be removed.
type RemoveError struct {
	Image Image
	Err   error // the runtime's
}

func (e *RemoveError) Error() string {
	return fmt.Sprintf("remove image %s (%s): %v", e.Image.Name(), e.Image.ID, e.Err)
}

// Unwrap returns the runtime's error.
func (e *RemoveError) Unwrap() error { return e.Err }

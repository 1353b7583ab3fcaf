// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"errors"
	"fmt"
	"time"
)

// ErrInvalidCapacity means that DiskUsage reported a capacity of 0 bytes.
var ErrInvalidCapacity = errors.New("imagegc: invalid capacity 0 on image file system")

// Result is the outcome of a pass.
type Result struct {
	Started, Ended time.Time
	Plan           Decisions // the plan before the first removal
	DryRun         bool      // only the plan was made

	Removed []Removed // in the order of removal
	Kept    []Kept    // kept images and their reasons at the end, sorted by name
	// Present are the images present after the last removal, nil if unknown or DryRun. A caller with
	// data per image, such as pull records, uses Present to clean up: drop a record that is older than
	// Started if its image is not in Present.
	Present []Image
	// Freed is the growth of the available space in bytes, 0 if the space has shrunk. Writes by
	// other processes count. Freed is Sizes if the disk could not be measured at the start or at the
	// end.
	Freed uint64
	// Sizes is the sum of the sizes of the removed images in bytes. Images with shared layers free
	// less than Sizes.
	Sizes uint64
	// UsagePercent is the usage of the image file system at the end, 0 if unknown.
	UsagePercent int
	// RetryAt is the time at which the first image kept as too young is old enough. It is zero
	// unless the pass freed too little.
	RetryAt time.Time
}

// Removed is an image that was removed.
type Removed struct {
	Removal
	At time.Time // time after the removal
}

// NotEnoughError means that the image file system is still too full: no removable image is left, or
// the removals freed no space.
type NotEnoughError struct {
	Wanted, Freed uint64 // bytes
	UsagePercent  int    // at the end
	Capacity      uint64 // bytes
	// Stalled means that removed images should have been enough by their sizes, but the last
	// removals did not change the disk usage. Either the disk frees space late, or DiskUsage
	// measures the wrong disk. Removable images were left.
	Stalled bool
}

func (e *NotEnoughError) Error() string {
	if e.Stalled {
		return fmt.Sprintf("the image file system is %d %% full of %s: wanted to free %s by removing images, but the last ones removed did not change how full it is; "+
			"is it the file system that images are on?", e.UsagePercent, formatBytes(e.Capacity), formatBytes(e.Wanted))
	}
	return fmt.Sprintf("the image file system is %d %% full of %s: wanted to free %s by removing images, freed %s, and no other may be removed; "+
		"look for other data on it: logs, volumes, images in use", e.UsagePercent, formatBytes(e.Capacity), formatBytes(e.Wanted), formatBytes(e.Freed))
}

// RemoveError means that the removal of an image failed.
type RemoveError struct {
	Image Image
	Err   error // the error of the runtime
}

func (e *RemoveError) Error() string {
	return fmt.Sprintf("remove image %s (%s): %v", e.Image.Name(), e.Image.ID, e.Err)
}

// Unwrap returns the runtime's error.
func (e *RemoveError) Unwrap() error { return e.Err }

// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors for contradictory answers of the seams. No image is removed after such an answer.
var (
	// ErrUnknownImageInUse means that InUse reported an image without a name.
	ErrUnknownImageInUse = errors.New("imagegc: an image without a name is in use")
	// ErrImplausibleList means that ListImages returned no image although ImagesInUse reports some.
	ErrImplausibleList = errors.New("imagegc: no image is listed although images are in use")
)

// StoreError means that ages do not survive a restart. The pass continues.
type StoreError struct {
	Op  string // "load" or "save"
	Err error  // the error of the Store
}

func (e *StoreError) Error() string { return fmt.Sprintf("%s image records: %v", e.Op, e.Err) }

// Unwrap returns the Store's error.
func (e *StoreError) Unwrap() error { return e.Err }

// saveInterval is the interval between saves if only times of use change. An agent crash may lose
// the last use of an image by up to this duration.
const saveInterval = time.Hour

// sight is the result of inspecting the node.
type sight struct {
	at     time.Time
	images []Image // without duplicates
	states []ImageState
	open   bool // a held reference matches no image
}

// Detect updates the ages of images by listing the present images and the images in use. Run calls
// it.
func (c *Collector) Detect(ctx context.Context) error {
	if err := c.takeTurn(ctx); err != nil {
		return err
	}
	defer c.returnTurn()
	loadErr := c.load(ctx)
	_, err := c.inspect(ctx)
	if err != nil {
		return errors.Join(loadErr, err)
	}
	return errors.Join(loadErr, c.save(ctx))
}

// RefreshImageList lists images for GetImageList. Run calls it. Call it after a pull if the node
// status must show the image at once.
func (c *Collector) RefreshImageList(ctx context.Context) error {
	_, err := c.list(ctx)
	return err
}

// GetImageList returns the last listed images in the order of the node status: the biggest first,
// then by descending ID. It returns nil before the first list. The slice is shared and must not be
// modified.
func (c *Collector) GetImageList() []Image {
	if list := c.listed.Load(); list != nil {
		return *list
	}
	return nil
}

func (c *Collector) list(ctx context.Context) ([]Image, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	list, err := c.opts.Images.ListImages(ctx)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	list = merge(list)
	c.listed.Store(&list)
	return list, nil
}

// inUse returns the names of the images in use and of the wanted images, and the number of names in
// use, 0 with an error.
func (c *Collector) inUse(ctx context.Context) (*names, int, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	list, err := c.opts.InUse.ImagesInUse(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("list images in use: %w", err)
	}
	used := new(names)
	for _, name := range list {
		if name == "" {
			return nil, 0, ErrUnknownImageInUse
		}
		used.add(name)
	}
	wanted, ok := c.opts.InUse.(Wanted)
	if !ok {
		return used, len(list), nil
	}
	names, err := wanted.ImagesWanted(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("list wanted images: %w", err)
	}
	for _, name := range names {
		used.add(name)
	}
	return used, len(list), nil
}

// listAll lists the images before the images in use. An image pulled in between is thus no
// candidate for removal.
func (c *Collector) listAll(ctx context.Context) ([]Image, *names, error) {
	images, err := c.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	c.holds.dropEnded()
	used, count, err := c.inUse(ctx)
	if len(images) == 0 && count > 0 {
		err = ErrImplausibleList
	}
	return images, used, err
}

// inspect lists the node's images and updates their ages. The caller holds the turn.
func (c *Collector) inspect(ctx context.Context) (*sight, error) {
	images, used, err := c.listAll(ctx)
	if errors.Is(err, ErrImplausibleList) {
		images, used, err = c.listAll(ctx) // the only image may have arrived in between
	}
	if err != nil {
		return nil, err
	}
	s := &sight{at: time.Now(), images: images}
	s.states, s.open = c.holds.inspect(images, used)
	var changed bool
	c.ages, changed = c.ages.next(images, func(i int) bool { return s.states[i].UsedAs != "" || s.states[i].HeldAs != "" }, s.at)
	c.unsaved = c.unsaved || changed
	for i := range images {
		s.states[i].Record = c.ages[images[i].key()].Record
	}
	return s, nil
}

// load reads the records of an earlier collector once.
func (c *Collector) load(ctx context.Context) error {
	if c.loaded || c.opts.Store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	records, err := c.opts.Store.Load(ctx)
	if err != nil && context.Cause(ctx) != nil {
		return &StoreError{Op: "load", Err: err} // the next pass tries again
	}
	c.loaded = true
	c.ages = restore(records, time.Now())
	if err != nil {
		return &StoreError{Op: "load", Err: err}
	}
	return nil
}

// save writes the records if they have changed, or if saveInterval has passed. Without a Store, no
// records are loaded.
func (c *Collector) save(ctx context.Context) error {
	now := time.Now()
	if c.opts.DryRun || !c.loaded || !c.unsaved && now.Sub(c.saved) < saveInterval {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if err := c.opts.Store.Save(ctx, c.ages.records(now)); err != nil {
		return &StoreError{Op: "save", Err: err}
	}
	c.unsaved, c.saved = false, now
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that say that what the seams tell cannot be relied upon. Nothing is removed then.
var (
	// ErrUnknownImageInUse says that something uses an image of which InUse knows no name.
	ErrUnknownImageInUse = errors.New("imagegc: an image without a name is in use")
	// ErrImplausibleList says that no image was listed although some are in use.
	ErrImplausibleList = errors.New("imagegc: no image is listed although images are in use")
)

// StoreError says that ages do not survive a restart. It does not keep a pass from doing its work.
type StoreError struct {
	Op  string // "load" or "save"
	Err error  // the Store's
}

func (e *StoreError) Error() string { return fmt.Sprintf("%s image records: %v", e.Op, e.Err) }

// Unwrap returns the Store's error.
func (e *StoreError) Unwrap() error { return e.Err }

// saveInterval is how often records are saved if nothing but times of use changes: as far as the last use of an image
// may be forgotten when the agent dies.
const saveInterval = time.Hour

// sight is what one look has shown.
type sight struct {
	at     time.Time
	images []Image // without duplicates
	states []ImageState
	open   bool // something is held that is not there
}

// Detect looks which images are there and which are in use, so that ages are known when they matter. Run does it.
func (c *Collector) Detect(ctx context.Context) error {
	if err := c.take(ctx); err != nil {
		return err
	}
	defer c.give()
	loadErr := c.load(ctx)
	_, err := c.look(ctx)
	if err != nil {
		return errors.Join(loadErr, err)
	}
	return errors.Join(loadErr, c.save(ctx))
}

// RefreshImageList lists images for GetImageList. Run does it; call it when an image was pulled and the node's status
// is to say so at once.
func (c *Collector) RefreshImageList(ctx context.Context) error {
	_, err := c.list(ctx)
	return err
}

// GetImageList returns the images that were listed last, the biggest first and then by ID, backwards, as the node's
// status has them. It is nil before the first list. The slice is shared: do not write to it.
func (c *Collector) GetImageList() []Image {
	if list := c.listed.Load(); list != nil {
		return *list
	}
	return nil
}

func (c *Collector) list(ctx context.Context) ([]Image, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	list, err := c.opts.Images.ListImages(ctx)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	list = merge(list)
	c.listed.Store(&list)
	return list, nil
}

func (c *Collector) inUse(ctx context.Context) (*names, int, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
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
	return used, len(list), nil
}

// ask lists first the images and then what is in use: an image that appears in between is not up for removal.
func (c *Collector) ask(ctx context.Context) ([]Image, *names, error) {
	images, err := c.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	c.holds.looking()
	used, count, err := c.inUse(ctx)
	if err == nil && len(images) == 0 && count > 0 {
		err = ErrImplausibleList
	}
	return images, used, err
}

// look finds out what there is. The turn is the caller's.
func (c *Collector) look(ctx context.Context) (*sight, error) {
	images, used, err := c.ask(ctx)
	if errors.Is(err, ErrImplausibleList) {
		images, used, err = c.ask(ctx) // the only image may have come in between
	}
	if err != nil {
		return nil, err
	}
	s := &sight{at: time.Now(), images: images}
	s.states, s.open = c.holds.look(images, used)
	var changed bool
	c.ages, changed = c.ages.next(images, func(i int) bool { return s.states[i].UsedAs != "" || s.states[i].HeldAs != "" }, s.at)
	c.unsaved = c.unsaved || changed
	for i := range images {
		s.states[i].Record = c.ages[images[i].key()].Record
	}
	return s, nil
}

// load reads the records of an earlier collector, once.
func (c *Collector) load(ctx context.Context) error {
	if c.loaded || c.opts.Store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	records, err := c.opts.Store.Load(ctx)
	if err != nil && context.Cause(ctx) != nil {
		return &StoreError{Op: "load", Err: err} // it may be there the next time
	}
	c.loaded = true
	c.ages = restore(records, time.Now())
	if err != nil {
		return &StoreError{Op: "load", Err: err}
	}
	return nil
}

// save writes the records if the next collector would otherwise be misled.
func (c *Collector) save(ctx context.Context) error {
	now := time.Now()
	if c.opts.Store == nil || c.opts.DryRun || !c.loaded || !c.unsaved && now.Sub(c.saved) < saveInterval {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	if err := c.opts.Store.Save(ctx, c.ages.records(now)); err != nil {
		return &StoreError{Op: "save", Err: err}
	}
	c.unsaved, c.saved = false, now
	return nil
}

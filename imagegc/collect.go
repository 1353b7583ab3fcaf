// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// batchSize is the number of removals between two reads of the images in use.
	batchSize = 8
	// patience is the number of removals in a row without effect on the disk after which a pass
	// stops. It counts removals after the sizes of removed images add up to the wanted bytes.
	patience = 8
)

// GarbageCollect removes images idle for longer than Policy.MaxAge. If the usage of the image file
// system has reached HighPercent, it removes further images, the longest idle first, until
// LowPercent is reached. The usage is measured after every removal. The images in use and held are
// read again every few removals.
//
// After a failure the pass continues with the remaining work. The error joins all failures:
// *RemoveError for each image, *NotEnoughError if the disk is still too full, *StoreError,
// ErrInvalidCapacity, and the errors of the seams. After an error of ImageService.ListImages, InUse
// or DiskUsage no further image is removed.
func (c *Collector) GarbageCollect(ctx context.Context) (Result, error) {
	return c.collect(ctx, GoalThreshold)
}

// DeleteUnusedImages removes every image except images in use, held, pinned, protected or too
// young, at any disk usage. The kubelet calls it under disk pressure, after removing containers.
// The error is like GarbageCollect's, except that a failed measurement of the disk is no error.
func (c *Collector) DeleteUnusedImages(ctx context.Context) (Result, error) {
	return c.collect(ctx, GoalUnused)
}

// Plan returns the decisions of a pass without removing any image. The decisions are valid even
// with a *StoreError, which means that ages may be wrong.
func (c *Collector) Plan(ctx context.Context, goal Goal) (Decisions, error) {
	if err := c.takeTurn(ctx); err != nil {
		return Decisions{}, err
	}
	defer c.returnTurn()
	p := &pass{c: c, goal: goal}
	err := p.prepare(ctx)
	return p.result.Plan, errors.Join(append(p.errs, err)...)
}

func (c *Collector) collect(ctx context.Context, goal Goal) (Result, error) {
	if err := c.takeTurn(ctx); err != nil {
		return Result{}, err
	}
	p := &pass{c: c, goal: goal, tried: make(map[string]Kept)}
	err := p.run(ctx)
	c.returnTurn()
	c.opts.OnPass(p.result, err)
	return p.result, err
}

// pass is one collection.
type pass struct {
	c      *Collector
	goal   Goal
	result Result
	sight  *sight // nil if the inspection failed
	now    Decisions

	tried    map[string]Kept // images not to be tried again, by key; KeepReason is empty for a removed image
	errs     []error
	capacity uint64
	before   uint64 // available bytes at the start, if begun
	begun    bool   // the disk was measured at the start
	left     uint64 // available bytes now
	most     uint64 // most available bytes so far
	measured bool
	idle     int // removals since most was reached
	stalled  bool
}

func (p *pass) run(ctx context.Context) error {
	p.result.DryRun = p.c.opts.DryRun
	err := p.prepare(ctx)
	p.errs = append(p.errs, err)
	switch {
	case p.result.DryRun:
		p.result.Kept = p.now.Keep
	case err == nil:
		p.removeBatches(ctx)
		fallthrough
	case p.sight != nil:
		p.conclude(ctx)
	}
	p.result.Ended = time.Now()
	return errors.Join(p.errs...)
}

// prepare inspects the images, measures the disk and plans.
func (p *pass) prepare(ctx context.Context) error {
	p.result.Started = time.Now()
	p.errs = append(p.errs, p.c.load(ctx))
	s, err := p.c.inspect(ctx)
	if err != nil {
		return err
	}
	p.sight = s
	if err := p.measure(ctx); err != nil && p.goal == GoalThreshold {
		return err
	}
	p.before, p.most, p.begun = p.left, p.left, p.measured
	p.decide()
	p.result.Plan = p.now
	return nil
}

// decide plans with the last inspection, without the tried images.
func (p *pass) decide() {
	in := PlanInput{
		Goal: p.goal, Policy: p.c.opts.Policy, Now: p.sight.at,
		Capacity: p.capacity, Available: p.left, Target: p.result.Plan.Target, Images: p.sight.states,
	}
	if len(p.tried) > 0 {
		in.Images = make([]ImageState, 0, len(p.sight.states))
		for _, s := range p.sight.states {
			if _, tried := p.tried[s.Image.key()]; !tried {
				in.Images = append(in.Images, s)
			}
		}
	}
	p.now = Plan(in)
}

// measure reads the capacity and the available bytes of the disk.
func (p *pass) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	capacity, available, err := p.c.opts.Disk.ImageFS(ctx)
	switch {
	case err != nil:
		err = fmt.Errorf("measure image file system: %w", err)
	case capacity == 0:
		err = ErrInvalidCapacity
	}
	p.measured = err == nil
	p.capacity, p.left = capacity, min(available, capacity)
	return err
}

// removeBatches removes images in batches until the goal is reached, and inspects the images after
// every batch.
func (p *pass) removeBatches(ctx context.Context) {
	for p.removeBatch(ctx) {
		s, err := p.c.inspect(ctx)
		if err != nil {
			p.errs = append(p.errs, err)
			return
		}
		p.sight = s
		p.decide()
	}
}

// removeBatch removes a few images and reports whether work remains.
func (p *pass) removeBatch(ctx context.Context) (more bool) {
	size := batchSize
	if p.sight.open {
		// An image being pulled may be a listed image under a new name.
		size = 1
	}
	for _, removals := range [][]Removal{p.now.Remove, p.now.Spare} {
		for _, r := range removals {
			if p.enough(r) {
				return false
			}
			if size == 0 {
				return true
			}
			if ctx.Err() != nil {
				p.errs = append(p.errs, context.Cause(ctx))
				return false
			}
			size--
			if !p.remove(ctx, r) {
				continue
			}
			if err := p.measure(ctx); err != nil && p.goal == GoalThreshold {
				p.errs = append(p.errs, err)
				return false
			}
			p.progress()
		}
	}
	return false
}

// enough reports whether neither r nor any later removal is needed.
func (p *pass) enough(r Removal) bool {
	if r.Reason != ReasonSpace {
		return false
	}
	if p.left >= p.now.Target {
		return true
	}
	p.stalled = p.idle >= patience && p.result.Sizes >= p.result.Plan.Wanted
	return p.stalled
}

// progress counts the removals without effect on the disk.
func (p *pass) progress() {
	p.idle++
	if p.left > p.most {
		p.most, p.idle = p.left, 0
	}
}

// remove removes an image unless it is held now, and reports whether the image is gone.
func (p *pass) remove(ctx context.Context, r Removal) bool {
	k := r.Image.key()
	claim, heldAs := p.c.holds.claim(&r.Image)
	if claim == nil {
		p.tried[k] = Kept{Image: r.Image, Reason: KeepHeld, Detail: heldAs}
		return false
	}
	callCtx, cancel := context.WithTimeout(ctx, CallTimeout)
	err := p.c.opts.Images.RemoveImage(callCtx, r.Image)
	cancel()
	p.c.holds.settleClaim(claim)
	if err != nil {
		p.tried[k] = Kept{Image: r.Image, Reason: KeepFailed}
		p.errs = append(p.errs, &RemoveError{Image: r.Image, Err: err})
		return false
	}
	p.tried[k] = Kept{}
	removed := Removed{Removal: r, At: time.Now()}
	p.result.Removed = append(p.result.Removed, removed)
	p.result.Sizes += r.Image.Size
	p.c.opts.OnRemoved(removed)
	return true
}

// conclude completes the result, sends events and saves the ages.
func (p *pass) conclude(ctx context.Context) {
	p.fillResult(ctx)
	p.sendEvents()
	if ctx.Err() != nil {
		return
	}
	var err error
	p.result.Present = p.sight.images
	if len(p.tried) > 0 {
		p.result.Present, err = p.c.list(ctx)
	}
	p.errs = append(p.errs, err, p.c.save(ctx))
}

// fillResult fills in the result.
func (p *pass) fillResult(ctx context.Context) {
	r := &p.result
	if p.measured {
		r.UsagePercent = usagePercent(p.capacity, p.left)
	}
	r.Freed = r.Sizes
	if p.measured && p.begun {
		r.Freed = p.left - min(p.left, p.before)
	}
	r.Kept = append(r.Kept, p.now.Keep...)
	for _, removals := range [][]Removal{p.now.Remove, p.now.Spare} {
		for _, removal := range removals {
			if _, tried := p.tried[removal.Image.key()]; !tried && ctx.Err() == nil {
				r.Kept = append(r.Kept, Kept{Image: removal.Image, Reason: KeepNotNeeded})
			}
		}
	}
	for _, kept := range p.tried {
		if kept.Reason != "" {
			r.Kept = append(r.Kept, kept)
		}
	}
	sortKept(r.Kept)
	if !p.measured || ctx.Err() != nil || p.left >= r.Plan.Target {
		return
	}
	p.errs = append(p.errs, &NotEnoughError{
		Wanted: r.Plan.Wanted, Freed: r.Freed, UsagePercent: r.UsagePercent, Capacity: p.capacity, Stalled: p.stalled,
	})
	for _, kept := range r.Kept {
		if kept.Reason == KeepTooYoung && (r.RetryAt.IsZero() || kept.Until.Before(r.RetryAt)) {
			r.RetryAt = kept.Until
		}
	}
}

// sendEvents sends the pass's events for the node's operator.
func (p *pass) sendEvents() {
	for _, kept := range p.result.Plan.Keep {
		if kept.Reason == KeepNoID {
			p.c.opts.Events.Event(v1.EventTypeWarning, eventInvalidImageID, "The runtime reports an image without an ID: "+kept.Image.Name())
		}
	}
	for _, err := range p.errs {
		if shortage, ok := errors.AsType[*NotEnoughError](err); ok {
			p.c.opts.Events.Event(v1.EventTypeWarning, eventFreeDiskSpaceFailed, shortage.Error())
		}
		if errors.Is(err, ErrInvalidCapacity) {
			p.c.opts.Events.Event(v1.EventTypeWarning, eventInvalidDiskCapacity, err.Error())
		}
	}
}

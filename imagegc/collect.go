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
	// batchSize is how many images are removed between two looks at what is in use.
	batchSize = 8
	// patience is how many images in a row may go, beyond those whose sizes should have been enough, without the disk
	// showing any of it.
	patience = 8
)

// GarbageCollect removes images that are idle for longer than Policy.MaxAge, and if the image file system is fuller than
// HighPercent more, the longest idle first, until what is left of it says that LowPercent is reached: it is measured
// after every removal. What is in use and held is looked at anew every few images.
//
// One failure does not keep the rest from being done; the error joins them all: *RemoveError for each image,
// *NotEnoughError if the disk is still too full, *StoreError, ErrInvalidCapacity, and those of the seams. After an error
// of ImageService.ListImages, InUse or DiskUsage nothing more is removed.
func (c *Collector) GarbageCollect(ctx context.Context) (Result, error) {
	return c.collect(ctx, GoalThreshold)
}

// DeleteUnusedImages removes every image that is not in use, held, pinned, protected or too young, however full the disk
// is. It is for those who have to have space: the kubelet calls it under disk pressure, once containers were removed. The
// error is as GarbageCollect's, but that the disk cannot be measured is none: Result.Freed is what sizes say then.
func (c *Collector) DeleteUnusedImages(ctx context.Context) (Result, error) {
	return c.collect(ctx, GoalUnused)
}

// Plan returns what a pass would decide now, and removes nothing. With a *StoreError, which says that ages are not what
// they could be, it has decided all the same.
func (c *Collector) Plan(ctx context.Context, goal Goal) (Decisions, error) {
	if err := c.take(ctx); err != nil {
		return Decisions{}, err
	}
	defer c.give()
	p := &pass{c: c, goal: goal}
	err := p.begin(ctx)
	return p.result.Plan, errors.Join(append(p.errs, err)...)
}

func (c *Collector) collect(ctx context.Context, goal Goal) (Result, error) {
	if err := c.take(ctx); err != nil {
		return Result{}, err
	}
	p := &pass{c: c, goal: goal, tried: make(map[string]Kept)}
	err := p.run(ctx)
	c.give()
	c.opts.OnPass(p.result, err)
	return p.result, err
}

// pass is one collection.
type pass struct {
	c      *Collector
	goal   Goal
	result Result
	sight  *sight // nil if nothing was seen
	now    Decisions

	tried    map[string]Kept // what is not tried again, by key; a KeepReason if it stays
	errs     []error
	capacity uint64
	before   uint64 // available at first
	left     uint64 // available now
	most     uint64 // available at best
	measured bool
	idle     int // removals since then
	stalled  bool
}

func (p *pass) run(ctx context.Context) error {
	p.result.DryRun = p.c.opts.DryRun
	err := p.begin(ctx)
	p.errs = append(p.errs, err)
	switch {
	case p.result.DryRun:
		p.result.Kept = p.now.Keep
	case err == nil:
		p.work(ctx)
		fallthrough
	case p.sight != nil:
		p.end(ctx)
	}
	p.result.Ended = time.Now()
	return errors.Join(p.errs...)
}

// begin looks, measures and decides.
func (p *pass) begin(ctx context.Context) error {
	p.result.Started = time.Now()
	p.errs = append(p.errs, p.c.load(ctx))
	s, err := p.c.look(ctx)
	if err != nil {
		return err
	}
	p.sight = s
	if err := p.measure(ctx); err != nil && p.goal == GoalThreshold {
		return err
	}
	p.before, p.most = p.left, p.left
	p.decide()
	p.result.Plan = p.now
	return nil
}

// decide plans with what was seen last, without what was tried.
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

// measure finds out how much is left.
func (p *pass) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.c.opts.CallTimeout)
	defer cancel()
	capacity, available, err := p.c.opts.Disk.ImageFS(ctx)
	switch {
	case err != nil:
		err = fmt.Errorf("measure image file system: %w", err)
	case capacity == 0:
		err = ErrInvalidCapacity
	}
	p.measured = err == nil
	if err == nil {
		p.capacity, p.left = capacity, min(available, capacity)
	}
	return err
}

// work removes until enough is done, and looks again after every batch.
func (p *pass) work(ctx context.Context) {
	for p.batch(ctx) {
		s, err := p.c.look(ctx)
		if err != nil {
			p.errs = append(p.errs, err)
			return
		}
		p.sight = s
		p.decide()
	}
}

// batch removes a few images and reports whether there is more to do.
func (p *pass) batch(ctx context.Context) (more bool) {
	size := batchSize
	if p.sight.open {
		// What is being pulled may turn out to be an image that is here under another name.
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

// enough reports whether r need not go any more, nor what comes after it.
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

// progress takes note of whether the last removal shows.
func (p *pass) progress() {
	p.idle++
	if p.left > p.most {
		p.most, p.idle = p.left, 0
	}
}

// remove removes one image unless it is held by now, and reports whether it is gone.
func (p *pass) remove(ctx context.Context, r Removal) bool {
	k := r.Image.key()
	claim, heldAs := p.c.holds.claim(&r.Image)
	if claim == nil {
		p.tried[k] = Kept{Image: r.Image, Reason: KeepHeld, Detail: heldAs}
		return false
	}
	callCtx, cancel := context.WithTimeout(ctx, p.c.opts.CallTimeout)
	err := p.c.opts.Images.RemoveImage(callCtx, r.Image)
	cancel()
	p.c.holds.settle(claim)
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

// end says what has come of it, to everybody who has to know.
func (p *pass) end(ctx context.Context) {
	p.sum(ctx)
	p.tell()
	if ctx.Err() != nil {
		return
	}
	present, err := p.sight.images, error(nil)
	if len(p.tried) > 0 {
		present, err = p.c.list(ctx)
	}
	if err == nil {
		err = p.c.opts.AfterGC(ctx, present, p.result.Started)
	}
	p.errs = append(p.errs, err, p.c.save(ctx))
}

// sum fills in the result.
func (p *pass) sum(ctx context.Context) {
	r := &p.result
	if p.measured {
		r.UsagePercent = usagePercent(p.capacity, p.left)
		r.Freed = p.left - min(p.left, p.before)
	} else if p.goal == GoalUnused {
		r.Freed = r.Sizes
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
	if p.goal != GoalThreshold || !p.measured || ctx.Err() != nil || p.left >= r.Plan.Target {
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

// tell sends events about what whoever looks after the node should know.
func (p *pass) tell() {
	for _, kept := range p.result.Plan.Keep {
		if kept.Reason == KeepNoID {
			p.c.opts.Events.Event(v1.EventTypeWarning, EventInvalidImageID, "The runtime reports an image without an ID: "+kept.Image.Name())
		}
	}
	for _, err := range p.errs {
		if err == nil {
			continue
		}
		if shortage, ok := errors.AsType[*NotEnoughError](err); ok {
			p.c.opts.Events.Event(v1.EventTypeWarning, EventFreeDiskSpaceFailed, shortage.Error())
		}
		if errors.Is(err, ErrInvalidCapacity) {
			p.c.opts.Events.Event(v1.EventTypeWarning, EventInvalidDiskCapacity, err.Error())
		}
	}
}

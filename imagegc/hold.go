// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// ErrReleased is what a Lease says when it was released before.
var ErrReleased = errors.New("imagegc: the lease was released")

// Lease keeps images from being removed, from before somebody looks whether they are there until what uses them can be
// seen (InUse). It is safe for concurrent use.
type Lease struct {
	holds *holds
	since time.Time
	// The rest is guarded by the lock of holds.
	names    names
	began    uint64            // up to which removal nobody looked
	agreed   map[string]uint64 // by ID that Resolved was told: up to which removal it is clear
	released bool
}

// Hold keeps every image that has one of the references from being removed, until the lease is released. It holds what
// the references mean now and what they come to mean: a tag that moves is held on both images. Call it before you look
// for the images, or pull them; a removal of one of them that is under way is waited for, so that what you see then is
// true until the release. References are what containers are specified by, or IDs; the empty one means nothing.
//
// Release the lease once the containers are created, or will not be: what holds nothing back for good costs nothing.
// The error is the cause of ctx having ended while it waited; then nothing is held.
//
// Two references can lead to one image, which the collector cannot know before the second is pulled. Resolved closes
// that gap.
func (c *Collector) Hold(ctx context.Context, references ...string) (*Lease, error) {
	l := &Lease{holds: &c.holds, since: time.Now(), agreed: make(map[string]uint64)}
	for _, reference := range references {
		l.names.add(reference)
	}
	if err := l.holds.await(ctx, l.holds.begin(l)); err != nil {
		l.Release()
		return nil, fmt.Errorf("hold images %q: %w", references, err)
	}
	l.holds.begun(l)
	return l, nil
}

// Resolved tells which image a reference of the lease turned out to be, by its ID, and holds that, too. It reports
// whether the image is there: false means that it was removed, or its removal began, after Hold and before the
// collector could know that it was wanted; pull it, and call Resolved again. Errors are ErrReleased and that of a ctx
// that ends while a removal is waited for; then the image is held all the same.
func (l *Lease) Resolved(ctx context.Context, id string) (bool, error) {
	busy, err := l.holds.extend(l, id)
	if err != nil {
		return false, err
	}
	if err := l.holds.await(ctx, busy); err != nil {
		return false, fmt.Errorf("hold image %q: %w", id, err)
	}
	return l.holds.agree(l, id), nil
}

// Release ends the lease. A second call does nothing.
func (l *Lease) Release() { l.holds.release(l) }

// holds are all leases, and the removals they have to do with.
type holds struct {
	mu struct {
		sync.Mutex
		leases map[*Lease]struct{}
		// ended are leases released during a pass: the list of what is in use may be older than their containers.
		ended  []*Lease
		passes int // under way
		claims map[*claim]struct{}
		// removals that have been tried while somebody held something, the newest last.
		removals []attempt
		clock    uint64  // counts them
		known    []Image // what was listed last
	}
}

// claim is the right to remove an image. While there is one, nobody's Hold of it returns.
type claim struct {
	image *Image
	done  chan struct{}
}

type attempt struct {
	image *Image
	at    uint64
}

// begin makes l count, and returns the removals that it has to wait for.
func (h *holds) begin(l *Lease) []*claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.leases == nil {
		h.mu.leases = make(map[*Lease]struct{})
	}
	h.mu.leases[l] = struct{}{}
	l.began = h.mu.clock
	// What a reference means now stays held even if a tag moves on.
	for i := range h.mu.known {
		if image := &h.mu.known[i]; l.names.find(image) != "" {
			l.names.addID(image.ID)
		}
	}
	return h.busy(&l.names)
}

// begun is said when the caller may look: what was removed before, he sees.
func (h *holds) begun(l *Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.began = h.mu.clock
}

// busy returns the removals under way of images that have one of the names. The lock is held.
func (h *holds) busy(n *names) (out []*claim) {
	for c := range h.mu.claims {
		if n.find(c.image) != "" {
			out = append(out, c)
		}
	}
	return out
}

func (h *holds) await(ctx context.Context, busy []*claim) error {
	for _, c := range busy {
		select {
		case <-c.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// extend makes l hold an image by its ID, and returns the removals that it has to wait for.
func (h *holds) extend(l *Lease, id string) ([]*claim, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.released {
		return nil, ErrReleased
	}
	l.names.add(id)
	var image names
	image.add(id)
	return h.busy(&image), nil
}

// agree reports whether nobody tried to remove an image since l knew that it was there. It is held by now, so that what
// is true stays true.
func (h *holds) agree(l *Lease, id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	since, again := l.agreed[id]
	if !again {
		since = l.began
	}
	l.agreed[id] = h.mu.clock
	var image names
	image.add(id)
	return !slices.ContainsFunc(h.mu.removals, func(a attempt) bool {
		return a.at > since && image.find(a.image) != ""
	})
}

func (h *holds) release(l *Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.released {
		return
	}
	l.released = true
	delete(h.mu.leases, l)
	if h.mu.passes > 0 {
		h.mu.ended = append(h.mu.ended, l)
	}
	oldest := h.mu.clock
	for other := range h.mu.leases {
		oldest = min(oldest, other.began)
	}
	h.mu.removals = slices.DeleteFunc(h.mu.removals, func(a attempt) bool { return a.at <= oldest })
}

// startPass, endPass: between them leases that are released still count, until the next look.
func (h *holds) startPass() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.passes++
}

func (h *holds) endPass() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.passes--
	h.mu.ended = nil
}

// looking is said before the runtime is asked what is in use: what leases that ended by now were for, it knows.
func (h *holds) looking() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.ended = nil
}

// counting are the leases that hold something back. The lock is held.
func (h *holds) counting() []*Lease {
	return slices.AppendSeq(slices.Clone(h.mu.ended), maps.Keys(h.mu.leases))
}

// holder is a lease that has a form of a name, and the name.
type holder struct {
	lease *Lease
	name  string
}

// look takes in a new list and returns what is known of its images: by what name they are used and held. open reports
// whether something is held that is not there (yet). The lock is not held while all of them are compared.
func (h *holds) look(images []Image, used *names) (states []ImageState, open bool) {
	holders := make(map[string][]holder) // by form of a name
	either := names{short: used.short}   // what an image may be known by
	h.mu.Lock()
	h.mu.known = images
	for _, l := range h.counting() {
		either.short = either.short || l.names.short
		for form, name := range l.names.keys {
			holders[form] = append(holders[form], holder{l, name})
		}
	}
	h.mu.Unlock()

	states = make([]ImageState, len(images))
	found := make(map[string]bool)
	means := make(map[*Lease][]string)
	var buffer []string
	for i := range images {
		s := &states[i]
		s.Image = images[i]
		buffer = either.forms(buffer[:0], &images[i])
		s.UsedAs = used.findForm(buffer)
		if len(holders) == 0 {
			continue
		}
		for _, form := range buffer {
			for _, x := range holders[form] {
				found[form] = true
				if s.HeldAs == "" || x.name < s.HeldAs {
					s.HeldAs = x.name
				}
				means[x.lease] = append(means[x.lease], s.Image.ID)
			}
		}
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	open = slices.ContainsFunc(h.counting(), func(l *Lease) bool { return l.open(found) })
	for l, ids := range means {
		for _, id := range ids {
			l.names.addID(id)
		}
	}
	return states, open
}

// open reports whether one of the references had none of its forms found.
func (l *Lease) open(found map[string]bool) bool {
	missing := make(map[string]bool)
	for form, reference := range l.names.keys {
		was, known := missing[reference]
		missing[reference] = !found[form] && (was || !known)
	}
	return slices.Contains(slices.Collect(maps.Values(missing)), true)
}

// claim takes the right to remove image, or returns the name by which it is held.
func (h *holds) claim(image *Image) (c *claim, heldAs string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.mu.leases {
		if name := l.names.find(image); name != "" {
			return nil, name
		}
	}
	for _, l := range h.mu.ended {
		if name := l.names.find(image); name != "" {
			return nil, name
		}
	}
	c = &claim{image: image, done: make(chan struct{})}
	if h.mu.claims == nil {
		h.mu.claims = make(map[*claim]struct{})
	}
	h.mu.claims[c] = struct{}{}
	return c, ""
}

// settle ends a claim: the removal was tried, whatever came of it.
func (h *holds) settle(c *claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.claims, c)
	h.mu.clock++
	if len(h.mu.leases) > 0 {
		h.mu.removals = append(h.mu.removals, attempt{c.image, h.mu.clock})
	}
	close(c.done)
}

// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// ErrReleased is returned by methods of a released Lease.
var ErrReleased = errors.New("imagegc: the lease was released")

// Lease keeps images from being removed between the check for their presence and the creation of
// their containers, which InUse then reports. It is safe for concurrent use.
type Lease struct {
	holds *holds
	// The lock of holds guards the following fields.
	names    names
	began    uint64            // the number of removal attempts when Hold returned
	agreed   map[string]uint64 // by image ID: the number of removal attempts at the last Resolved
	released bool
}

// Hold keeps every image with one of the references from being removed until the lease is released.
// It covers the image of a reference now and later: if a tag moves, both images are held. Call Hold
// before checking for or pulling the images. Hold waits for a running removal of a matching image,
// so that the result of a later check stays true until the release. A reference is an image name
// from a container spec or an image ID; an empty reference matches no image.
//
// Release the lease after the containers are created or given up. Hold returns an error only if ctx
// ends while it waits for a removal; the error is the cause, and no image is held.
//
// Two references can lead to the same image, which the collector learns only after the pull of the
// second. Resolved closes this gap.
func (c *Collector) Hold(ctx context.Context, references ...string) (*Lease, error) {
	l := &Lease{holds: &c.holds, agreed: make(map[string]uint64)}
	for _, reference := range references {
		l.names.add(reference)
	}
	if err := l.holds.register(l).await(ctx); err != nil {
		l.Release()
		return nil, fmt.Errorf("hold images %q: %w", references, err)
	}
	l.holds.markStart(l)
	return l, nil
}

// Resolved adds an image to the lease by its ID, after a reference of the lease has led to the
// image. It returns false if a removal of the image was attempted since Hold or the last Resolved
// of the image. Then pull the image and call Resolved again. The error is ErrReleased for a
// released lease, or the cause of ctx if ctx ends while Resolved waits for a running removal. In
// the latter case the image is held nevertheless.
func (l *Lease) Resolved(ctx context.Context, id string) (bool, error) {
	busy, err := l.holds.extend(l, id)
	if err != nil {
		return false, err
	}
	if err := busy.await(ctx); err != nil {
		return false, fmt.Errorf("hold image %q: %w", id, err)
	}
	return l.holds.confirm(l, id), nil
}

// Release ends the lease. A second call does nothing.
func (l *Lease) Release() { l.holds.release(l) }

// holds keeps all leases and the removals relevant to them.
type holds struct {
	mu struct {
		sync.Mutex
		leases map[*Lease]struct{}
		// ended are leases released during a pass. They still count, because the list of images in
		// use may be older than their containers.
		ended  []*Lease
		passes int    // running passes
		claim  *claim // the running removal; passes wait for each other
		// removals are the attempts during any lease, the newest last.
		removals []attempt
		clock    uint64  // number of removal attempts
		known    []Image // the last image list
	}
}

// claim is the right to remove an image. While a claim exists, no Hold of its image returns.
type claim struct {
	image *Image
	done  chan struct{}
}

type attempt struct {
	image *Image
	at    uint64
}

// register adds l and returns the running removal of one of its images.
func (h *holds) register(l *Lease) *claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.leases == nil {
		h.mu.leases = make(map[*Lease]struct{})
	}
	h.mu.leases[l] = struct{}{}
	l.began = h.mu.clock
	// The current image of a reference stays held even if its tag moves.
	for i := range h.mu.known {
		if image := &h.mu.known[i]; l.names.find(image) != "" {
			l.names.addID(image.ID)
		}
	}
	return h.removalOf(&l.names)
}

// markStart sets the removal number from which Resolved counts. The caller's view of the images is
// at least as new.
func (h *holds) markStart(l *Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.began = h.mu.clock
}

// removalOf returns the running removal if its image has a name in n, or nil. The caller holds the
// lock.
func (h *holds) removalOf(n *names) *claim {
	if c := h.mu.claim; c != nil && n.find(c.image) != "" {
		return c
	}
	return nil
}

// await waits for the end of a running removal, if not nil.
func (c *claim) await(ctx context.Context) error {
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// extend adds an image ID to l and returns the running removal of the image.
func (h *holds) extend(l *Lease, id string) (*claim, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.released {
		return nil, ErrReleased
	}
	l.names.add(id)
	var image names
	image.add(id)
	return h.removalOf(&image), nil
}

// confirm reports whether no removal of the image was attempted since Hold or the last Resolved.
// The image is already held, so that the answer stays true.
func (h *holds) confirm(l *Lease, id string) bool {
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

// startPass begins a pass. Until endPass, a released lease counts up to the next call of dropEnded.
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

// dropEnded forgets the leases released so far. Call dropEnded right before asking the runtime for
// the images in use: the runtime already knows the containers of these leases.
func (h *holds) dropEnded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.ended = nil
}

// effective returns the leases that hold images back. The caller holds the lock.
func (h *holds) effective() []*Lease {
	return slices.AppendSeq(slices.Clone(h.mu.ended), maps.Keys(h.mu.leases))
}

// holder is a lease, with the name under which the lease holds the image.
type holder struct {
	lease *Lease
	name  string
}

// inspect stores a new image list, and returns for each image the names of its users and leases.
// open reports whether a held reference matches no image (yet). The lock is not held during the
// comparison.
func (h *holds) inspect(images []Image, used *names) (states []ImageState, open bool) {
	holders := make(map[string][]holder) // by form of a name
	either := names{short: used.short}   // short if any name lacks a registry
	h.mu.Lock()
	h.mu.known = images
	for _, l := range h.effective() {
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
	open = slices.ContainsFunc(h.effective(), func(l *Lease) bool { return l.isUnmatched(found) })
	for l, ids := range means {
		for _, id := range ids {
			l.names.addID(id)
		}
	}
	return states, open
}

// isUnmatched reports whether the list has no form of some reference of the lease.
func (l *Lease) isUnmatched(found map[string]bool) bool {
	missing := make(map[string]bool)
	for form, reference := range l.names.keys {
		was, known := missing[reference]
		missing[reference] = !found[form] && (was || !known)
	}
	return slices.Contains(slices.Collect(maps.Values(missing)), true)
}

// claim claims the right to remove image, or returns the name of image in a lease.
func (h *holds) claim(image *Image) (c *claim, heldAs string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.effective() {
		if name := l.names.find(image); name != "" {
			return nil, name
		}
	}
	c = &claim{image: image, done: make(chan struct{})}
	h.mu.claim = c
	return c, ""
}

// settleClaim ends a claim after its removal succeeded or failed.
func (h *holds) settleClaim(c *claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.claim = nil
	h.mu.clock++
	if len(h.mu.leases) > 0 {
		h.mu.removals = append(h.mu.removals, attempt{c.image, h.mu.clock})
	}
	close(c.done)
}

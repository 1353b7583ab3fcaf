// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/retry"
)

// PullMeter is an optional ability of Images: to tell the sizes of images. Calls are concurrent and
// take no longer than a status call.
type PullMeter interface {
	// PullProgress returns how far the pull of an image is. If nothing is known, the result is
	// zero. The reference image is as in PullImage.
	PullProgress(ctx context.Context, image string) PullProgress
	// ImageSize returns the bytes of an image on the node, by the ID that PullImage returned.
	ImageSize(ctx context.Context, id string) (int64, error)
}

// PullProgress is how much of an image was fetched.
type PullProgress struct {
	Bytes int64 // compressed
	Total int64 // of the whole image, or 0
	// Current: the numbers are those of the layers that are fetched now, without complete layers
	// and without layers that have not begun.
	Current bool
}

// String returns a text such as "12.3 of 45.6 MB", "" without a fact.
func (p PullProgress) String() string {
	const mega = 1e6
	text := fmt.Sprintf("%.1f", float64(p.Bytes)/mega)
	switch {
	case p.Bytes == 0 && p.Total == 0:
		return ""
	case p.Total > 0:
		text += fmt.Sprintf(" of %.1f", float64(p.Total)/mega)
	}
	if p.Current {
		return text + " MB of the layers under way"
	}
	return text + " MB"
}

// Pull is a pull that was asked for and has not ended.
type Pull struct {
	Image string    // normalized, with a tag or a digest
	Asked time.Time // by the first pod
	Began time.Time // zero: it waits for other pulls, see Options.MaxConcurrentPulls
	// Progress is zero if the runtime reports none.
	Progress PullProgress
}

// String returns the state without the name, such as "pulling for 12s, 12.3 of 45.6 MB".
func (p Pull) String() string {
	since := time.Since(p.Asked).Truncate(time.Second)
	if p.Began.IsZero() {
		return fmt.Sprintf("waiting for other pulls for %s", since)
	}
	text := fmt.Sprintf("pulling for %s", since)
	if progress := p.Progress.String(); progress != "" {
		text += ", " + progress
	}
	return text
}

// Pulls returns the pulls under way, sorted by image. Pulls of an image with different credentials
// are one entry.
func (m *Manager) Pulls(ctx context.Context) []Pull {
	if m.images == nil {
		return nil
	}
	pulls := m.images.flights.list()
	for i := range pulls {
		pulls[i].Progress = m.images.progress(ctx, &pulls[i])
	}
	return pulls
}

func (k *imageKeeper) progress(ctx context.Context, p *Pull) PullProgress {
	meter, ok := k.images.(PullMeter)
	if !ok || p.Began.IsZero() {
		return PullProgress{}
	}
	return meter.PullProgress(ctx, p.Image)
}

// list returns the pulls under way, without progress.
func (f *flights) list() []Pull {
	f.mu.Lock()
	defer f.mu.Unlock()
	byImage := map[string]Pull{}
	for key, p := range f.mu.byKey {
		known, ok := byImage[key.image]
		if !ok {
			known = Pull{Image: key.image, Asked: p.asked}
		}
		if p.asked.Before(known.Asked) {
			known.Asked = p.asked
		}
		if known.Began.IsZero() || !p.began.IsZero() && p.began.Before(known.Began) {
			known.Began = p.began
		}
		byImage[key.image] = known
	}
	var all []Pull
	for _, image := range slices.Sorted(maps.Keys(byImage)) {
		all = append(all, byImage[image])
	}
	return all
}

// firstProgress is the time from the request for a pull to the first event about its progress. The
// time of each later event is twice that of the event before. The number of events is small because
// client-go sends at most 25 events of a pod and then one in five minutes, and because the events
// of the start come after the pull.
const firstProgress = 30 * time.Second

// reportProgress sends events about a pull until stop, which returns after the last event.
func (k *imageKeeper) reportProgress(ctx context.Context, pod *v1.Pod, w wanted) (stop func()) {
	asked := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for after := firstProgress; ; after *= 2 {
			if retry.Sleep(ctx, time.Until(asked.Add(after))) != nil {
				return
			}
			for _, p := range k.flights.list() {
				if p.Image == w.image {
					p.Progress = k.progress(ctx, &p)
					k.event(pod, w, v1.EventTypeNormal, eventPullProgress, fmt.Sprintf("Image %q: %s", w.image, p))
				}
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// pulled returns the message about a pull, in the words of the 1.36 kubelet. took is the time of the
// pull, without the wait for other pulls.
func (k *imageKeeper) pulled(ctx context.Context, image, id string, took, waited time.Duration) string {
	text := fmt.Sprintf("Successfully pulled image %q in %s (%s including waiting).", image,
		took.Truncate(time.Millisecond), waited.Truncate(time.Millisecond))
	if meter, ok := k.images.(PullMeter); ok {
		if size, err := meter.ImageSize(ctx, id); err == nil {
			text += fmt.Sprintf(" Image size: %d bytes.", size)
		}
	}
	return text
}

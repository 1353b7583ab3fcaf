// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Image is one image on the node, as the runtime describes it.
type Image struct {
	ID          string   // what it is removed by; an image without one is never touched
	RepoTags    []string // every reference with a tag: registry.example/app:1
	RepoDigests []string // every reference by content: registry.example/app@sha256:…
	Size        uint64   // bytes, as the runtime reckons: shared layers count for every image
	Pinned      bool     // the runtime wants it kept
	Handler     string   // the runtime handler it was pulled for; usually empty
}

// Name is what people know the image by: a tag, else a digest, else its ID.
func (i Image) Name() string {
	for _, names := range [][]string{i.RepoTags, i.RepoDigests} {
		for _, name := range names {
			if name != "" && name != noTag {
				return name
			}
		}
	}
	return i.ID
}

// key tells images apart: the same content may be there for several handlers.
func (i Image) key() string { return key(i.ID, i.Handler) }

func key(id, handler string) string {
	if handler == "" {
		return id
	}
	return id + "," + handler
}

// Record is what is remembered of an image.
type Record struct {
	ID            string
	Handler       string
	FirstDetected time.Time // when a list had it for the first time
	LastUsed      time.Time // when it was last seen in use; zero: never
}

// IdleSince is when the image was last used, or else first seen: an image that nobody has used yet is not idle for ever.
func (r Record) IdleSince() time.Time {
	if r.LastUsed.After(r.FirstDetected) {
		return r.LastUsed
	}
	return r.FirstDetected
}

// merge returns images without duplicates, of which a runtime reports one per name at times. What makes an image stay
// wins. The result is in the order of the node status: the biggest first, then the highest ID.
func merge(images []Image) []Image {
	out := make([]Image, 0, len(images))
	at := make(map[string]int, len(images))
	for _, image := range images {
		k := image.key()
		i, known := at[k]
		if !known || image.ID == "" {
			at[k] = len(out)
			out = append(out, image)
			continue
		}
		was := &out[i]
		was.RepoTags = union(was.RepoTags, image.RepoTags)
		was.RepoDigests = union(was.RepoDigests, image.RepoDigests)
		was.Size = max(was.Size, image.Size)
		was.Pinned = was.Pinned || image.Pinned
	}
	return forStatus(out)
}

// forStatus returns images in the order of the node status. It moves places and not images, which are large.
func forStatus(images []Image) []Image {
	type place struct {
		size uint64
		at   int
	}
	places := make([]place, len(images))
	for i := range images {
		places[i] = place{images[i].Size, i}
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.size != b.size {
			return cmp.Compare(b.size, a.size)
		}
		x, y := &images[a.at], &images[b.at]
		return cmp.Or(strings.Compare(y.ID, x.ID), strings.Compare(y.Handler, x.Handler), cmp.Compare(a.at, b.at))
	})
	out := make([]Image, len(images))
	for i, p := range places {
		out[i] = images[p.at]
	}
	return out
}

// union returns what is in a or b, without writing to either.
func union(a, b []string) []string {
	out := slices.Clip(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// formatBytes says a size as people do: 1.5 GiB.
func formatBytes(n uint64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && value >= 1<<10 {
		value, units = value/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}

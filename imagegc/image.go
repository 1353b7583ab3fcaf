// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/sorted"
)

// Image is an image on the node, as reported by the runtime.
type Image struct {
	ID          string   // identifies the image in RemoveImage; an image with an empty ID is never removed
	RepoTags    []string // all references with a tag: registry.example/app:1
	RepoDigests []string // all references with a digest: registry.example/app@sha256:…
	Size        uint64   // bytes as counted by the runtime; shared layers count for every image
	Pinned      bool     // the runtime asks to keep the image
	Handler     string   // the runtime handler of the pull; usually empty
}

// Name returns a tag of the image, else a digest, else its ID.
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

// key distinguishes images. The same content may be present for several handlers.
func (i Image) key() string { return key(i.ID, i.Handler) }

func key(id, handler string) string {
	if handler == "" {
		return id
	}
	return id + "," + handler
}

// Record holds the ages of an image.
type Record struct {
	ID            string
	Handler       string
	FirstDetected time.Time // time of the first list with the image
	LastUsed      time.Time // time of the last detected use; zero: never
}

// IdleSince returns the time of the last use, or of the first detection. A never used image is not
// idle forever.
func (r Record) IdleSince() time.Time {
	if r.LastUsed.After(r.FirstDetected) {
		return r.LastUsed
	}
	return r.FirstDetected
}

// merge returns images without duplicates. Some runtimes report an image several times, with a name
// each. Of different sizes the largest counts. The image is pinned if any duplicate is pinned. The
// result is in the order of the node status: the biggest first, then by descending ID.
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

// forStatus returns images in the order of the node status. It sorts indices, because images are
// large.
func forStatus(images []Image) []Image {
	type place struct {
		size uint64
		at   int
	}
	places := make([]place, len(images))
	for i := range images {
		places[i] = place{images[i].Size, i}
	}
	sorted.By(places, func(a, b place) int {
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

// union returns the strings of a and b, and modifies neither.
func union(a, b []string) []string {
	out := slices.Clip(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// formatBytes returns a size for people: 1.5 GiB.
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

// SPDX-License-Identifier: Apache-2.0

package imagegc_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/imagegc"
)

// node has many images with two tags and a digest each. Every hundredth image is in use. All calls
// answer at once.
type node struct {
	images []imagegc.Image
	inUse  []string
}

func newNode(n int) *node {
	out := &node{}
	for i := range n {
		out.images = append(out.images, imagegc.Image{
			ID:          fmt.Sprintf("sha256:%064x", i*7919%n),
			RepoTags:    []string{fmt.Sprintf("registry.example/team-%d/app-%d:v1.2.%d", i%10, i, i), fmt.Sprintf("mirror.example/app-%d:latest", i)},
			RepoDigests: []string{fmt.Sprintf("registry.example/team-%d/app-%d@sha256:%064x", i%10, i, n+i)},
			Size:        uint64(i%500+1) << 20,
		})
		if i%100 == 0 {
			out.inUse = append(out.inUse, out.images[i].ID, out.images[i].RepoTags[0])
		}
	}
	return out
}

// ListImages returns a copy, like a decoded answer.
func (n *node) ListImages(context.Context) ([]imagegc.Image, error) {
	return slices.Clone(n.images), nil
}

func (n *node) RemoveImage(context.Context, imagegc.Image) error { return nil }

func (n *node) ImagesInUse(context.Context) ([]string, error) { return n.inUse, nil }

func (n *node) ImageFS(context.Context) (capacity, available uint64, err error) {
	return 1000 * gib, 100 * gib, nil
}

// BenchmarkPass measures a whole pass over many images on a full disk, up to the first removal:
// listing, matching used and held images, planning and sorting. The goal is 50 ms at 10,000 images.
// floor only reads and sorts the list, the least work for any order. naive compares each image with
// each name in use.
func BenchmarkPass(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("keelson/images=%d", n), func(b *testing.B) { benchmarkPass(b, newNode(n)) })
		b.Run(fmt.Sprintf("floor/images=%d", n), func(b *testing.B) { benchmarkFloor(b, newNode(n)) })
		b.Run(fmt.Sprintf("naive/images=%d", n), func(b *testing.B) { benchmarkNaive(b, newNode(n)) })
	}
}

func benchmarkPass(b *testing.B, n *node) {
	gc, err := imagegc.New(imagegc.Options{
		Images: n, InUse: n, Disk: n, DryRun: true,
		Policy: imagegc.Policy{MinAge: -1, MaxAge: time.Hour, Protected: []string{"registry.k8s.io/pause", "registry.example/team-3/*"}},
	})
	require.NoError(b, err)
	lease, err := gc.Hold(b.Context(), n.images[5].RepoTags[0], n.images[6].RepoTags[1])
	require.NoError(b, err)
	defer lease.Release()
	b.ReportAllocs()
	for b.Loop() {
		result, err := gc.GarbageCollect(b.Context())
		if err != nil || len(result.Plan.Remove) == 0 {
			b.Fatal(err, len(result.Plan.Remove))
		}
	}
	if len(n.images) == 10_000 {
		b.ReportMetric(50e6, "goal-ns")
	}
}

func benchmarkFloor(b *testing.B, n *node) {
	b.ReportAllocs()
	for b.Loop() {
		list, err := n.ListImages(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		slices.SortFunc(list, func(a, b imagegc.Image) int { return cmp.Compare(a.ID, b.ID) })
	}
}

func benchmarkNaive(b *testing.B, n *node) {
	b.ReportAllocs()
	for b.Loop() {
		list, err := n.ListImages(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		list = slices.DeleteFunc(list, func(i imagegc.Image) bool {
			return slices.ContainsFunc(n.inUse, func(name string) bool {
				return name == i.ID || slices.Contains(i.RepoTags, name) || slices.Contains(i.RepoDigests, name)
			})
		})
		slices.SortFunc(list, func(a, b imagegc.Image) int { return cmp.Compare(a.ID, b.ID) })
	}
}

// BenchmarkHold measures the cost of a lease for a pod start.
func BenchmarkHold(b *testing.B) {
	for _, images := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("images=%d", images), func(b *testing.B) {
			n := newNode(images)
			gc, err := imagegc.New(imagegc.Options{Images: n, InUse: n, Disk: n})
			require.NoError(b, err)
			require.NoError(b, gc.Detect(b.Context()))
			b.ReportAllocs()
			for b.Loop() {
				lease, err := gc.Hold(b.Context(), n.images[7].RepoTags[0])
				if err != nil {
					b.Fatal(err)
				}
				lease.Release()
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package imagestore

import (
	"context"
	"io"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	"github.com/keelson-dev/keelson/runtime"
)

// progress counts the compressed bytes of a pull.
type progress struct {
	done, total atomic.Int64
	layers      int64 // bytes of the complete layers
}

// track makes a pull visible to PullProgress until end. Of several pulls of a name, with different
// credentials, the last is visible.
func (s *Store) track(name string, p *progress) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.pulls[name] = p
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mu.pulls[name] == p {
			delete(s.mu.pulls, name)
		}
	}
}

// PullProgress implements runtime.PullMeter. Layers in the store, and the parts of an earlier
// download, count as fetched.
func (s *Store) PullProgress(_ context.Context, image string) runtime.PullProgress {
	ref, err := canonical(image)
	if err != nil {
		return runtime.PullProgress{}
	}
	s.mu.Lock()
	p := s.mu.pulls[ref.Name()]
	s.mu.Unlock()
	if p == nil {
		return runtime.PullProgress{}
	}
	return runtime.PullProgress{Bytes: p.done.Load(), Total: p.total.Load()}
}

// ImageSize implements runtime.PullMeter.
func (s *Store) ImageSize(_ context.Context, id string) (int64, error) {
	d, err := s.open()
	if err != nil {
		return 0, err
	}
	defer d.close()
	rec, err := d.record(id)
	return rec.Size, err
}

// count returns layers whose bytes are counted. The total of an image of "docker save", which has
// layers without a size, is unknown.
func (p *progress) count(layers []v1.Layer) ([]v1.Layer, error) {
	counted, total := make([]v1.Layer, len(layers)), int64(0)
	for i, l := range layers {
		size, err := l.Size()
		if err != nil {
			return nil, err
		}
		total += size
		if counted[i], err = partial.CompressedToLayer(countedLayer{l, p}); err != nil {
			return nil, err
		}
	}
	p.total.Store(total)
	return counted, nil
}

// complete counts a layer, also one that the store had before.
func (p *progress) complete(l v1.Layer) {
	size, err := l.Size()
	if p.layers += size; err == nil && p.layers > p.done.Load() {
		p.done.Store(p.layers)
	}
}

// countedLayer counts the bytes that are read.
type countedLayer struct {
	v1.Layer
	p *progress
}

// Compressed implements partial.CompressedLayer.
func (l countedLayer) Compressed() (io.ReadCloser, error) {
	in, err := l.Layer.Compressed()
	if err != nil {
		return nil, err
	}
	return countedReader{in, l.p}, nil
}

type countedReader struct {
	io.ReadCloser
	p *progress
}

// Read implements io.Reader.
func (r countedReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	r.p.done.Add(int64(n))
	return n, err
}

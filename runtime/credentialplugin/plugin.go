// SPDX-License-Identifier: Apache-2.0

package credentialplugin

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/internal/registry"
	"github.com/keelson-dev/keelson/runtime"
)

// plugin is a Provider with its cache.
type plugin struct {
	provider Provider
	places   []registry.Place // of MatchImages
	dir      string
	ran      func(provider string, took time.Duration, err error)
	runs     chan struct{} // an element for each process; full with maxRuns

	mu struct {
		sync.Mutex
		kept    map[cacheKey]kept
		flights map[string]*flight // by image
	}
}

// cacheKey is the range of an answer. name is an image, a registry, or empty for all images.
type cacheKey struct {
	kind keyType
	name string
}

// kept is an answer in the cache.
type kept struct {
	entries []entry
	until   time.Time
}

// flight is a run that is in progress. The fields are read after done is closed.
type flight struct {
	done      chan struct{}
	entries   []entry
	abandoned bool // the context of the caller that ran the plug-in has ended
}

func newPlugin(o Options, p Provider) *plugin {
	plugin := &plugin{provider: p, dir: o.Dir, ran: o.Ran, runs: make(chan struct{}, maxRuns)}
	for _, m := range p.MatchImages {
		place, _ := registry.Parse(m) // valid: checkProviders
		plugin.places = append(plugin.places, place)
	}
	plugin.mu.kept, plugin.mu.flights = map[cacheKey]kept{}, map[string]*flight{}
	return plugin
}

func (p *plugin) matches(image registry.Place) bool {
	return slices.ContainsFunc(p.places, func(m registry.Place) bool { return m.Covers(image) })
}

// find returns the credentials for an image, from the cache if possible. Concurrent callers for one
// image share a run.
func (p *plugin) find(ctx context.Context, image registry.Place) []runtime.ImageAuth {
	for {
		entries, running, mine := p.cachedOrFlight(image)
		switch {
		case running == nil:
			return covering(entries, image)
		case mine:
			return covering(p.runFlight(ctx, running, image), image)
		}
		select {
		case <-running.done:
			if !running.abandoned {
				return covering(running.entries, image)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// cachedOrFlight returns the cached entries for an image, or the flight for the image. If mine is true,
// the caller runs the flight. Otherwise the caller waits for the flight.
func (p *plugin) cachedOrFlight(image registry.Place) (entries []entry, running *flight, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, key := range keysOf(image) {
		if k, ok := p.mu.kept[key]; ok && now.Before(k.until) {
			return k.entries, nil, false
		}
	}
	name := image.String()
	running = p.mu.flights[name]
	if running == nil {
		running, mine = &flight{done: make(chan struct{})}, true
		p.mu.flights[name] = running
	}
	return nil, running, mine
}

// keysOf returns the keys for an image, in the order of the search.
func keysOf(image registry.Place) []cacheKey {
	return []cacheKey{{keyImage, image.String()}, {keyRegistry, image.Host()}, {keyGlobal, ""}}
}

// runFlight runs the plug-in and ends the flight.
func (p *plugin) runFlight(ctx context.Context, f *flight, image registry.Place) []entry {
	a, err := p.request(ctx, image.String())
	p.mu.Lock()
	defer p.mu.Unlock()
	f.entries, f.abandoned = a.entries, err != nil && ctx.Err() != nil
	delete(p.mu.flights, image.String())
	now := time.Now()
	for key, k := range p.mu.kept {
		if !now.Before(k.until) {
			delete(p.mu.kept, key)
		}
	}
	if err == nil && a.keep > 0 {
		for _, key := range keysOf(image) {
			if key.kind == a.key {
				p.mu.kept[key] = kept{a.entries, now.Add(a.keep)}
			}
		}
	}
	close(f.done)
	return f.entries
}

// request runs the plug-in for an image, after a wait while maxRuns of its processes run.
func (p *plugin) request(ctx context.Context, image string) (a answer, err error) {
	began := time.Now()
	limit, cancel := context.WithTimeoutCause(ctx, runPatience, errPatience)
	defer cancel()
	select {
	case p.runs <- struct{}{}:
		defer func() { <-p.runs }()
	case <-limit.Done():
		err = context.Cause(limit)
	}
	if err == nil {
		var output []byte
		if output, err = run(limit, p.dir, p.provider, image); err == nil {
			a, err = parseAnswer(p.provider, output)
		}
	}
	if err != nil {
		err = fmt.Errorf("credential provider %s for image %s: %w", p.provider.Name, image, err)
	}
	if ctx.Err() == nil {
		p.ran(p.provider.Name, time.Since(began), err)
	}
	return a, err
}

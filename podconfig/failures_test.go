// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/podconfig"
)

// theatre has two sources, a store and a consumer, all of which can be hostile.
type theatre struct {
	casetest.Notes
	t     *testing.T
	store *podconfig.Store
	stop  context.CancelCauseFunc

	mu      sync.Mutex
	choose  func(seam string) answer
	visited map[string]bool
	sinks   map[string]podconfig.Sink
}

// answer replaces a call of a seam.
type answer func(p *theatre, ctx context.Context, do func(context.Context) error) error

// do makes a call of a seam, and notes it.
func (p *theatre) do(ctx context.Context, seam, args string, do func(context.Context) error) error {
	p.mu.Lock()
	p.visited[seam] = true
	var other answer
	if p.choose != nil {
		other = p.choose(seam)
	}
	p.mu.Unlock()
	began := time.Now()
	var err error
	if other != nil {
		time.Sleep(time.Millisecond) // goroutines of the same instant have an order
		err = other(p, ctx, do)
	} else {
		err = do(ctx)
	}
	p.Note("%s %s took %v: %v", seam, args, time.Since(began), err)
	return err
}

// source submits changes, and waits for its end. Its name is a or b.
func (p *theatre) source(name string, delay time.Duration) podconfig.Source {
	pods := []podconfig.Change{
		podconfig.Snapshot(pod("x", "1"), pod("y", "2")), podconfig.Upsert(pod("x", "1", image("new")), pod("z", "3")), podconfig.Remove("2", "4"),
		podconfig.Snapshot(pod("x", "1", image("newer")), nil),
	}
	return podconfig.SourceFunc(name, func(ctx context.Context, out podconfig.Sink) error {
		return p.do(ctx, "source "+name, "", func(ctx context.Context) error {
			p.mu.Lock()
			p.sinks[name] = out
			p.mu.Unlock()
			for _, c := range pods {
				select {
				case <-time.After(delay):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				err := p.do(ctx, "submission of "+name, c.Kind().String(), func(ctx context.Context) error { return out.Submit(ctx, c) })
				if err != nil && ctx.Err() == nil && name == "b" {
					return err
				}
			}
			<-ctx.Done()
			return ctx.Err()
		})
	})
}

// Register and Merge are the store.
func (p *theatre) Register(sources ...string) error {
	return p.do(p.t.Context(), "Register", strings.Join(sources, " "), func(context.Context) error { return p.store.Register(sources...) })
}

func (p *theatre) Merge(ctx context.Context, source string, c podconfig.Change) (updates []podconfig.Update, err error) {
	err = p.do(ctx, "Merge", source+" "+c.Kind().String(), func(ctx context.Context) (err error) {
		updates, err = p.store.Merge(ctx, source, c)
		return err
	})
	return updates, err
}

func (p *theatre) out(ctx context.Context, u podconfig.Update) error {
	return p.do(ctx, "out", u.Source+" "+brief([]podconfig.Update{u}), func(context.Context) error { return nil })
}

func (p *theatre) set(pods []*v1.Pod, complete bool) error {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name+"="+pod.Spec.Containers[0].Image)
	}
	return p.do(p.t.Context(), "set", fmt.Sprint(names, complete), func(context.Context) error { return nil })
}

// scenes are calls that end with ctx.
var scenes = []struct {
	name string
	call func(p *theatre, ctx context.Context) error
}{
	{"Run", func(p *theatre, ctx context.Context) error {
		return podconfig.Run(ctx, p, p.out, p.source("a", 100*time.Millisecond), p.source("b", 130*time.Millisecond))
	}},
	{"Run with one source", func(p *theatre, ctx context.Context) error {
		return podconfig.Run(ctx, p, p.out, p.source("b", 100*time.Millisecond))
	}},
	{"Follow", func(p *theatre, ctx context.Context) error {
		o := podconfig.StoreOptions{Rejected: func(r podconfig.Rejection) { p.Note("rejected: %v of %s", r.Err, r.Source) }}
		return podconfig.Follow(ctx, o, p.set, p.source("a", 100*time.Millisecond), p.source("b", 130*time.Millisecond))
	}},
	{"a queue", func(p *theatre, ctx context.Context) error {
		queue, ready := podconfig.NewQueue(), podconfig.NewReadiness("a")
		consumers, done := context.WithCancel(p.t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for u := range queue.All(consumers) {
					if p.out(consumers, u) == nil {
						ready.Consumed(u)
					}
				}
			})
		}
		err := podconfig.Run(ctx, p, queue.Push, p.source("a", 100*time.Millisecond), p.source("b", 130*time.Millisecond))
		synctest.Wait()
		p.Note("left in the queue: %d; ready: %t, %t, %t", queue.Len(), ready.Ready("a"), ready.Ready("b"), ready.AllReady())
		done()
		wg.Wait()
		return err
	}},
}

// strikes are the answers to struck calls.
var strikes = []struct {
	name   string
	answer answer
}{
	{"fails", func(*theatre, context.Context, func(context.Context) error) error { return errors.New("broken") }},
	{"fails afterwards", func(_ *theatre, ctx context.Context, do func(context.Context) error) error {
		return errors.Join(do(ctx), errors.New("broken"))
	}},
	{"hangs", func(_ *theatre, ctx context.Context, _ func(context.Context) error) error {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		return context.Cause(ctx)
	}},
	{"is slow", func(_ *theatre, ctx context.Context, do func(context.Context) error) error {
		time.Sleep(175 * time.Millisecond)
		return do(ctx)
	}},
	{"ignores the end", func(_ *theatre, ctx context.Context, do func(context.Context) error) error {
		err := do(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		time.Sleep(time.Second)
		return err
	}},
	{"does nothing", func(*theatre, context.Context, func(context.Context) error) error { return nil }},
	{"sees the end", func(p *theatre, ctx context.Context, do func(context.Context) error) error {
		p.stop(errors.New("the agent stops"))
		time.Sleep(time.Millisecond)
		return do(ctx)
	}},
	{"sees the end afterwards", func(p *theatre, ctx context.Context, do func(context.Context) error) error {
		err := do(ctx)
		p.stop(errors.New("the agent stops"))
		time.Sleep(time.Millisecond)
		return err
	}},
	{"sees another submission", func(p *theatre, ctx context.Context, do func(context.Context) error) error {
		go func() {
			p.mu.Lock()
			sink := p.sinks["a"]
			p.mu.Unlock()
			if sink != nil {
				p.Note("another submission: %v", sink.Submit(p.t.Context(), podconfig.Upsert(pod("more", "5"))))
			}
		}()
		time.Sleep(time.Millisecond)
		return do(ctx)
	}},
}

// TestHostileSeams makes each source, submission, merge and consumer fail, hang, come late and outlive its context, the
// first time, the second time and always. In every case Run and Follow end with their context, and a submission after
// their end is refused.
func TestHostileSeams(t *testing.T) {
	for _, s := range scenes {
		play := func(name string, choose func(string) answer) (seams []string) {
			synctest.Test(t, func(t *testing.T) {
				p := &theatre{t: t, store: newStore(t, podconfig.StoreOptions{}), visited: map[string]bool{}, sinks: map[string]podconfig.Sink{}}
				var ctx context.Context
				ctx, p.stop = context.WithCancelCause(t.Context())
				if choose != nil {
					count := map[string]int{}
					p.choose = func(seam string) answer {
						count[seam]++
						return choose(fmt.Sprint(seam, " ", count[seam]))
					}
				}
				p.Begin()
				timer := time.AfterFunc(10*time.Second, func() { p.stop(errors.New("the end")) })
				err := s.call(p, ctx)
				p.Note("ended: %v", err)
				timer.Stop()
				for _, name := range slices.Sorted(maps.Keys(p.sinks)) {
					require.ErrorIs(t, p.sinks[name].Submit(t.Context(), podconfig.Snapshot()), podconfig.ErrStopped, "%s, %s:\n%s", s.name, name, p.Lines(60))
				}
				var names []string
				for source, pod := range p.store.Pods() {
					names = append(names, fmt.Sprintf("%s/%s=%s", source, pod.Name, pod.Spec.Containers[0].Image))
				}
				p.Note("stored: %s", names)
				seams = slices.Sorted(maps.Keys(p.visited))
			})
			return seams
		}
		for _, seam := range play("", nil) {
			for _, strike := range strikes {
				for _, nth := range []string{" 1", " 2", ""} {
					if nth == "" && strike.name == "sees another submission" {
						continue
					}
					play(seam+nth+" "+strike.name, func(call string) answer {
						if call == seam+nth || nth == "" && strings.HasPrefix(call, seam+" ") {
							return strike.answer
						}
						return nil
					})
				}
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package imagegc_test

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

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/imagegctest"
	"github.com/keelson-dev/keelson/internal/casetest"
)

// theatre is a collector whose seams can be hostile.
type theatre struct {
	casetest.Notes
	t     *testing.T
	node  *imagegctest.Node
	gc    *imagegc.Collector
	store memory
	stop  context.CancelCauseFunc

	mu      sync.Mutex
	lease   *imagegc.Lease
	choose  func(seam string) answer
	visited map[string]bool
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
	began, limit := time.Now(), "no"
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline).String()
	}
	var err error
	if other != nil {
		time.Sleep(time.Millisecond) // goroutines of the same instant have an order
		err = other(p, ctx, do)
	} else {
		err = do(ctx)
	}
	p.Note("%s %s, limit %s, took %v: %v", seam, args, limit, time.Since(began), err)
	return err
}

func (p *theatre) ListImages(ctx context.Context) (list []imagegc.Image, err error) {
	err = p.do(ctx, "ListImages", "", func(ctx context.Context) (err error) {
		list, err = p.node.ListImages(ctx)
		return err
	})
	return list, err
}

func (p *theatre) RemoveImage(ctx context.Context, image imagegc.Image) error {
	return p.do(ctx, "RemoveImage", image.Name(), func(ctx context.Context) error { return p.node.RemoveImage(ctx, image) })
}

func (p *theatre) ImagesInUse(ctx context.Context) (list []string, err error) {
	err = p.do(ctx, "ImagesInUse", "", func(ctx context.Context) (err error) {
		list, err = p.node.ImagesInUse(ctx)
		return err
	})
	return list, err
}

func (p *theatre) ImagesWanted(ctx context.Context) (list []string, err error) {
	err = p.do(ctx, "ImagesWanted", "", func(context.Context) error {
		list = []string{"r.example/i02:1", "r.example/absent:1"}
		return nil
	})
	return list, err
}

func (p *theatre) ImageFS(ctx context.Context) (capacity, available uint64, err error) {
	err = p.do(ctx, "ImageFS", "", func(ctx context.Context) (err error) {
		capacity, available, err = p.node.ImageFS(ctx)
		return err
	})
	return capacity, available, err
}

func (p *theatre) Load(ctx context.Context) (records []imagegc.Record, err error) {
	err = p.do(ctx, "Load", "", func(ctx context.Context) (err error) {
		records, err = p.store.Load(ctx)
		return err
	})
	return records, err
}

func (p *theatre) Save(ctx context.Context, records []imagegc.Record) error {
	return p.do(ctx, "Save", fmt.Sprint(len(records), " records"), func(ctx context.Context) error { return p.store.Save(ctx, records) })
}

// noted notes the result of a pass.
func (p *theatre) noted(r imagegc.Result, err error) {
	p.Note("pass from %s to %s: %v", p.Since(r.Started), p.Since(r.Ended), err)
	p.Note("pass: dry %t, planned %d and %d to spare, removed %d, present %d, freed %d, sizes %d, usage %d %%, again %s", r.DryRun,
		len(r.Plan.Remove), len(r.Plan.Spare), len(r.Removed), len(r.Present), r.Freed/gib, r.Sizes/gib, r.UsagePercent, p.Since(r.RetryAt))
	kept := map[imagegc.KeepReason]int{}
	for _, k := range r.Kept {
		kept[k.Reason]++
	}
	for _, reason := range slices.Sorted(maps.Keys(kept)) {
		p.Note("pass: kept %s: %d", reason, kept[reason])
	}
}

// scene is a call of a collector.
type scene struct {
	name    string
	options func(o *imagegc.Options)
	call    func(p *theatre, ctx context.Context)
}

// passes collects twice.
func passes(p *theatre, ctx context.Context) {
	for range 2 {
		_, err := p.gc.GarbageCollect(ctx)
		p.Note("collected: %v", err)
		time.Sleep(time.Minute)
	}
}

func runs(p *theatre, ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 12*time.Minute+10*time.Second)
	defer cancel()
	p.Note("ran: %v", p.gc.Run(ctx))
}

var scenes = []scene{
	{name: "threshold", call: passes},
	{name: "unused", call: func(p *theatre, ctx context.Context) {
		_, err := p.gc.DeleteUnusedImages(ctx)
		p.Note("deleted: %v", err)
	}},
	{name: "plan", call: func(p *theatre, ctx context.Context) {
		for _, goal := range []imagegc.Goal{imagegc.GoalThreshold, imagegc.GoalUnused} {
			plan, err := p.gc.Plan(ctx, goal)
			p.Note("planned %d to remove, %d to keep: %v", len(plan.Remove), len(plan.Keep), err)
		}
	}},
	{name: "detection", call: func(p *theatre, ctx context.Context) {
		for range 2 {
			p.Note("detected: %v", p.gc.Detect(ctx))
			p.node.Add(image("r.example/later:1"))
			time.Sleep(2 * time.Hour)
		}
		p.Note("listed: %v, %d", p.gc.RefreshImageList(ctx), len(p.gc.GetImageList()))
	}},
	{name: "run", options: func(o *imagegc.Options) { o.Policy.MinAge = 90 * time.Second }, call: runs},
	{name: "dry run", options: func(o *imagegc.Options) { o.DryRun = true }, call: runs},
	{name: "run without thresholds", options: func(o *imagegc.Options) { o.Policy.HighPercent = 100 }, call: runs},
}

var strikes = []struct {
	name   string
	answer answer
}{
	{"fails", func(*theatre, context.Context, func(context.Context) error) error { return errors.New("broken") }},
	{"fails afterwards", func(_ *theatre, ctx context.Context, do func(context.Context) error) error {
		return errors.Join(do(ctx), errors.New("broken"))
	}},
	{"hangs", func(_ *theatre, ctx context.Context, _ func(context.Context) error) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}},
	{"is slow", func(_ *theatre, ctx context.Context, do func(context.Context) error) error {
		time.Sleep(3 * time.Second)
		return do(ctx)
	}},
	{"ignores its limit", func(_ *theatre, ctx context.Context, do func(context.Context) error) error {
		time.Sleep(3 * time.Minute)
		return do(context.WithoutCancel(ctx))
	}},
	{"does nothing", func(*theatre, context.Context, func(context.Context) error) error { return nil }},
}

// events happen during a call.
var events = []struct {
	name   string
	happen func(p *theatre)
}{
	{"a lease", func(p *theatre) {
		lease, err := p.gc.Hold(p.t.Context(), "r.example/i06:1", "r.example/i07:1")
		require.NoError(p.t, err)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lease = lease
	}},
	{"a short lease", func(p *theatre) {
		lease, err := p.gc.Hold(p.t.Context(), "r.example/i06:1")
		require.NoError(p.t, err)
		if slices.Contains(p.node.Tags(), "r.example/i06:1") {
			p.node.Run("late", "r.example/i06:1")
		}
		lease.Release()
	}},
	{"a waiting lease", func(p *theatre) {
		go func() {
			ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Minute)
			defer cancel()
			lease, err := p.gc.Hold(ctx, "r.example/i00:1", "r.example/i08:1")
			p.Note("held: %v", err)
			if err == nil {
				agreed, err := lease.Resolved(ctx, image("r.example/i09:1").ID())
				p.Note("resolved: %t, %v", agreed, err)
				lease.Release()
			}
		}()
	}},
	{"a pull", func(p *theatre) { p.node.Add(image("r.example/new:1")) }},
	{"a full disk", func(p *theatre) { p.node.Fill(95 * gib) }},
	{"an emptier disk", func(p *theatre) { p.node.Fill(10 * gib) }},
	{"a user without a name", func(p *theatre) {
		p.node.Lie(imagegctest.Lies{InUse: func(list []string) []string { return append(list, "") }})
	}},
	{"a list without images", func(p *theatre) {
		p.node.Lie(imagegctest.Lies{List: func([]imagegc.Image) []imagegc.Image { return nil }})
	}},
	{"a disk without capacity", func(p *theatre) {
		p.node.Lie(imagegctest.Lies{Disk: func(uint64, uint64) (uint64, uint64) { return 0, 0 }})
	}},
	{"a disk that shows no effect", func(p *theatre) {
		p.node.Lie(imagegctest.Lies{Disk: func(capacity, _ uint64) (uint64, uint64) { return capacity, capacity / 20 }})
	}},
	{"a second pass", func(p *theatre) {
		go func() {
			ctx, cancel := context.WithTimeout(p.t.Context(), 4*time.Minute)
			defer cancel()
			p.Note("detected: %v", p.gc.Detect(ctx))
		}()
	}},
	{"the end", func(p *theatre) { p.stop(errors.New("the agent stops")) }},
}

// TestHostileSeams makes each call of a seam in each scene fail, hang, come late, ignore its limit and do nothing, the
// first time, the third time and always, and lets leases, containers, pulls and others come in the middle of a call.
// In no case an image in use or pinned is removed.
func TestHostileSeams(t *testing.T) {
	for _, s := range scenes {
		for _, seam := range s.play(t, "", nil) {
			struck := func(name string, nth int, a answer) {
				s.play(t, name, func() func(string) answer {
					count := 0
					return func(other string) answer {
						if other != seam {
							return nil
						}
						if count++; nth > 0 && count != nth {
							return nil
						}
						return a
					}
				})
			}
			for _, strike := range strikes {
				for _, nth := range []int{1, 3, 0} {
					struck(fmt.Sprintf("%s %d %s", seam, nth, strike.name), nth, strike.answer)
				}
			}
			for _, e := range events {
				for _, nth := range []int{1, 3} {
					struck(fmt.Sprintf("%s %d sees %s", seam, nth, e.name), nth, func(p *theatre, ctx context.Context, do func(context.Context) error) error {
						e.happen(p)
						time.Sleep(time.Millisecond)
						return do(ctx)
					})
				}
			}
		}
	}
}

// play plays a case. The result has the seams that the scene uses.
func (s scene) play(t *testing.T, name string, chooser func() func(string) answer) (seams []string) {
	if name != "" && !casetest.Chosen(s.name+name) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		p := &theatre{t: t, node: imagegctest.New(100 * gib), visited: map[string]bool{}}
		if chooser != nil {
			p.choose = chooser()
		}
		p.node.Add(images(20)...)
		pinned := image("r.example/pinned:1")
		pinned.Pinned = true
		p.node.Add(pinned)
		p.node.Run("web", "r.example/i03:1")
		p.node.Fill(70 * gib)
		o := imagegc.Options{
			Images: p, InUse: p, Disk: p, Store: p, Policy: imagegc.Policy{MinAge: -1, Protected: []string{"r.example/i04"}}, Logger: p.Logger(),
			Events: imagegc.EventFunc(func(kind, reason, message string) { p.Note("event %s %s: %s", kind, reason, message) }),
			OnRemoved: func(r imagegc.Removed) {
				p.Note("removed %s at %s because of %s", r.Image.Name(), p.Since(r.At), r.Reason)
			},
			OnPass: p.noted,
		}
		if s.options != nil {
			s.options(&o)
		}
		var err error
		p.gc, err = imagegc.New(o)
		require.NoError(t, err)
		var ctx context.Context
		ctx, p.stop = context.WithCancelCause(t.Context())
		defer p.stop(nil)
		p.Begin()
		s.call(p, ctx)
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		p.mu.Lock()
		if p.lease != nil {
			p.lease.Release()
		}
		p.choose = nil
		seams = slices.Sorted(maps.Keys(p.visited))
		p.mu.Unlock()
		if !strings.Contains(name, "ImagesInUse") || !strings.HasSuffix(name, "does nothing") {
			require.Empty(t, p.node.Violations(), "%s, %s:\n%s", s.name, name, p.Lines(100))
		}
		p.Note("left: %s; listed: %d; saved: %d records, %d times", p.node.Tags(), len(p.gc.GetImageList()), len(p.store.records), p.store.saves)
		p.node.Lie(imagegctest.Lies{})
		_, err = p.gc.DeleteUnusedImages(t.Context())
		p.Note("deleted afterwards: %v; left: %s", err, p.node.Tags())
	})
	return seams
}

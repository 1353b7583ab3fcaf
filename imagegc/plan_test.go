// SPDX-License-Identifier: Apache-2.0

package imagegc

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const gib = 1 << 30

// state returns an idle image of 1 GiB, detected a day ago and last used the given time ago;
// negative: never.
func state(id string, unused time.Duration, edit ...func(*ImageState)) ImageState {
	s := ImageState{
		Image:  Image{ID: id, RepoTags: []string{"r.example/" + id + ":1"}, Size: gib},
		Record: Record{ID: id, FirstDetected: noon.Add(-24 * time.Hour)},
	}
	if unused >= 0 {
		s.Record.LastUsed = noon.Add(-unused)
	}
	for _, e := range edit {
		e(&s)
	}
	return s
}

func detected(ago time.Duration) func(*ImageState) {
	return func(s *ImageState) { s.Record.FirstDetected = noon.Add(-ago) }
}

func size(bytes uint64) func(*ImageState) { return func(s *ImageState) { s.Image.Size = bytes } }

// full returns an input for a disk of 100 GiB with left bytes available.
func full(left uint64, images ...ImageState) PlanInput {
	return PlanInput{
		Policy: Policy{HighPercent: 85, LowPercent: 80, MinAge: 2 * time.Minute}, Now: noon,
		Images: images, Capacity: 100 * gib, Available: left * gib,
	}
}

// brief returns a plan as a word per image.
func brief(d Decisions) (out []string) {
	for _, r := range d.Remove {
		out = append(out, fmt.Sprintf("-%s:%s", r.Image.ID, r.Reason))
	}
	for _, r := range d.Spare {
		out = append(out, "~"+r.Image.ID)
	}
	for _, k := range d.Keep {
		out = append(out, fmt.Sprintf("+%s:%s", k.Image.ID, k.Reason))
	}
	return out
}

func TestPlan(t *testing.T) {
	with := func(in PlanInput, edit func(*PlanInput)) PlanInput { edit(&in); return in }
	used := func(s *ImageState) { s.UsedAs = s.Image.ID }
	held := func(s *ImageState) { s.HeldAs = "r.example/x:1" }
	pinned := func(s *ImageState) { s.Image.Pinned = true }
	maxAge := func(d time.Duration) func(*PlanInput) { return func(in *PlanInput) { in.Policy.MaxAge = d } }
	unused := func(in *PlanInput) { in.Goal = GoalUnused }
	tests := []struct {
		name string
		in   PlanInput
		want []string
	}{
		{"nothing there", full(1), nil},
		{"below the threshold", full(16, state("a", time.Hour)), []string{"+a:its space is not needed"}},
		{"at the threshold", full(15, state("a", time.Hour)), []string{"-a:space"}},
		{"usage is rounded up", with(full(0, state("a", time.Hour)), func(in *PlanInput) { in.Available = 16*gib - 1 }), []string{"-a:space"}},
		{"longest idle first, until sizes suffice", full(15, state("a", time.Minute), state("b", 3*time.Hour, size(4*gib)), state("c", 2*time.Hour, size(gib)), state("d", time.Hour)),
			[]string{"-b:space", "-c:space", "~d", "~a"}},
		{"never used counts from its coming", full(15, state("old", 2*time.Hour), state("new", -1, detected(time.Hour)), state("ancient", -1)),
			[]string{"-ancient:space", "-old:space", "-new:space"}},
		{"of the same idleness the one that came first, then the biggest, then by ID",
			full(15, state("b", time.Hour, size(0)), state("a", time.Hour, size(0)), state("c", time.Hour, size(1)), state("d", time.Hour, size(0), detected(48*time.Hour))),
			[]string{"-d:space", "-c:space", "-a:space", "-b:space"}},
		{"needed ones stay", full(1, state("a", 0, used), state("b", time.Hour, held), state("c", -1, pinned), state("", -1), state("d", time.Hour)),
			[]string{"-d:space", "+:the runtime reports no ID", "+a:in use", "+b:held", "+c:pinned by the runtime"}},
		{"protected ones stay", with(full(1, state("a", -1), state("b", -1), state("c", -1)), func(in *PlanInput) {
			in.Policy.Protected = []string{"r.example/a"}
			in.Policy.Protect = func(i Image) bool { return i.ID == "b" }
		}), []string{"-c:space", "+a:protected", "+b:protected"}},
		{"as old as MinAge is old enough", full(1, state("a", -1, detected(2*time.Minute)), state("b", -1, detected(2*time.Minute-1))),
			[]string{"-a:space", "+b:too young"}},
		{"MinAge is not from the last use", full(1, state("a", time.Second)), []string{"-a:space"}},
		{"MaxAge on an empty disk", with(full(99, state("a", 3*time.Hour), state("b", time.Hour), state("c", 2*time.Hour)), maxAge(2*time.Hour)),
			[]string{"-a:age", "+b:its space is not needed", "+c:its space is not needed"}},
		{"MaxAge counts towards what is wanted", with(full(18, state("a", 3*time.Hour, size(2*gib)), state("b", time.Hour)), func(in *PlanInput) {
			in.Policy.MaxAge, in.Policy.HighPercent = 2*time.Hour, 82
		}), []string{"-a:age", "~b"}},
		{"MinAge holds against MaxAge", with(full(99, state("a", -1, detected(time.Minute))), maxAge(time.Second)), []string{"+a:too young"}},
		{"unused: all that may go", with(full(99, state("a", 0, used), state("b", time.Minute), state("c", -1, detected(time.Minute)), state("d", 2*time.Minute)), unused),
			[]string{"-d:unused", "-b:unused", "+a:in use", "+c:too young"}},
		{"a target goes on below the threshold", with(full(18, state("a", time.Hour)), func(in *PlanInput) { in.Target = 20 * gib }), []string{"-a:space"}},
		{"a target that is met", with(full(20, state("a", time.Hour)), func(in *PlanInput) { in.Target = 20 * gib }), []string{"+a:its space is not needed"}},
		{"no capacity", with(full(0, state("a", time.Hour)), func(in *PlanInput) { in.Capacity = 0 }), []string{"+a:its space is not needed"}},
		{"more available than there is", with(full(1000, state("a", time.Hour)), func(*PlanInput) {}), []string{"+a:its space is not needed"}},
		{"a disk of 16 EiB", with(full(0, state("a", time.Hour)), func(in *PlanInput) { in.Capacity, in.Available = 1<<64-1, 1<<63 }),
			[]string{"+a:its space is not needed"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, brief(Plan(tc.in))) })
	}
}

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		capacity, available uint64
		want                int
	}{
		{0, 0, 0}, {100, 100, 0}, {100, 0, 100}, {100, 15, 85}, {1000, 159, 85}, {1000, 150, 85}, {3, 1, 67},
		{10, 20, 0}, {1<<64 - 1, 1<<64 - 1, 0}, {1<<64 - 1, 1 << 63, 50}, {1<<64 - 1, 1, 100},
	} {
		assert.Equal(t, tc.want, usagePercent(tc.capacity, tc.available), "%d of %d", tc.available, tc.capacity)
	}
	assert.Equal(t, uint64(20), share(100, 20))
	assert.Equal(t, uint64(1<<64-1), share(1<<64-1, 100))
}

// TestPlanOfTwins expects that otherwise equal images are ordered by ID and handler.
func TestPlanOfTwins(t *testing.T) {
	twin := func(id, handler string) ImageState {
		s := state(id, time.Hour)
		s.Image.RepoTags, s.Image.Handler = []string{"same:1"}, handler
		return s
	}
	want := []ImageState{twin("a", ""), twin("a", "x"), twin("a", "y"), twin("b", "")}
	for i := range want {
		images := append(slices.Clone(want[i:]), want[:i]...)
		in := full(0, images...)
		in.Goal = GoalUnused
		removed, kept := Plan(in), Plan(full(50, images...))
		assert.Zero(t, removed.Wanted, "room is not what it is about")
		require.Len(t, removed.Remove, len(want))
		require.Len(t, kept.Keep, len(want))
		for j := range want {
			assert.Equal(t, want[j].Image, removed.Remove[j].Image)
			assert.Equal(t, want[j].Image, kept.Keep[j].Image)
		}
	}
}

func TestDecisionsAreReadable(t *testing.T) {
	in := full(15, state("web", 24*time.Hour), state("job", -1, detected(30*time.Hour), size(5*gib)), state("cache", time.Hour+time.Second), state("new", -1, detected(time.Minute)),
		state("db", 0, func(s *ImageState) { s.UsedAs = "r.example/db@sha256:1" }), state("pause", -1))
	in.Policy.MaxAge, in.Policy.Protected = 25*time.Hour, []string{"r.example/pause"}
	assert.Equal(t, `image file system 85 % full, 15.0 GiB available of 100.0 GiB: free 5.0 GiB
remove r.example/job:1 5.0 GiB: age, never used since it came 30h0m0s ago
spare  r.example/web:1 1.0 GiB: space, last used 24h0m0s ago
spare  r.example/cache:1 1.0 GiB: space, last used 1h0m1s ago
keep   r.example/db:1 1.0 GiB: in use as r.example/db@sha256:1
keep   r.example/new:1 1.0 GiB: too young, until 2026-11-21T12:01:00Z
keep   r.example/pause:1 1.0 GiB: protected by "r.example/pause"
`, Plan(in).String())
	in.Available = 50 * gib
	in.Images = nil
	assert.Equal(t, "image file system 50 % full, 50.0 GiB available of 100.0 GiB: nothing to free\n", Plan(in).String())
	in.Goal = GoalUnused
	assert.Equal(t, "remove every image that nothing needs\n", Plan(in).String())
	assert.Equal(t, []string{"512 B", "1.5 KiB", "2.0 MiB", "1024.0 TiB"},
		[]string{formatBytes(512), formatBytes(1536), formatBytes(2 << 20), formatBytes(1 << 50)})
}

// randomInput returns every kind of image and policy, often on a boundary.
func randomInput(r *rand.Rand) PlanInput {
	chance := func(n int) bool { return r.IntN(n) == 0 }
	minutes := func(n int) time.Duration { return time.Duration(r.IntN(n)) * time.Minute }
	in := PlanInput{
		Goal: Goal(r.IntN(2)), Now: noon, Capacity: 1000, Available: uint64(r.IntN(400)),
		Policy: Policy{HighPercent: 60 + r.IntN(41), MinAge: minutes(10) - 1, Protected: []string{"r.example/p*"}},
	}
	in.Policy.LowPercent = in.Policy.HighPercent - r.IntN(30)
	if chance(2) {
		in.Policy.MaxAge = minutes(60) + 1
	}
	if chance(4) {
		in.Target = uint64(r.IntN(500))
	}
	for i := range r.IntN(20) {
		s := ImageState{Image: Image{ID: fmt.Sprintf("i%02d", i), Size: uint64(r.IntN(60))}, Record: Record{FirstDetected: noon.Add(-minutes(90))}}
		if chance(2) {
			s.Record.LastUsed = noon.Add(-minutes(60))
		}
		switch r.IntN(14) {
		case 0:
			s.UsedAs = "x"
		case 1:
			s.HeldAs = "y"
		case 2:
			s.Image.Pinned = true
		case 3:
			s.Image.RepoTags = []string{"r.example/pause:1"}
		case 4:
			s.Image.ID = ""
		}
		in.Images = append(in.Images, s)
	}
	return in
}

// plainPlan is a simple form of Plan: it picks the next image again and again.
func plainPlan(in PlanInput) (remove, spare []string) {
	left := slices.Clone(in.Images)
	left = slices.DeleteFunc(left, func(s ImageState) bool {
		return s.UsedAs != "" || s.HeldAs != "" || s.Image.Pinned || s.Image.ID == "" || len(s.Image.RepoTags) > 0 ||
			s.Record.FirstDetected.Add(in.Policy.MinAge).After(in.Now)
	})
	next := func() (best int) {
		for i := range left {
			a, b := left[i], left[best]
			x, y := a.Record.IdleSince(), b.Record.IdleSince()
			if c := cmp.Or(x.Compare(y), a.Record.FirstDetected.Compare(b.Record.FirstDetected), -cmp.Compare(a.Image.Size, b.Image.Size), cmp.Compare(a.Image.ID, b.Image.ID)); c < 0 {
				best = i
			}
		}
		return best
	}
	target := in.Target
	if used := (1000 - float64(min(in.Available, 1000))) / 10; target == 0 && used > float64(in.Policy.HighPercent-1) && in.Goal == GoalThreshold {
		target = 10 * uint64(100-in.Policy.LowPercent)
	}
	available := min(in.Available, 1000)
	wanted := target > available && in.Goal == GoalThreshold
	for len(left) > 0 {
		i := next()
		s := left[i]
		left = slices.Delete(left, i, i+1)
		switch {
		case in.Policy.MaxAge > 0 && s.Record.IdleSince().Add(in.Policy.MaxAge).Before(in.Now) || in.Goal == GoalUnused || wanted && available < target:
			remove = append(remove, s.Image.ID)
			available += s.Image.Size
		case wanted:
			spare = append(spare, s.Image.ID)
		}
	}
	return remove, spare
}

func TestPlanIsThePlainOne(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 3))
	removals := 0
	for range casetest.Rounds(20_000) {
		in := randomInput(r)
		d := Plan(in)
		ids := func(list []Removal) (out []string) {
			for _, r := range list {
				out = append(out, r.Image.ID)
			}
			return out
		}
		remove, spare := plainPlan(in)
		require.Equal(t, remove, ids(d.Remove), "%v", d)
		require.Equal(t, spare, ids(d.Spare), "%v", d)
		require.Len(t, in.Images, len(d.Remove)+len(d.Spare)+len(d.Keep), "every image is told")
		removals += len(remove)

		again := in
		again.Images = slices.Clone(in.Images)
		r.Shuffle(len(again.Images), func(i, j int) { again.Images[i], again.Images[j] = again.Images[j], again.Images[i] })
		nameless := slices.ContainsFunc(in.Images, func(s ImageState) bool { return s.Image.ID == "" })
		if !nameless {
			require.Equal(t, brief(d), brief(Plan(again)), "the order of the list is no matter")
		}
	}
	assert.Greater(t, removals, casetest.Rounds(20_000))
}

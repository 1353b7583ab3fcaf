// SPDX-License-Identifier: Apache-2.0

package podconfig_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/podconfig"
)

// replaySeed repeats a failed property test: go test ./podconfig -run Property -replay-seed 123
var replaySeed = flag.Uint64("replay-seed", 0, "seed of the property tests; 0 takes a new one")

func newSeed(t *testing.T) uint64 {
	seed := *replaySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay with -replay-seed %d", seed)
	return seed
}

// randomScript returns the bytes of a script.
func randomScript(r *rand.Rand, length int) []byte {
	data := make([]byte, length)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

func TestPropertyMergeAgreesWithModel(t *testing.T) {
	const shards = 2
	changes := casetest.Rounds(100_000)
	seed := newSeed(t)
	for shard := range uint64(shards) {
		t.Run(fmt.Sprint("shard=", shard), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, shard))
			for done := 0; done < changes/shards; {
				steps := readScript(randomScript(r, 2_000))
				done += len(steps)
				synctest.Test(t, func(t *testing.T) { compareWithModel(t, steps) })
			}
		})
	}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte{})
	f.Add(randomScript(rand.New(rand.NewPCG(1, 1)), 64))
	f.Fuzz(func(t *testing.T, script []byte) {
		synctest.Test(t, func(t *testing.T) { compareWithModel(t, readScript(script)) })
	})
}

// pair is the store and the model side by side.
type pair struct {
	store    *podconfig.Store
	model    *model
	rejected []string
	// follower is a consumer that only applies the updates.
	follower follower
}

// compareWithModel runs the steps in a bubble of virtual time, which advances occasionally.
func compareWithModel(t *testing.T, steps []step) {
	p := &pair{model: newModel(), follower: follower{}}
	var err error
	p.store, err = podconfig.NewStore(podconfig.StoreOptions{Rejected: func(r podconfig.Rejection) {
		p.rejected = append(p.rejected, reasonOf(r))
	}})
	require.NoError(t, err)
	for i, s := range steps {
		if i%4 == 0 {
			time.Sleep(time.Nanosecond)
		}
		if err := p.take(t, s); err != nil {
			require.NoError(t, err, "step %d: %s", i, s)
		}
		if i%50 == 0 || i == len(steps)-1 {
			p.checkContents(t)
		}
	}
}

func reasonOf(r podconfig.Rejection) string {
	switch {
	case errors.Is(r.Err, podconfig.ErrDuplicateName):
		return "name " + string(r.Pod.UID)
	case errors.Is(r.Err, podconfig.ErrDuplicateUID):
		return "uid " + string(r.Pod.UID)
	case errors.Is(r.Err, podconfig.ErrConflict):
		return "conflict " + string(r.Pod.UID)
	}
	return r.Err.Error()
}

// take runs a step on the store and the model. Afterwards it modifies input and output, which must
// not affect the store.
func (p *pair) take(t *testing.T, s step) error {
	p.rejected = nil
	c := s.change()
	updates, err := p.store.Merge(t.Context(), s.source, c)
	if err != nil {
		return err
	}
	got, err := hear(updates, p.rejected)
	if err != nil {
		return err
	}
	want := p.model.merge(s, time.Now().UnixNano())
	if !slices.Equal(want.lines, got.lines) || !slices.Equal(want.rejected, got.rejected) ||
		want.empty != got.empty || want.position != got.position || want.synced != got.synced {
		return fmt.Errorf("want %+v\n got %+v", want, got)
	}
	for _, u := range updates {
		if err := p.follower.follow(u); err != nil {
			return err
		}
		scribbleAll(u.Pods)
	}
	scribbleAll(c.Pods())
	return nil
}

func scribbleAll(pods []*v1.Pod) {
	for _, p := range pods {
		scribble(p)
	}
}

// checkContents compares the pods of the store, the model and the follower, which ignores trifles.
func (p *pair) checkContents(t *testing.T) {
	want, got := map[string][]held{}, map[string][]held{}
	for source, pods := range p.model.pods {
		if len(pods) > 0 {
			want[source] = pods
		}
	}
	for source, pod := range p.store.Pods() {
		got[source] = append(got[source], hold(pod))
	}
	require.Equal(t, want, got)

	known := map[key]held{}
	for source, pods := range want {
		for _, h := range pods {
			h.trifle = 0
			known[key{source, h.uid}] = h
		}
	}
	require.True(t, maps.Equal(known, p.follower), "want %v, followed to %v", known, p.follower)
}

// follower is a consumer that knows only the updates.
type follower map[key]held

type key struct{ source, uid string }

// follow applies an update. It returns an error for an update that contradicts earlier updates.
func (f follower) follow(u podconfig.Update) error {
	for _, p := range u.Pods {
		k := key{u.Source, string(p.UID)}
		_, known := f[k]
		if known == (u.Op == podconfig.OpAdd) {
			return fmt.Errorf("%s of %v: known before: %t", u.Op, k, known)
		}
		if u.Op == podconfig.OpRemove {
			delete(f, k)
			continue
		}
		h := hold(p)
		h.trifle = 0
		for other, o := range f {
			if other.source == u.Source && o.name == h.name && other != k {
				return fmt.Errorf("%s of %v: the name %s is still held by %v", u.Op, k, h.name, other)
			}
		}
		f[k] = h
	}
	return nil
}

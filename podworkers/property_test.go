// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
)

var (
	seeds    = flag.Uint64("seeds", casetest.Rounds[uint64](4000), "how many random scripts TestRandomScripts plays")
	onlySeed = flag.Uint64("seed", 0, "play this one script only")
)

// TestRandomScripts plays random updates, kills, orphans, housekeeping passes and shutdowns over five UIDs with a syncer
// of random manners, and checks rules 1, 2, 4, 7, 8 and 13 and that no pod is left without a next step, whenever
// nothing moves.
func TestRandomScripts(t *testing.T) {
	const batch = 500
	first, last := uint64(1), *seeds
	if *onlySeed != 0 {
		first, last = *onlySeed, *onlySeed
	}
	for from := first; from <= last; from += batch {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for seed := from; seed < from+batch && seed <= last; seed++ {
					newScript(t, seed).play()
					if t.Failed() {
						t.Fatalf("again with: go test -run TestRandomScripts -seed %d", seed)
					}
				}
			})
		})
	}
}

// observedUID is the script's memory of one UID.
type observedUID struct {
	version int    // of the pods sent
	latest  string // the version that must be delivered; "" if the script cannot tell
	known   bool
	grace   int64 // last seen in its WorkerInfo
	life    int   // the course's, then
	// channels were got from Terminated and have not been seen closed.
	channels []<-chan struct{}
}

// script plays one seed.
type script struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	uids    []types.UID
	seen    map[types.UID]*observedUID
	chaos   *chaos
	workers *Workers
	synced  bool
}

func newScript(t *testing.T, seed uint64) *script {
	s := &script{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), seen: map[types.UID]*observedUID{},
		uids: []types.UID{"a", "b", "c", "d", "e"},
	}
	for _, uid := range s.uids {
		s.seen[uid] = &observedUID{}
	}
	s.chaos = newChaos(seed, s.uids)
	s.workers = newWorkers(t, Options{Syncer: s.chaos})
	return s
}

// chance is true once in n times.
func (s *script) chance(n int) bool { return s.rng.IntN(n) == 0 }

func (s *script) play() {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	run := make(chan error, 1)
	begin := s.rng.IntN(4)
	for step := range 20 {
		if step == begin {
			go func() { run <- s.workers.Run(ctx) }()
		}
		s.step()
		if s.chance(3) {
			s.rush()
			continue
		}
		synctest.Wait()
		s.check()
	}
	synctest.Wait()
	s.check()
	if s.chance(2) {
		s.drain()
	}
	cancel()
	if err := <-run; err != nil {
		s.chaos.blame("Run: %v", err)
	}
	s.chaos.ended.Store(true)
	s.afterwards()
	for _, violation := range s.chaos.blamed() {
		s.t.Errorf("seed %d: %s", s.seed, violation)
	}
}

// rush makes the next step without waiting for the previous step to settle, so deliveries are not predictable.
func (s *script) rush() {
	for _, o := range s.seen {
		o.latest = ""
	}
	s.step()
	for _, o := range s.seen {
		o.latest = ""
	}
	synctest.Wait()
	s.check()
}

// step makes one random step.
func (s *script) step() {
	uid := s.uids[s.rng.IntN(len(s.uids))]
	switch s.rng.IntN(12) {
	case 0, 1, 2, 3:
		s.update(uid, UpdateType(s.rng.IntN(3)))
	case 4:
		s.update(uid, UpdateKill)
	case 5:
		s.orphan(uid)
	case 6, 7:
		s.housekeep()
	case 8:
		o := s.seen[uid]
		o.channels = append(o.channels, s.workers.Terminated(uid))
	default:
		time.Sleep(time.Duration(s.rng.IntN(15_000)) * time.Millisecond)
	}
}

// pod returns a random new version of a pod; c, d and e want the same key, and sometimes are alone with it.
func (s *script) pod(uid types.UID) *v1.Pod {
	o := s.seen[uid]
	o.version++
	options := []podOption{version(fmt.Sprint(o.version))}
	if uid >= "c" {
		options = append(options, static("web"))
	}
	if s.chance(10) {
		options = append(options, beingDeleted(s.rng.Int64N(40)))
	}
	if s.chance(15) {
		options = append(options, inPhase(v1.PodFailed))
	}
	return testPod(uid, options...)
}

func (s *script) update(uid types.UID, typ UpdateType) {
	u := Update{Type: typ, Pod: s.pod(uid)}
	if typ == UpdateKill && s.chance(2) {
		u.Kill = &KillOptions{Evict: s.chance(3), GracePeriodSeconds: seconds(s.rng.Int64N(40))}
	}
	before, known := s.workers.Info(uid)
	refused := known && (before.Finished || !before.HasConfig || typ == UpdateCreate && before.State != StateSync)
	if err := s.workers.UpdatePod(u); err != nil {
		s.chaos.blame("UpdatePod %s: %v", uid, err)
	}
	if !refused {
		s.seen[uid].latest = u.Pod.ResourceVersion
	}
}

func (s *script) orphan(uid types.UID) {
	u := Update{Type: UpdateKill, Orphan: &Orphan{UID: uid}}
	if s.chance(2) {
		u.Kill = &KillOptions{GracePeriodSeconds: seconds(s.rng.Int64N(40))}
	}
	if err := s.workers.UpdatePod(u); err != nil {
		s.chaos.blame("UpdatePod of orphan %s: %v", uid, err)
	}
}

// housekeep calls SyncKnownPods with a random choice of pods.
func (s *script) housekeep() {
	var desired []*v1.Pod
	for _, uid := range s.uids {
		if !s.chance(4) {
			desired = append(desired, testPod(uid))
		}
	}
	s.syncKnown(desired)
}

func (s *script) syncKnown(desired []*v1.Pod) {
	s.synced = true
	known := make(map[types.UID]WorkerInfo)
	if s.chance(2) {
		known = s.workers.SyncKnownPods(desired)
	} else {
		missing := s.workers.Retain(desired)
		for uid, info := range s.workers.All() {
			known[uid] = info
		}
		for _, pod := range desired {
			if _, ok := known[pod.UID]; !ok {
				require.Contains(s.t, missing, pod)
			}
		}
		require.Subset(s.t, desired, missing)
	}
	for _, uid := range s.uids {
		if _, ok := known[uid]; !ok {
			s.forget(uid)
		}
	}
}

// forget starts again with an unknown UID, and expects its channels to have closed. Before the first SyncKnownPods, a
// channel requested since then stays open.
func (s *script) forget(uid types.UID) {
	o := s.seen[uid]
	open := slices.DeleteFunc(o.channels, closed)
	if len(open) > 0 && s.synced {
		s.chaos.blame("%s is unknown, but Terminated is open", uid)
	}
	s.chaos.forgotten(uid)
	*o = observedUID{version: o.version, channels: open}
}

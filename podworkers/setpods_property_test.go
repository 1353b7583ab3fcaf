// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// forgetful is a chaos that starts a new life of a UID in Forgotten, not by its script.
type forgetful struct{ *chaos }

// Forgotten checks that no call is in flight, and yields so that a premature call would begin.
func (f forgetful) Forgotten(uid types.UID) {
	if s := f.look(uid); s.inFlight != callNone {
		f.blame("%s: Forgotten during %s", uid, s.inFlight)
	}
	calls := f.look(uid).calls
	for range 3 {
		runtime.Gosched()
	}
	if f.look(uid).calls != calls {
		f.blame("%s: a call began before Forgotten had returned", uid)
	}
	f.forgotten(uid)
}

// SyncTerminatingOrphan leaves the start of a new life to Forgotten.
func (f forgetful) SyncTerminatingOrphan(ctx context.Context, o Orphan, grace int64) error {
	_, err := f.call(ctx, o.UID, callTerminatingOrphan, grace, "")
	return err
}

// TestRandomPodSets plays random sets of pods, hints and orphans to Workers that are driven by SetPods alone, with a
// syncer of random manners. Once the syncer stops failing, every pod of the last set runs with its last content or has
// completed, and no other pod is known. After StopAll all are finished.
func TestRandomPodSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := uint64(1); seed <= *seeds/4; seed++ {
			playPodSets(t, seed)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	})
}

// podSets is one seed of TestRandomPodSets.
type podSets struct {
	rng     *rand.Rand
	uids    []types.UID
	chaos   *chaos
	workers *Workers
	pods    map[types.UID]*v1.Pod // of the last set
	version int
}

func playPodSets(t *testing.T, seed uint64) {
	s := &podSets{rng: rand.New(rand.NewPCG(seed, 2)), uids: []types.UID{"a", "b", "c", "d"}, pods: map[types.UID]*v1.Pod{}}
	s.chaos = newChaos(seed, s.uids)
	s.workers = newWorkers(t, Options{Syncer: forgetful{s.chaos}})
	stop := runUntilStopped(t, s.workers)
	for range 25 {
		s.step()
		if s.rng.IntN(2) == 0 {
			synctest.Wait()
		}
	}
	s.chaos.healthy.Store(true)
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	s.check(t)
	if err := s.workers.StopAll(t.Context()); err != nil {
		t.Error(err)
	}
	for uid, known := range s.workers.All() {
		if !known.Finished {
			t.Errorf("%s is not finished after StopAll: %s", uid, summary(known))
		}
	}
	stop()
	for _, violation := range s.chaos.blamed() {
		t.Error(violation)
	}
}

// step makes one random step.
func (s *podSets) step() {
	uid := s.uids[s.rng.IntN(len(s.uids))]
	switch s.rng.IntN(8) {
	case 0, 1, 2:
		s.pods[uid] = s.pod(uid)
		s.set()
	case 3:
		delete(s.pods, uid)
		s.set()
	case 4:
		s.workers.Sync(uid)
	case 5:
		if _, err := s.workers.StopUnknown(uid, "ns", string(uid), 1500*time.Millisecond); err != nil {
			s.chaos.blame("StopUnknown: %v", err)
		}
	default:
		time.Sleep(time.Duration(s.rng.IntN(15_000)) * time.Millisecond)
	}
}

// pod returns a new version of a pod. The pods c and d are static, have the same name, and sometimes have another
// manifest.
func (s *podSets) pod(uid types.UID) *v1.Pod {
	s.version++
	pod := testPod(uid, version(fmt.Sprint(s.version)))
	if uid >= "c" {
		static("web")(pod)
		pod.Annotations[podfacts.AnnotationHash] = fmt.Sprint(s.rng.IntN(2))
	}
	return pod
}

func (s *podSets) set() {
	var pods []*v1.Pod
	for _, uid := range s.uids {
		if pod, ok := s.pods[uid]; ok {
			pods = append(pods, pod)
		}
	}
	if err := s.workers.SetPods(pods, s.rng.IntN(2) == 0); err != nil {
		s.chaos.blame("SetPods: %v", err)
	}
}

// check compares the known pods with the last set.
func (s *podSets) check(t *testing.T) {
	for _, uid := range s.uids {
		known, ok := s.workers.Info(uid)
		pod, wanted := s.pods[uid]
		switch {
		case !wanted && ok && len(s.pods) > 0:
			t.Errorf("%s is not wanted and still known: %s", uid, summary(known))
		case wanted && !ok:
			t.Errorf("%s is wanted and unknown", uid)
		case wanted && known.State == StateSync && known.Started && s.chaos.look(uid).version != pod.ResourceVersion:
			t.Errorf("%s runs as version %s, wanted is %s", uid, s.chaos.look(uid).version, pod.ResourceVersion)
		case wanted && known.State != StateSync && (!known.Finished || known.RestartRequested):
			t.Errorf("%s is neither running nor finished: %s", uid, summary(known))
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// A pod is read in full only if the plan depends on details that a listing may lack.
func TestPodsThatGarbageCollectReadsInFull(t *testing.T) {
	logs := func(uid types.UID, counts ...int32) runtime.LogFolder {
		return runtime.LogFolder{UID: uid, Containers: []runtime.LogFiles{{Container: "a", RestartCounts: counts}}}
	}
	two := "u1 s1+ a=exited@5/s1 a=exited@6/s1" // the default policy removes one instance
	for _, tc := range []struct {
		name    string
		policy  runtime.GCPolicy
		fates   string
		pods    []string
		timed   bool // the listing has the times
		folders []runtime.LogFolder
		want    []int
	}{
		{"a minimum age needs times", runtime.GCPolicy{MinAge: 1}, "", []string{two}, false, nil, []int{0}},
		{"the order of age needs times", runtime.GCPolicy{MaxContainers: runtime.GCNone}, "", []string{two}, false, nil, []int{0}},
		{"the listing has the times", runtime.GCPolicy{MinAge: 1}, "", []string{two}, true, nil, nil},
		{"no age matters", runtime.GCPolicy{}, "", []string{two}, false, nil, nil},
		{"no garbage", runtime.GCPolicy{MinAge: 1, MaxContainers: 9}, "", []string{"u1 s1+ a=exited@5/s1"}, false, nil, nil},
		{"logs of removed instances", runtime.GCPolicy{}, "",
			[]string{"u1 s2+ s1- a=exited@5/s2 a=exited@6/s1", "u2 s2+ a=exited@5/s2 a=exited@6/s2", "u3 s3+ a=running@1/s3"}, true,
			[]runtime.LogFolder{logs("u1", 1), logs("u2", 1), logs("u3", 1)}, []int{0, 1}},
		{"removed instances without logs", runtime.GCPolicy{}, "", []string{two}, true, []runtime.LogFolder{logs("u2", 1)}, nil},
		{"only a sandbox is removed", runtime.GCPolicy{}, "", []string{"u1 s2+ s1- a=running@1/s2"}, true, []runtime.LogFolder{logs("u1", 0)}, nil},
		{"the whole log folder is removed", runtime.GCPolicy{}, "u1 gone", []string{two}, true, []runtime.LogFolder{logs("u1", 1)}, nil},
		{"logs of instances without records", runtime.GCPolicy{}, "", []string{"u1 s1+ a=running@1/s1"}, true, []runtime.LogFolder{logs("u1", 0, 1)}, []int{0}},
		{"the records of another container", runtime.GCPolicy{}, "", []string{"u1 s1+ a=running@1/s1 b=running@1/s1"}, true,
			[]runtime.LogFolder{logs("u1", 0, 1)}, []int{0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pods := gcPods(tc.pods...)
			for _, pod := range pods {
				for i := range pod.Containers {
					if !tc.timed {
						pod.Containers[i].CreatedAt, pod.Containers[i].FinishedAt = time.Time{}, time.Time{}
					}
				}
			}
			assert.Equal(t, tc.want, runtime.TooBrief(runtime.GCInput{
				Policy: tc.policy, Now: gcNow(), Pods: pods, Logs: tc.folders, Query: runtime.GCQuery{Fate: gcFates(tc.fates)},
			}))
		})
	}
}

// A pod without a readable status keeps everything, and no other pod does.
func TestGarbageCollectTouchesNoneOfThePodsThatItCannotRead(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		for _, uid := range []types.UID{"p1", "p2", "p3"} {
			n.ended(uid)
			n.fates[uid] = runtime.PodGone
		}
		n.policy.MinAge = time.Minute
		n.pass(time.Minute)
		for _, uid := range []types.UID{"p1", "p3"} {
			n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus, UID: uid}, Times: 1, Err: errors.New("broken record of " + string(uid))})
		}
		err := n.collect()
		require.ErrorContains(n, err, "broken record of p1")
		require.ErrorContains(n, err, "broken record of p3")
		require.ElementsMatch(n, []types.UID{"p1", "p3"}, n.left())
	})
}

// The logs of a gone pod stay until the runtime confirms that it has no remains of the pod, and the
// failure of a removal is told.
func TestGarbageCollectTellsOfLogsThatStay(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		n.ended("p")
		n.fates["p"] = runtime.PodGone
		n.inject(fake.Fault{On: fake.Target{Op: fake.OpPodStatus, UID: "p"}, Times: 1, Err: errors.New("no answer")})
		require.ErrorContains(n, n.collect(), "pod p: read its status: no answer")
		require.Empty(n, n.left())
		require.Equal(n, []string{"default_p_p/c/0.log"}, n.files())
		require.NoError(n, n.collect())
		require.Empty(n, n.files())
	})
}

// A link without its log file is removed.
func TestGarbageCollectRemovesDeadLinks(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		n.policy.LinkDir = n.T.TempDir()
		link := filepath.Join(n.policy.LinkDir, "web_default_c-1.log")
		require.NoError(n, os.Symlink(filepath.Join(n.logs, "gone.log"), link))
		require.NoError(n, n.collect())
		_, err := os.Lstat(link)
		require.ErrorIs(n, err, os.ErrNotExist)
	})
}

// stopsAtTheListing is a runtime whose caller stops right after the listing, which has no times.
type stopsAtTheListing struct {
	*fake.Runtime
	stop func()
}

func (s stopsAtTheListing) List(ctx context.Context, opts runtime.ListOptions) ([]*runtime.PodStatus, error) {
	defer s.stop()
	pods, err := s.Runtime.List(ctx, opts)
	for _, pod := range pods {
		for i := range pod.Containers {
			pod.Containers[i].FinishedAt = time.Time{}
		}
	}
	return pods, err
}

// After the end of its context GarbageCollect calls the runtime no more, although there is a free
// slot for each call.
func TestGarbageCollectCallsNothingAfterItsContext(t *testing.T) {
	gcInBubble(t, func(n *gcNode) {
		n.ended("p")
		n.fates["p"] = runtime.PodGone
		n.policy.MinAge = 1 // the statuses are read before the removals
		n.pass(time.Second)
		cause := errors.New("the agent stops")
		for range 20 {
			ctx, cancel := context.WithCancelCause(n.Context())
			n.over(stopsAtTheListing{n.rt, func() { cancel(cause) }})
			before := len(n.world.Journal())
			require.EqualError(n, n.manager.GarbageCollect(ctx, n.policy, n.query()), "garbage collection: the agent stops")
			require.Equal(n, before+1, len(n.world.Journal()))
		}
	})
}

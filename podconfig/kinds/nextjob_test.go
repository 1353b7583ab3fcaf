// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig/kinds"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func number(n int32) *int32 { return &n }

// end ends the i-th pod of a record.
func end(r kinds.JobRecord, i int, phase v1.PodPhase, at time.Time) kinds.JobRecord {
	pods := append([]kinds.JobPod(nil), r.Pods...)
	pods[i].Phase, pods[i].Finished = phase, at
	r.Pods = pods
	return r
}

func active(r kinds.JobRecord) (numbers []int32) {
	for _, p := range r.Pods {
		if p.Phase != v1.PodSucceeded && p.Phase != v1.PodFailed {
			numbers = append(numbers, p.Number)
		}
	}
	return numbers
}

func TestNextJob(t *testing.T) {
	one := kinds.JobSpec{Parallelism: 1, Completions: number(1), BackoffLimit: 6}
	t.Run("a success completes", func(t *testing.T) {
		r, again := kinds.NextJob(&one, kinds.JobRecord{}, noon)
		require.Equal(t, []int32{0}, active(r))
		require.Zero(t, again)
		r, _ = kinds.NextJob(&one, end(r, 0, v1.PodSucceeded, noon), noon.Add(time.Second))
		assert.Equal(t, kinds.JobComplete, r.Result)
		assert.Equal(t, "CompletionsReached", r.Reason)
		assert.Equal(t, noon.Add(time.Second), r.Finished)
		assert.Len(t, r.Pods, 1, "kept for its log")
		same, _ := kinds.NextJob(&one, r, noon.Add(time.Hour))
		assert.Equal(t, r, same)
	})
	t.Run("failures pause 10 s, 20 s and so on, measured from the end of the pod", func(t *testing.T) {
		r, _ := kinds.NextJob(&one, kinds.JobRecord{}, noon)
		at := noon
		for i, pause := range []time.Duration{10, 20, 40, 80, 160, 320} {
			var again time.Time
			r, again = kinds.NextJob(&one, end(r, i, v1.PodFailed, at), at.Add(3*time.Second))
			require.Empty(t, active(r), "pod %d", i)
			require.Equal(t, at.Add(pause*time.Second), again)
			before, _ := kinds.NextJob(&one, r, again.Add(-1))
			require.Empty(t, active(before))
			at = again
			r, _ = kinds.NextJob(&one, r, at)
			require.Equal(t, []int32{int32(i + 1)}, active(r))
		}
		r, _ = kinds.NextJob(&one, end(r, 6, v1.PodFailed, at), at)
		assert.Equal(t, kinds.JobFailed, r.Result)
		assert.Equal(t, "BackoffLimitExceeded", r.Reason)
	})
	t.Run("deadline", func(t *testing.T) {
		s := one
		s.DeadlineSeconds = 30
		r, again := kinds.NextJob(&s, kinds.JobRecord{}, noon)
		require.Equal(t, noon.Add(30*time.Second), again)
		r, _ = kinds.NextJob(&s, r, again)
		assert.Equal(t, "DeadlineExceeded", r.Reason)
		assert.Empty(t, r.Pods, "the pod is stopped")
	})
	t.Run("restarts of containers count", func(t *testing.T) {
		s := one
		s.BackoffLimit = 2
		r, _ := kinds.NextJob(&s, kinds.JobRecord{}, noon)
		r.Pods[0].Restarts = 1
		r, _ = kinds.NextJob(&s, r, noon)
		require.Empty(t, r.Result)
		r.Pods[0].Restarts = 2
		r, _ = kinds.NextJob(&s, r, noon)
		assert.Equal(t, "BackoffLimitExceeded", r.Reason)
	})
	t.Run("a success ends the failures in a row", func(t *testing.T) {
		s := kinds.JobSpec{Parallelism: 1, Completions: number(3), BackoffLimit: 6}
		r, _ := kinds.NextJob(&s, kinds.JobRecord{}, noon)
		r, again := kinds.NextJob(&s, end(r, 0, v1.PodFailed, noon), noon)
		r, _ = kinds.NextJob(&s, r, again)
		r, _ = kinds.NextJob(&s, end(r, 1, v1.PodSucceeded, again), again)
		assert.Equal(t, []int32{2}, active(r), "at once")
	})
	t.Run("suspend stops the pods and the time", func(t *testing.T) {
		r, _ := kinds.NextJob(&one, kinds.JobRecord{}, noon)
		s := one
		s.Suspend = true
		r, again := kinds.NextJob(&s, r, noon.Add(time.Minute))
		require.Empty(t, r.Pods)
		require.Zero(t, again)
		r, _ = kinds.NextJob(&one, r, noon.Add(time.Hour))
		assert.Equal(t, noon.Add(time.Hour), r.Started)
		assert.Equal(t, []int32{1}, active(r), "a new pod")
	})
	t.Run("pods are removed after the time to live", func(t *testing.T) {
		s := one
		s.TTLSeconds = number(60)
		r, _ := kinds.NextJob(&s, kinds.JobRecord{}, noon)
		r, again := kinds.NextJob(&s, end(r, 0, v1.PodSucceeded, noon), noon)
		require.Equal(t, noon.Add(time.Minute), again)
		require.Len(t, r.Pods, 1)
		r, again = kinds.NextJob(&s, r, again)
		assert.Empty(t, r.Pods)
		assert.Zero(t, again)
		assert.Equal(t, kinds.JobComplete, r.Result)
	})
	t.Run("a work queue ends with its first success", func(t *testing.T) {
		s := kinds.JobSpec{Parallelism: 3, BackoffLimit: 6}
		r, _ := kinds.NextJob(&s, kinds.JobRecord{}, noon)
		require.Len(t, active(r), 3)
		r, _ = kinds.NextJob(&s, end(r, 0, v1.PodSucceeded, noon), noon)
		require.Equal(t, []int32{1, 2}, active(r), "the others end by themselves, without a new pod")
		require.Empty(t, r.Result)
		r, _ = kinds.NextJob(&s, end(end(r, 1, v1.PodSucceeded, noon), 2, v1.PodFailed, noon), noon)
		assert.Equal(t, kinds.JobComplete, r.Result)
	})
	t.Run("indexes", func(t *testing.T) {
		s := kinds.JobSpec{Parallelism: 2, Completions: number(3), BackoffLimit: 6, Indexed: true}
		r, _ := kinds.NextJob(&s, kinds.JobRecord{}, noon)
		require.Equal(t, []int32{0, 1}, []int32{r.Pods[0].Index, r.Pods[1].Index})
		r, again := kinds.NextJob(&s, end(r, 0, v1.PodFailed, noon), noon)
		r, _ = kinds.NextJob(&s, end(r, 1, v1.PodSucceeded, noon), again)
		assert.Equal(t, []int32{1}, r.Indexes)
		assert.Equal(t, []int32{0, 2}, []int32{r.Pods[2].Index, r.Pods[3].Index}, "the index that failed comes again")
	})
	t.Run("fewer pods in parallel", func(t *testing.T) {
		s := kinds.JobSpec{Parallelism: 3, Completions: number(9)}
		r, _ := kinds.NextJob(&s, kinds.JobRecord{}, noon)
		s.Parallelism = 1
		r, _ = kinds.NextJob(&s, r, noon)
		assert.Equal(t, []int32{0}, active(r))
	})
}

// Random Jobs keep their limits at every step, and end.
func TestRandomJobs(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := kinds.JobSpec{Parallelism: rng.Int32N(4) + 1, BackoffLimit: rng.Int32N(5), Indexed: rng.IntN(3) == 0}
		if s.Indexed || rng.IntN(4) > 0 {
			s.Completions = number(rng.Int32N(8))
		}
		if rng.IntN(3) == 0 {
			s.DeadlineSeconds = rng.Int64N(200) + 1
		}
		now, r := noon, kinds.JobRecord{}
		succeeded, failed := 0, 0 // a count of our own
		seen := map[int32]bool{}
		for step := 0; r.Result == ""; step++ {
			require.Less(t, step, 1000, "seed %d", seed)
			before := r
			next, again := kinds.NextJob(&s, r, now)
			require.Equal(t, before, r, "pure")
			r = next
			n := active(r)
			for _, p := range n {
				seen[p] = true
			}
			require.LessOrEqual(t, len(n), int(s.Parallelism), "seed %d", seed)
			require.Equal(t, succeeded, int(r.Succeeded), "seed %d", seed)
			require.Equal(t, failed, int(r.Failed), "seed %d", seed)
			require.LessOrEqual(t, failed, int(s.BackoffLimit)+int(s.Parallelism), "seed %d", seed)
			if s.Completions != nil {
				require.LessOrEqual(t, int(r.Succeeded)+len(n), int(*s.Completions), "seed %d", seed)
			}
			if r.Result != "" {
				require.Empty(t, n, "seed %d", seed)
				break
			}
			require.True(t, len(n) > 0 || again.After(now), "seed %d: nothing will happen", seed)
			now = now.Add(time.Duration(rng.IntN(20)) * time.Second)
			if len(n) == 0 {
				now = again
			}
			for i, p := range r.Pods {
				switch {
				case p.Phase != "":
				case rng.IntN(3) == 0:
					r = end(r, i, v1.PodSucceeded, now)
					succeeded++
				case rng.IntN(3) == 0:
					r = end(r, i, v1.PodFailed, now)
					failed++
				}
			}
		}
		require.Equal(t, int(r.Number), len(seen), "seed %d: a number twice or never", seed)
	}
}

// SPDX-License-Identifier: Apache-2.0

package shutdown

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
)

func ending(name string, grace int64, change ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.UID = name, types.UID(name)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	for _, c := range change {
		c(pod)
	}
	return pod
}

func priority(p int32) func(*v1.Pod) { return func(pod *v1.Pod) { pod.Spec.Priority = &p } }

func class(name string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.PriorityClassName = name }
}

// spoken formats a plan.
func spoken(groups []group) (lines []string) {
	for _, g := range groups {
		line := g.limit.String() + ":"
		for _, s := range g.stops {
			line += fmt.Sprintf(" %s %ds", s.uid, s.grace)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestShutdownPlan(t *testing.T) {
	two, err := GracePeriods(30*time.Second, 10*time.Second)
	require.NoError(t, err)
	four := []Class{ // as in KEP-2712, and not in order
		{100_000, 10 * time.Second}, {0, 60 * time.Second}, {10_000, 180 * time.Second}, {1_000, 120 * time.Second},
	}
	for _, tc := range []struct {
		name      string
		classes   []Class
		pods      []*v1.Pod
		strangers []types.UID
		want      []string
	}{
		{"nothing runs", two, nil, nil, nil},
		{"ordinary ones first, each within its own grace", two,
			[]*v1.Pod{ending("a", 30), ending("b", 5), ending("c", 30, priority(systemCritical)), ending("d", 2, priority(systemNodeCritical))}, nil,
			[]string{"20s: a 19s b 5s", "10s: c 9s d 2s"}},
		{"nobody waits for a class without pods", two,
			[]*v1.Pod{ending("c", 30, priority(systemCritical))}, nil, []string{"10s: c 9s"}},
		{"classes of static pods by name", two,
			[]*v1.Pod{ending("c", 3, class("system-cluster-critical")), ending("n", 3, class("system-node-critical")), ending("x", 3, class("mine"))}, nil,
			[]string{"20s: x 3s", "10s: c 3s n 3s"}},
		{"a negative priority is ordinary", two, []*v1.Pod{ending("a", 3, priority(-5))}, nil, []string{"20s: a 3s"}},
		{"what is below the lowest class belongs to it", four, []*v1.Pod{ending("a", 3, priority(-5))}, nil, []string{"1m0s: a 3s"}},
		{"by priority", four,
			[]*v1.Pod{ending("a", 500, priority(100_000)), ending("b", 500, priority(99_999)), ending("c", 500, priority(10_000)),
				ending("d", 500, priority(9_999)), ending("e", 500, priority(999)), ending("f", 500)}, nil,
			[]string{"1m0s: e 59s f 59s", "2m0s: d 119s", "3m0s: b 179s c 179s", "10s: a 9s"}},
		{"strangers go first", four, []*v1.Pod{ending("a", 3, priority(2_000))}, []types.UID{"s"}, []string{"1m0s: s 59s", "2m0s: a 3s"}},
		{"a grace of nothing", two, []*v1.Pod{ending("a", 0), ending("b", -7)}, nil, []string{"20s: a 1s b 1s"}},
		{"a second for all", []Class{{0, time.Second}}, []*v1.Pod{ending("a", 30)}, nil, []string{"1s: a 1s"}},
		{"no class for critical pods", []Class{{math.MinInt32, 5 * time.Second}},
			[]*v1.Pod{ending("a", 30), ending("c", 30, priority(systemCritical))}, nil, []string{"5s: a 4s c 4s"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, spoken(plan(tc.classes, tc.pods, tc.strangers)))
		})
	}
}

// The reference follows KEP-2712 directly: a pod belongs to the class with the highest priority not
// above its own, else to the lowest class.
func TestShutdownPlanOfRandomNodes(t *testing.T) {
	for seed := range casetest.Rounds[uint64](2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		var classes []Class
		for p := range int32(1 + r.IntN(5)) {
			classes = append(classes, Class{Priority: 10*p - int32(r.IntN(9)), Grace: time.Second + time.Duration(r.IntN(60_000))*time.Millisecond})
		}
		r.Shuffle(len(classes), func(i, j int) { classes[i], classes[j] = classes[j], classes[i] })
		var pods []*v1.Pod
		for i := range r.IntN(12) {
			pods = append(pods, ending(fmt.Sprint(i), int64(r.IntN(70)-2), priority(int32(r.IntN(70)-15))))
		}
		groups := plan(classes, pods, nil)

		var longest time.Duration
		seen := make(map[types.UID]int)
		last := int32(math.MinInt32)
		for _, g := range groups {
			longest += g.limit
			highest := last
			for _, s := range g.stops {
				seen[s.uid]++
				want := classes[0]
				for _, c := range classes {
					mine := c.Priority <= *s.pod.Spec.Priority
					switch was := want.Priority <= *s.pod.Spec.Priority; {
					case mine && (!was || c.Priority > want.Priority), !mine && !was && c.Priority < want.Priority:
						want = c
					}
				}
				require.Equal(t, want.Grace, g.limit, "seed %d", seed)
				require.GreaterOrEqual(t, want.Priority, last, "seed %d: lower classes first", seed)
				highest = max(highest, want.Priority)
				own := *s.pod.Spec.TerminationGracePeriodSeconds
				require.LessOrEqual(t, s.grace, max(own, 1), "seed %d", seed)
				require.LessOrEqual(t, time.Duration(s.grace)*time.Second, g.limit, "seed %d", seed)
				if full := time.Duration(own) * time.Second; own > 0 && full+killMargin <= g.limit {
					require.Equal(t, own, s.grace, "seed %d: all its grace where there is time", seed)
				}
			}
			last = highest
		}
		require.Len(t, seen, len(pods), "seed %d", seed)
		require.LessOrEqual(t, longest, timeOf(classes), "seed %d", seed)
		require.False(t, slices.ContainsFunc(groups, func(g group) bool { return len(g.stops) == 0 }), "seed %d", seed)
	}
}

func TestGracePeriodsAreChecked(t *testing.T) {
	for _, tc := range []struct {
		total, critical time.Duration
		classes         int
		fails           bool
	}{
		{0, 0, 0, false},
		{30 * time.Second, 0, 1, false},
		{30 * time.Second, 10 * time.Second, 2, false},
		{0, 10 * time.Second, 0, true},
		{10 * time.Second, 10 * time.Second, 0, true},
		{10 * time.Second, 20 * time.Second, 0, true},
		{30 * time.Second, time.Millisecond, 0, true},
		{time.Millisecond, 0, 0, true},
		{-time.Second, 0, 0, true},
		{30 * time.Second, -time.Second, 0, true},
	} {
		classes, err := GracePeriods(tc.total, tc.critical)
		require.Equal(t, tc.fails, err != nil, "%s, %s", tc.total, tc.critical)
		require.Len(t, classes, tc.classes, "%s, %s", tc.total, tc.critical)
		require.NoError(t, Validate(classes))
		require.Equal(t, !tc.fails && tc.classes > 0, timeOf(classes) == tc.total && tc.total > 0)
	}
	require.ErrorContains(t, Validate([]Class{{0, time.Millisecond}}), "a second or more")
	require.ErrorContains(t, Validate([]Class{{7, time.Second}, {7, time.Minute}}), "priority 7 is there twice")
}

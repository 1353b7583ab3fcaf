// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

func gcPolicy(perContainer, total int) runtime.GCPolicy {
	return runtime.GCPolicy{MaxPerPodContainer: perContainer, MaxContainers: total}
}

func TestPlanGCContainers(t *testing.T) {
	off := gcPolicy(-1, -1)
	for _, tc := range []struct {
		name   string
		policy runtime.GCPolicy
		fates  string
		pods   []string
		want   []string
	}{
		{"nothing ended, nothing to do", gcPolicy(runtime.GCNone, runtime.GCNone), "", []string{"u1 s1+ a=running@1/s1"}, nil},
		{"the default keeps one beside the running one", runtime.GCPolicy{}, "",
			[]string{"u1 s1+ a=running@1/s1 a=exited@5/s1 a=exited@9/s1"}, []string{"u1.a.9"}},
		{"the default keeps one in all if none runs", runtime.GCPolicy{}, "",
			[]string{"u1 s1+ a=exited@5/s1 a=exited@7/s1 a=exited@9/s1"}, []string{"u1.a.9", "u1.a.7"}},
		{"the default has no limit for all together", runtime.GCPolicy{}, "",
			[]string{"u1 s1+ a=exited@5/s1 b=exited@7/s1 c=exited@9/s1", "u2 s2+ a=exited@5/s2 b=exited@7/s2 c=exited@9/s2"}, nil},
		{"the default keeps one of a pod that is over", runtime.GCPolicy{}, "u1 over",
			[]string{"u1 s1- a=exited@5/s1 a=exited@9/s1"}, []string{"u1.a.9"}},
		{"a limit for all leaves the default of each", gcPolicy(0, 5), "",
			[]string{"u1 s1+ a=exited@5/s1 a=exited@7/s1"}, []string{"u1.a.7"}},
		{"containers and pods are counted apart", gcPolicy(1, -1), "",
			[]string{"u1 s1+ a=exited@5/s1 b=exited@6/s1 a=exited@7/s1", "u2 s2+ a=exited@8/s2 a=exited@9/s2"},
			[]string{"u1.a.7", "u2.a.9"}},
		{"negative limits are none", off, "", []string{"u1 s1+ a=exited@5/s1 a=exited@7/s1 a=exited@9/s1"}, nil},
		{"GCNone keeps the newest instance of a pod that lives", gcPolicy(runtime.GCNone, -1), "",
			[]string{"u1 s1+ a=exited@5/s1 a=exited@9/s1 b=running@1/s1 b=exited@8/s1"}, []string{"u1.a.9", "u1.b.8"}},
		{"GCNone keeps nothing of a pod that is over", gcPolicy(runtime.GCNone, -1), "u1 over",
			[]string{"u1 s1- a=exited@5/s1 a=exited@9/s1"}, []string{"u1.a.9", "u1.a.5"}},

		{"a pod that is gone goes whole", off, "u1 gone",
			[]string{"u1 s1- a=exited@5/s1 b=created@6/s1 a=exited@9/s1", "u2 s2- a=exited@9/s2"},
			[]string{"u1.a.9", "u1.a.5", "u1.b.6", "s1"}},
		{"what runs does not, nor its sandbox", off, "u1 gone",
			[]string{"u1 s1+ a=running@5/s1 a=exited@9/s1"}, []string{"u1.a.9"}},
		{"a pod that is over stays under its limits", gcPolicy(1, -1), "u1 over",
			[]string{"u1 s1- a=exited@5/s1 a=exited@9/s1"}, []string{"u1.a.9"}},
		{"unless disk space is short", runtime.GCPolicy{AllUnused: true}, "u1 over",
			[]string{"u1 s1- a=exited@5/s1 a=exited@9/s1"}, []string{"u1.a.9", "u1.a.5", "s1"}},
		{"which is no reason for a pod that lives", runtime.GCPolicy{AllUnused: true}, "",
			[]string{"u1 s1- a=exited@5/s1"}, nil},

		{"unknown ones are stopped first", gcPolicy(1, -1), "u2 gone",
			[]string{"u1 s1+ a=running@1/s1 a=exited@5/s1 a=unknown@9/s1", "u2 s2- a=unknown@3/s2"},
			[]string{"!u2.a.3", "!u1.a.9", "s2"}},
		{"what never ran counts nowhere and goes if it has a successor", gcPolicy(1, 2), "",
			[]string{"u1 s1+ a=created@1/s1 a=created@2/s1 a=exited@5/s1 b=exited@9/s1"}, []string{"u1.a.2"}},
		{"and goes with a pod that is over", off, "u1 over", []string{"u1 s1- a=created@1/s1"}, []string{"u1.a.1"}},

		{"MinAge", runtime.GCPolicy{MinAge: 8 * time.Minute, MaxPerPodContainer: runtime.GCNone}, "u1 over, u2 gone",
			[]string{"u1 s1- a=exited@5/s1 b=exited@8/s1 a=exited@9/s1", "u2 s2- a=exited@7/s2 b=exited@10/s2"},
			[]string{"u2.b.10", "u1.a.9", "u1.b.8"}},
		{"what is too young does not count either", runtime.GCPolicy{MinAge: 8 * time.Minute}, "",
			[]string{"u1 s1+ a=exited@1/s1 a=exited@2/s1 a=exited@9/s1"}, nil},
		{"age counts from the end, not from the creation",
			runtime.GCPolicy{MinAge: 8 * time.Minute, MaxPerPodContainer: runtime.GCNone}, "u1 over",
			[]string{"u1 s1- a=exited@1-600/s1"}, nil},

		{"total: not above it", gcPolicy(-1, 4), "",
			[]string{"u1 s1+ a=running@1/s1 a=exited@2/s1 a=exited@3/s1 b=running@1/s1 b=exited@8/s1 b=exited@9/s1"}, nil},
		{"total: an equal share for each container first", gcPolicy(-1, 4), "",
			[]string{"u1 s1+ a=running@1/s1 a=exited@2/s1 a=exited@3/s1 a=exited@4/s1 b=running@1/s1 b=exited@8/s1 b=exited@9/s1"},
			[]string{"u1.a.4"}},
		{"total: a share is at least one, then the oldest go", gcPolicy(-1, 1), "u1 over, u2 over, u3 over",
			[]string{"u1 s1- a=exited@2/s1 a=exited@3/s1", "u2 s2- a=exited@9/s2", "u3 s3- a=exited@5/s3"},
			[]string{"u1.a.3", "u2.a.9", "u3.a.5"}},
		{"total: not the newest of pods that live", gcPolicy(-1, runtime.GCNone), "u2 over",
			[]string{"u1 s1+ a=exited@9/s1", "u2 s2- a=exited@2/s2"}, []string{"u2.a.2"}},
		{"total: counted after the limit of each", gcPolicy(1, 2), "",
			[]string{"u1 s1+ a=exited@2/s1 a=exited@3/s1 b=running@1/s1 b=exited@9/s1"}, []string{"u1.a.3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runtime.PlanGC(runtime.GCInput{
				Policy: tc.policy, Now: gcNow(), Pods: gcPods(tc.pods...),
				Query: runtime.GCQuery{Fate: gcFates(tc.fates), Reported: allReported},
			})
			require.Equal(t, append([]string{}, tc.want...), brief(got))
		})
	}
}

// An instance that an earlier agent requested, and that appeared after its successor, is the newest record. The
// record of the successor stays: without it, a container that has ended for good starts again.
func TestPlanGCOfALateInstance(t *testing.T) {
	pods := gcPods("u1 s1+ a=created@1/s1 a=exited@5/s1")
	pods[0].Containers[0].RestartCount = pods[0].Containers[1].RestartCount
	got := runtime.PlanGC(runtime.GCInput{
		Policy: gcPolicy(runtime.GCNone, runtime.GCNone), Now: gcNow(), Pods: pods, Query: runtime.GCQuery{Fate: gcFates(""), Reported: allReported},
	})
	require.Equal(t, []string{"u1.a.1"}, brief(got))
}

// An instance with an end in the future, because the clock was set back, is removed like others if
// there is no minimum age.
func TestPlanGCOfAnEndInTheFuture(t *testing.T) {
	for age, want := range map[time.Duration][]string{0: {"u1.a.5"}, time.Minute: {}} {
		got := runtime.PlanGC(runtime.GCInput{
			Policy: runtime.GCPolicy{MinAge: age, MaxPerPodContainer: runtime.GCNone}, Now: minutesAgo(60), Pods: gcPods("u1 s1- a=exited@5/s1"),
			Query: runtime.GCQuery{Fate: gcFates("u1 over"), Reported: allReported},
		})
		require.Equal(t, want, brief(got), age)
	}
}

// An unreported exit is kept: exit code 0 became 137 after the record was removed before the status
// was written (kubernetes#104107).
func TestUpstream104107AnUnreportedExitIsKept(t *testing.T) {
	pods := []string{"u1 s1- a=exited@5/s1 a=exited@6/s1 a=exited@9/s1", "u2 s2+ a=running@1/s2 a=exited@4/s2 a=unknown@7/s2"}
	short := runtime.GCPolicy{MaxPerPodContainer: runtime.GCNone, MaxContainers: runtime.GCNone, AllUnused: true}
	for _, tc := range []struct {
		name     string
		reported func(types.UID, runtime.ContainerID) bool
		fates    string
		want     []string
	}{
		{"nothing was reported", noneReported, "u1 over", []string{}},
		{"all was", allReported, "u1 over", []string{"u1.a.9", "u1.a.6", "u1.a.5", "!u2.a.7", "u2.a.4", "s1"}},
		{"one was not", func(_ types.UID, id runtime.ContainerID) bool { return id.ID != "u1.a.6" }, "u1 over",
			[]string{"u1.a.9", "u1.a.5", "!u2.a.7", "u2.a.4"}},
		{"nobody says: the newest end of each container was not", nil, "u1 over", []string{"u1.a.9", "u1.a.6", "!u2.a.7"}},
		{"of a pod that is gone nobody wants to know", noneReported, "u1 gone", []string{"u1.a.9", "u1.a.6", "u1.a.5", "s1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runtime.PlanGC(runtime.GCInput{
				Policy: short, Now: gcNow(), Pods: gcPods(pods...),
				Query: runtime.GCQuery{Fate: gcFates(tc.fates), Reported: tc.reported},
			})
			require.Equal(t, tc.want, brief(got))
		})
	}
}

func TestPlanGCSandboxes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fates string
		pods  []string
		want  []string
	}{
		{"the newest stays, older ones go, oldest first", "", []string{"u1 s2+ s1- s0-"}, []string{"s0", "s1"}},
		{"also if it is not ready", "", []string{"u1 s2- s1-"}, []string{"s1"}},
		{"not while a container is in it, in whatever state", "",
			[]string{"u1 s2+ s1- s0- a=exited@5/s1 b=running@5/s0"}, nil},
		{"but when that goes, too", "", []string{"u1 s2+ s1- a=running@1/s2 a=exited@5/s2 a=exited@9/s1"}, []string{"u1.a.9", "s1"}},
		{"never one that is ready", "u1 gone", []string{"u1 s2+ s1+ s0-"}, []string{"s0"}},
		{"all of a pod that is gone", "u1 gone", []string{"u1 s1- s0-"}, []string{"s0", "s1"}},
		{"of a pod that is over the newest stays", "u1 over", []string{"u1 s1- s0-"}, []string{"s0"}},
		{"a container without a sandbox record is in nobody's way", "u1 gone", []string{"u1 s1- a=running@1/s9"}, []string{"s1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runtime.PlanGC(runtime.GCInput{
				Policy: runtime.GCPolicy{}, Now: gcNow(), Pods: gcPods(tc.pods...),
				Query: runtime.GCQuery{Fate: gcFates(tc.fates)},
			})
			require.Equal(t, append([]string{}, tc.want...), brief(got))
		})
	}
}

func TestPlanGCLogs(t *testing.T) {
	folder := func(uid types.UID, container string, counts ...int32) runtime.LogFolder {
		return runtime.LogFolder{Name: "ns_n_" + string(uid), UID: uid, Containers: []runtime.LogFiles{{Container: container, RestartCounts: counts}}}
	}
	for _, tc := range []struct {
		name  string
		fates string
		pods  []string
		logs  []runtime.LogFolder
		links []runtime.LogLink
		want  []string
	}{
		{"of a pod that is gone and has no record", "u1 gone", nil, []runtime.LogFolder{folder("u1", "a", 0, 1)}, nil, []string{"ns_n_u1"}},
		{"of one whose records go now", "u1 gone", []string{"u1 s1- a=exited@5/s1"}, []runtime.LogFolder{folder("u1", "a", 0)}, nil,
			[]string{"u1.a.5", "s1", "ns_n_u1"}},
		{"not while something of it is left", "u1 gone", []string{"u1 s1+"}, []runtime.LogFolder{folder("u1", "a", 0)}, nil, nil},
		{"not of one that is over, nor of one that nobody knows about", "u1 over", nil,
			[]runtime.LogFolder{folder("u1", "a", 0), folder("u2", "a", 0)}, nil, nil},
		{"log files of dropped records, and older ones", "", []string{"u1 s1+ a=running@1/s1 a=exited@5/s1 a=exited@6/s1"},
			[]runtime.LogFolder{folder("u1", "a", 0, 1, 2)}, nil, []string{"u1.a.6", "ns_n_u1/a/0.log"}},
		{"what is above all records may be about to run", "", []string{"u1 s1+ a=running@1/s1"},
			[]runtime.LogFolder{folder("u1", "a", 0, 1)}, nil, nil},
		{"without records the highest stays, for the restart count", "", []string{"u1 s1+"},
			[]runtime.LogFolder{folder("u1", "a", 3, 4, 7)}, nil, []string{"ns_n_u1/a/3.log", "ns_n_u1/a/4.log"}},
		{"links", "", []string{"u1 s1+ a=running@1/s1 a=exited@5/s1"}, nil,
			[]runtime.LogLink{{Name: "l1", ContainerID: "u1.a.1"}, {Name: "l2", ContainerID: "u1.a.5"}, {Name: "l3", ContainerID: "nobody"}},
			[]string{"l2", "l3"}},
		{"a link of the second instance of the second pod", "", []string{"u1 s1+ a=running@1/s1", "u2 s2+ a=exited@3/s2 b=running@2/s2"}, nil,
			[]runtime.LogLink{{Name: "l1", ContainerID: "u2.b.2"}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runtime.PlanGC(runtime.GCInput{
				Policy: runtime.GCPolicy{}, Now: gcNow(), Pods: gcPods(tc.pods...), Logs: tc.logs, Links: tc.links,
				Query: runtime.GCQuery{Fate: gcFates(tc.fates)},
			})
			require.Equal(t, append([]string{}, tc.want...), brief(got))
		})
	}
}

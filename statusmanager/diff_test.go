// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/keelson-dev/keelson/statusmanager"
)

// TestDiffKnowsEveryField sets each field of a status alone; fields of other writers must not be in the patch.
func TestDiffKnowsEveryField(t *testing.T) {
	others := []string{"NominatedNodeName", "ResourceClaimStatuses", "ExtendedResourceClaimStatus", "NodeAllocatableResourceClaimStatuses"}
	from, to := v1.PodStatus{}, fullStatus(1)
	fields := reflect.TypeFor[v1.PodStatus]()
	for i := range fields.NumField() {
		field := fields.Field(i)
		t.Run(field.Name, func(t *testing.T) {
			changed := v1.PodStatus{}
			value := reflect.ValueOf(to).Field(i)
			for _, other := range others {
				if field.Name == other {
					reflect.ValueOf(&changed).Elem().Field(i).Set(value)
					patch, err := statusmanager.Diff(&from, &changed, "u")
					require.NoError(t, err)
					assert.Nil(t, patch)
					assert.True(t, statusmanager.Equal(&from, &changed))
					return
				}
			}
			require.False(t, value.IsZero(), "fullStatus does not set it")
			reflect.ValueOf(&changed).Elem().Field(i).Set(value)
			assert.False(t, statusmanager.Equal(&from, &changed))
			requirePatched(t, from, changed, false)
			if field.Name != "QOSClass" { // it is never taken back
				requirePatched(t, changed, from, false)
			}
		})
	}
}

// TestDiffOfQuantities: an equal quantity in another notation is no difference, even beside a changed field.
func TestDiffOfQuantities(t *testing.T) {
	with := func(cpu, message string) *v1.PodStatus {
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
		return &v1.PodStatus{Message: message, ContainerStatuses: []v1.ContainerStatus{{Name: "main", AllocatedResources: list}}}
	}
	patch, err := statusmanager.Diff(with("1", "before"), with("1000m", "after"), "u")
	require.NoError(t, err)
	assert.JSONEq(t, `{"metadata":{"uid":"u"},"status":{"message":"after"}}`, string(patch))
}

// TestDiffSendsEachFieldOfACondition: one changed field is sufficient.
func TestDiffSendsEachFieldOfACondition(t *testing.T) {
	old := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse}
	at := metav1.Unix(1_800_000_000, 0)
	for field, edit := range map[string]func(*v1.PodCondition){
		`"status":"True"`:                             func(c *v1.PodCondition) { c.Status = v1.ConditionTrue },
		`"reason":"r"`:                                func(c *v1.PodCondition) { c.Reason = "r" },
		`"message":"m"`:                               func(c *v1.PodCondition) { c.Message = "m" },
		`"observedGeneration":3`:                      func(c *v1.PodCondition) { c.ObservedGeneration = 3 },
		`"lastProbeTime":"2027-01-15T08:00:00Z"`:      func(c *v1.PodCondition) { c.LastProbeTime = at },
		`"lastTransitionTime":"2027-01-15T08:00:00Z"`: func(c *v1.PodCondition) { c.LastTransitionTime = at },
	} {
		changed := old
		edit(&changed)
		patch, err := statusmanager.Diff(&v1.PodStatus{Conditions: []v1.PodCondition{old}}, &v1.PodStatus{Conditions: []v1.PodCondition{changed}}, "u")
		require.NoError(t, err)
		assert.Contains(t, string(patch), field)
	}
}

// TestDiffAsStrategicPatch compares with the library of the API server, on random pairs of statuses.
func TestDiffAsStrategicPatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		from, ours := randomStatus(rng), randomStatus(rng)
		to, _ := statusmanager.Merge(statusmanager.MergeInput{Pod: testPod("u", static), API: &from, Ours: &ours, Now: metav1.Unix(1_800_000_000, 0)})
		requirePatched(t, from, to, false)
		requirePatched(t, from, to, true)
		if t.Failed() {
			return
		}
	}
}

// TestDiffAllFromAnywhere: a patch made without the server's status leads to the same result as a patch made with the
// status, except for unknown conditions.
func TestDiffAllFromAnywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		server, ours := randomStatus(rng), randomStatus(rng)
		server.AllocatedResources, server.Resources = nil, nil // unknown keys cannot be removed
		to, _ := statusmanager.Merge(statusmanager.MergeInput{Pod: testPod("u", static), Ours: &ours, Now: metav1.Unix(1_800_000_000, 0)})
		patch, err := statusmanager.DiffAll(nil, &to, false, "u")
		require.NoError(t, err)
		got := applyPatch(t, server, patch)
		for _, c := range server.Conditions {
			if statusmanager.Owned(c.Type) && condition(to, c.Type) == nil {
				to.Conditions = append(to.Conditions, c)
			}
		}
		to.Conditions = append(to.Conditions, shared(server)...)
		if to.QOSClass == "" {
			to.QOSClass = server.QOSClass
		}
		require.True(t, statusmanager.Equal(&got, &to), "%s\nwas %s\n is %s\nnot %s", patch, text(t, server), text(t, got), text(t, to))
	}
}

func shared(s v1.PodStatus) (out []v1.PodCondition) {
	if c := condition(s, v1.DisruptionTarget); c != nil {
		out = append(out, *c)
	}
	return out
}

// requirePatched checks the result of the patch from one status to another, applied by the server's library. With
// doubt, some fields on the server already have the new values, and others have unknown values.
func requirePatched(t *testing.T, from, to v1.PodStatus, doubt bool) {
	t.Helper()
	patch, err := statusmanager.Diff(&from, &to, "u")
	require.NoError(t, err)
	server := from
	if doubt {
		patch, err = statusmanager.DiffAll(from.Conditions, &to, false, "u")
		require.NoError(t, err)
		server = *to.DeepCopy()
		server.Conditions, server.PodIPs, server.Phase = from.Conditions, nil, "?"
	}
	if patch == nil {
		require.True(t, statusmanager.Equal(&from, &to))
		return
	}
	got := applyPatch(t, server, patch)
	require.True(t, statusmanager.Equal(&got, &to), "%s\nfrom %s\n got %s\nwant %s", patch, text(t, server), text(t, got), text(t, to))
	for _, c := range to.Conditions { // with all its fields
		have := condition(got, c.Type)
		require.NotNil(t, have)
		require.True(t, reflect.DeepEqual(text(t, *have), text(t, c)), "%s\n got %s\nwant %s", patch, text(t, *have), text(t, c))
	}
	require.Len(t, got.Conditions, len(to.Conditions))
	require.Equal(t, text(t, to.PodIPs), text(t, got.PodIPs), "in this order")
}

func applyPatch(t *testing.T, status v1.PodStatus, patch []byte) v1.PodStatus {
	t.Helper()
	before := text(t, v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: status})
	after, err := strategicpatch.StrategicMergePatch([]byte(before), patch, v1.Pod{})
	require.NoError(t, err, "%s", patch)
	got := v1.Pod{}
	require.NoError(t, json.Unmarshal(after, &got))
	return got.Status
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// fullStatus has every field.
func fullStatus(i int32) v1.PodStatus {
	suffix := strings.Repeat("i", int(i))
	c := running("main" + suffix)
	c.RestartCount = i
	amounts := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(i), resource.DecimalSI)}
	return v1.PodStatus{
		ObservedGeneration: int64(i), Phase: v1.PodRunning, Message: "m" + suffix, Reason: "r" + suffix, NominatedNodeName: "n" + suffix,
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, Reason: "r" + suffix, LastTransitionTime: metav1.Unix(int64(i), 0)}},
		HostIP:     "10.0.0." + suffix, HostIPs: []v1.HostIP{{IP: "10.0.0." + suffix}}, PodIP: "10.1.0." + suffix,
		PodIPs:    []v1.PodIP{{IP: "10.1.0." + suffix}, {IP: "fd00::" + suffix}},
		StartTime: &metav1.Time{Time: metav1.Unix(int64(i), 0).Time}, QOSClass: v1.PodQOSBurstable, Resize: v1.PodResizeStatusInProgress,
		InitContainerStatuses: []v1.ContainerStatus{c}, ContainerStatuses: []v1.ContainerStatus{c}, EphemeralContainerStatuses: []v1.ContainerStatus{c},
		ResourceClaimStatuses:                []v1.PodResourceClaimStatus{{Name: suffix}},
		ExtendedResourceClaimStatus:          &v1.PodExtendedResourceClaimStatus{ResourceClaimName: suffix},
		NodeAllocatableResourceClaimStatuses: []v1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: suffix}},
		AllocatedResources:                   amounts, Resources: &v1.ResourceRequirements{Requests: amounts},
		VolumeHealth: []v1.PodVolumeHealth{{Name: "v" + suffix}},
	}
}

// randomStatus mixes fields of a few full statuses.
func randomStatus(rng *rand.Rand) v1.PodStatus {
	out := v1.PodStatus{}
	for i := range reflect.TypeFor[v1.PodStatus]().NumField() {
		if n := rng.IntN(3); n > 0 {
			reflect.ValueOf(&out).Elem().Field(i).Set(reflect.ValueOf(fullStatus(int32(n))).Field(i))
		}
	}
	for _, list := range []v1.ResourceList{out.AllocatedResources, requestsOf(&out)} {
		for _, name := range []v1.ResourceName{"memory", "example.com/gpu"} {
			if list != nil && rng.IntN(2) == 0 {
				list[name] = *resource.NewQuantity(rng.Int64N(2), resource.DecimalSI)
			}
		}
	}
	out.Conditions = nil
	for _, kind := range []v1.PodConditionType{v1.PodReady, v1.PodScheduled, v1.ContainersReady, v1.PodResizePending, v1.DisruptionTarget, "example.com/theirs"} {
		if rng.IntN(3) > 0 {
			out.Conditions = append(out.Conditions, v1.PodCondition{
				Type: kind, Status: []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse}[rng.IntN(2)],
				Reason: []string{"", "why"}[rng.IntN(2)], Message: []string{"", "say \"more\""}[rng.IntN(2)],
				LastTransitionTime: metav1.Unix(1_700_000_000+rng.Int64N(3), 0), ObservedGeneration: rng.Int64N(2),
			})
		}
	}
	rng.Shuffle(len(out.Conditions), func(i, j int) { out.Conditions[i], out.Conditions[j] = out.Conditions[j], out.Conditions[i] })
	if rng.IntN(2) == 0 {
		out.PodIPs = append(out.PodIPs, v1.PodIP{IP: "10.9.9.9"})
	}
	return out
}

func requestsOf(s *v1.PodStatus) v1.ResourceList {
	if s.Resources == nil {
		return nil
	}
	return s.Resources.Requests
}

// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMergeIsStrategicPatch: merge gives the results of strategicpatch for random patches, or says that
// it does not know the patch.
func TestMergeIsStrategicPatch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	known := 0
	for range 2000 {
		pod := &v1.Pod{Status: randomStatus(random)}
		pod.UID = "uid"
		patch := randomPatch(random)
		got, ok := merge(pod, patch)
		if !ok {
			continue
		}
		known++
		want, err := applyGeneral(pod, patch)
		require.NoError(t, err, string(patch))
		require.Equal(t, encoded(t, want), encoded(t, got), "%s", patch)
	}
	assert.Greater(t, known, 1000)
}

// TestMergeLeavesUnusualPatches: the general way decides about them.
func TestMergeLeavesUnusualPatches(t *testing.T) {
	for _, patch := range []string{
		`{}`, `{"status":null,"metadata":{"uid":"u"}}`, `{"metadata":{"uid":"u","labels":{}},"status":{}}`, `{"status":{"phase":"Running"}}`,
		`{"metadata":{"uid":"u"},"status":{"resources":{}}}`, `{"metadata":{"uid":"u"},"status":{"podIPs":[{"ip":"1.2.3.4"}]}}`,
		`{"metadata":{"uid":"u"},"status":{"$setElementOrder/conditions":[]}}`, `{"metadata":{"uid":"u"},"status":{"phase":1}}`,
		`{"metadata":{"uid":"u"},"status":{"conditions":[{"status":"True"}]}}`, `no patch`,
	} {
		_, ok := merge(&v1.Pod{}, []byte(patch))
		assert.False(t, ok, patch)
	}
}

func encoded(t *testing.T, pod *v1.Pod) string {
	text, err := json.Marshal(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: pod.Status})
	require.NoError(t, err)
	return string(text)
}

var conditionTypes = []v1.PodConditionType{v1.PodReady, v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, "example.com/gate"}

func randomTime(random *rand.Rand) metav1.Time { return metav1.Unix(random.Int64N(1000), 0) }

func randomStatus(random *rand.Rand) (s v1.PodStatus) {
	s.Phase, s.PodIP, s.Reason = v1.PodPhase(pick(random, "Pending", "Running")), pick(random, "", "10.0.0.1"), pick(random, "", "Why")
	for _, at := range random.Perm(len(conditionTypes))[:random.IntN(5)] {
		s.Conditions = append(s.Conditions, v1.PodCondition{
			Type: conditionTypes[at], Status: v1.ConditionStatus(pick(random, "True", "False")), Reason: pick(random, "", "R"), LastTransitionTime: randomTime(random),
		})
	}
	for i := range random.IntN(3) {
		s.PodIPs = append(s.PodIPs, v1.PodIP{IP: fmt.Sprint("10.0.0.", i)})
		s.ContainerStatuses = append(s.ContainerStatuses, v1.ContainerStatus{Name: fmt.Sprint("c", i), Ready: random.IntN(2) == 0})
	}
	return s
}

func pick(random *rand.Rand, of ...string) string { return of[random.IntN(len(of))] }

// randomPatch returns a patch with some fields, in the manner of agents and of other clients.
func randomPatch(random *rand.Rand) []byte {
	status := map[string]any{}
	put := func(name string, value any) {
		switch random.IntN(4) {
		case 0:
			status[name] = value
		case 1:
			status[name] = nil
		}
	}
	other := randomStatus(random)
	put("phase", other.Phase)
	put("message", pick(random, "m", ""))
	put("startTime", randomTime(random).UTC().Format(time.RFC3339))
	put("containerStatuses", other.ContainerStatuses)
	ips := []any{map[string]string{"$patch": "replace"}}
	for i := range random.IntN(3) {
		ips = append(ips, map[string]string{"ip": fmt.Sprint("10.0.1.", i)})
	}
	put("podIPs", ips)
	var conditions []any
	for _, at := range random.Perm(len(conditionTypes))[:1+random.IntN(3)] {
		c := map[string]any{"type": conditionTypes[at]}
		for name, value := range map[string]any{
			"status": "False", "reason": pick(random, "", "Other"), "message": nil, "lastProbeTime": nil, "lastTransitionTime": randomTime(random), "observedGeneration": 3,
		} {
			if random.IntN(2) == 0 {
				c[name] = value
			}
		}
		if random.IntN(4) == 0 {
			c = map[string]any{"$patch": "delete", "type": conditionTypes[at]}
		}
		conditions = append(conditions, c)
	}
	if random.IntN(2) == 0 {
		status["conditions"] = conditions
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]string{"uid": pick(random, "uid", "other")}, "status": status})
	if err != nil {
		panic(err)
	}
	return text
}

// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/keelson-dev/keelson/internal/casetest"
)

// For random statuses and facts, the patch, applied by the API's rules, results in the expected
// status, and keeps concurrent changes of other clients.
func TestPatchesDoWhatTheySay(t *testing.T) {
	for seed := range casetest.Rounds[uint64](300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		now := time.Unix(1_800_000_000+rng.Int64N(1000), 0).UTC()
		before := v1.NodeStatus{}
		for range rng.IntN(4) {
			f := randomFacts(rng)
			before = status(before, f, now.Add(-time.Hour))
			before.Capacity = changed(rng, before.Capacity)
		}
		f := randomFacts(rng)
		after := status(before, f, now)
		patch, err := statusPatch(before, after)
		require.NoError(t, err)

		theirs := v1.NodeCondition{Type: "Theirs", Status: v1.ConditionTrue}
		there := before
		there.Conditions = append([]v1.NodeCondition{theirs}, before.Conditions...)
		there.Capacity = changed(rng, before.Capacity)
		got := apply(t, there, patch)
		require.Contains(t, got.Conditions, theirs, "seed %d", seed)
		want := after
		want.Conditions = append([]v1.NodeCondition{theirs}, after.Conditions...)
		require.ElementsMatch(t, want.Conditions, got.Conditions, "seed %d", seed)
		want.Conditions, got.Conditions = nil, nil
		for name, amount := range there.Capacity { // with the next read they are allocatable
			if was, known := before.Capacity[name]; !known || was.Cmp(amount) != 0 {
				require.Equal(t, amount.Value(), got.Capacity.Name(name, resource.DecimalSI).Value(), "seed %d: %s", seed, name)
				got.Capacity[name] = want.Capacity[name]
				if _, known := want.Capacity[name]; !known {
					delete(got.Capacity, name)
				}
			}
		}
		require.True(t, same(want, got), "seed %d\nwant %v\n got %v", seed, want, got)
	}
}

func apply(t *testing.T, s v1.NodeStatus, patch []byte) v1.NodeStatus {
	data, err := json.Marshal(v1.Node{Status: s})
	require.NoError(t, err)
	data, err = strategicpatch.StrategicMergePatch(data, patch, v1.Node{})
	require.NoError(t, err)
	var out v1.Node
	require.NoError(t, json.Unmarshal(data, &out))
	for i, c := range out.Status.Conditions {
		c.LastHeartbeatTime.Time, c.LastTransitionTime.Time = c.LastHeartbeatTime.UTC(), c.LastTransitionTime.UTC()
		if c.Type == "Theirs" {
			c = v1.NodeCondition{Type: c.Type, Status: c.Status}
		}
		out.Status.Conditions[i] = c
	}
	return out.Status
}

// changed returns a capacity in which an administrator has changed resources that no facts have.
func changed(rng *rand.Rand, capacity v1.ResourceList) v1.ResourceList {
	capacity = maps.Clone(capacity)
	for i := range 2 {
		if rng.IntN(2) == 0 {
			if capacity == nil {
				capacity = v1.ResourceList{}
			}
			capacity[v1.ResourceName(fmt.Sprint("example.com/theirs", i))] = *resource.NewQuantity(100+rng.Int64N(5), resource.DecimalSI)
		}
	}
	return capacity
}

func randomFacts(rng *rand.Rand) (f Facts) {
	if rng.IntN(2) == 0 {
		f.NotReady = fmt.Errorf("reason %d", rng.IntN(3))
	}
	f.Capacity = v1.ResourceList{}
	for i := range 3 {
		if rng.IntN(2) == 0 {
			f.Capacity[v1.ResourceName(fmt.Sprint("r", i))] = *resource.NewQuantity(rng.Int64N(5), resource.DecimalSI)
			f.Capacity[v1.ResourceName(fmt.Sprint("example.com/own", i))] = *resource.NewQuantity(rng.Int64N(5), resource.DecimalSI)
		}
	}
	f.Allocatable = f.Capacity
	for range rng.IntN(3) {
		f.Addresses = append(f.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: fmt.Sprint("10.0.0.", rng.IntN(4))})
	}
	for i := range rng.IntN(60) {
		f.Images = append(f.Images, v1.ContainerImage{Names: []string{fmt.Sprint("i", i)}, SizeBytes: rng.Int64N(9)})
	}
	f.Info.KernelVersion = fmt.Sprint(rng.IntN(2))
	f.KubeletPort = rng.Int32N(2)
	for i := range rng.IntN(3) {
		name := fmt.Sprint(i)
		f.DeclaredFeatures = append(f.DeclaredFeatures, name)
		f.RuntimeHandlers = append(f.RuntimeHandlers, v1.NodeRuntimeHandler{Name: name})
		f.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: new(i == 1)}
	}
	f.Pressure = map[v1.NodeConditionType]bool{v1.NodePIDPressure: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		f.Pressure[v1.NodeMemoryPressure] = rng.IntN(2) == 0
	}
	return f
}

func TestTheLargestImagesAreTold(t *testing.T) {
	var f Facts
	for i := range 60 {
		f.Images = append(f.Images, v1.ContainerImage{Names: []string{fmt.Sprint(i)}, SizeBytes: int64(i)})
	}
	got := largest(f.Images, defaultMaxImages)
	require.Len(t, got, 50)
	require.Len(t, largest(f.Images, -1), 60)
	require.EqualValues(t, 59, got[0].SizeBytes)
	require.EqualValues(t, 0, f.Images[0].SizeBytes, "the caller's stay as they are")
}

func TestMetadataPatch(t *testing.T) {
	node := &v1.Node{}
	node.Labels = map[string]string{"a": "1", "b": "2"}
	patch, err := metadataPatch(node, map[string]string{"a": "1"}, nil)
	require.NoError(t, err)
	require.Nil(t, patch)
	patch, err = metadataPatch(node, map[string]string{"a": "1", "b": "3", "c": "4"}, map[string]string{"d": "5"})
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"labels":{"b":"3","c":"4"},"annotations":{"d":"5"}}}`, string(patch))
}

func TestNotReadyIsTheReasonGiven(t *testing.T) {
	s := status(v1.NodeStatus{}, Facts{NotReady: errors.New("why")}, time.Now())
	require.Equal(t, "why", s.Conditions[0].Message)
}

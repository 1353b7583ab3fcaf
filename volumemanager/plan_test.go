// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/casetest"
)

// inert is a plugin whose operations are never called.
type inert struct {
	Plugin
	refresh bool
}

func (inert) Name() string                                    { return "example.com/inert" }
func (inert) Supports(Spec) bool                              { return true }
func (p inert) NeedsRefresh(Spec) bool                        { return p.refresh }
func (inert) VolumeID(Spec) (string, error)                   { return "id", nil }
func (inert) Expand(_ context.Context, e Expansion) error     { return nil }
func (inert) DeviceDir(string, Spec) (string, error)          { return "", nil }
func (inert) MountDevice(_ context.Context, _ Device) error   { return nil }
func (inert) UnmountDevice(_ context.Context, _ Device) error { return nil }

var now = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func volumeWith(rows map[types.UID]*row, edit ...func(*volume)) *volume {
	v := &volume{name: "example.com/inert/id", plugin: inert{}}
	for _, uid := range slices.Sorted(maps.Keys(rows)) {
		rows[uid].place.PodUID = uid
		v.rows = append(v.rows, rows[uid])
	}
	for _, e := range edit {
		e(v)
	}
	return v
}

func (s step) String() string {
	text := s.kind.String() + " " + string(s.uid)
	if s.alone {
		text += " alone"
	}
	return text
}

func TestPlan(t *testing.T) {
	busy := &operation{}
	failed := func(kind OperationKind, until time.Duration) failure {
		return failure{kind: kind, count: 1, until: now.Add(until), err: errors.New("no")}
	}
	wanted := func(state State) *row { return &row{desire: DesireMounted, state: state} }
	once := Spec{PV: &v1.PersistentVolume{}}
	once.PV.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	large := Spec{PV: &v1.PersistentVolume{}, Size: resource.MustParse("2Gi")}
	readOnly := Spec{PV: large.PV, Size: large.Size, ReadOnly: true}
	small := func(v *volume) { v.size = resource.MustParse("1Gi") }
	attachable := func(v *volume) { v.attachable = true }
	reported := func(v *volume) { v.attachable, v.reported = true, true }
	staged := func(v *volume) { v.staged = true }
	device := func(s State) func(*volume) { return func(v *volume) { v.staged, v.device = true, s } }

	tests := []struct {
		name string
		v    *volume
		want string
		wake time.Duration // 0 = never
	}{
		{"nothing", volumeWith(nil), "[]", 0},
		{"wanted", volumeWith(map[types.UID]*row{"b": wanted(StateNotMounted), "a": wanted(StateUncertain)}),
			"[volume_mount a volume_mount b]", 0},
		{"there", volumeWith(map[types.UID]*row{"a": wanted(StateMounted)}), "[]", 0},
		{"kept is not touched", volumeWith(map[types.UID]*row{"a": {state: StateUncertain}, "b": {state: StateMounted}}), "[]", 0},
		{"gone", volumeWith(map[types.UID]*row{
			"a": {desire: DesireGone, state: StateUncertain}, "b": {desire: DesireGone, state: StateMounted}, "c": {desire: DesireGone},
		}), "[volume_unmount a volume_unmount b]", 0},
		{"terminating", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, terminating: true}}), "[]", 0},
		{"one operation per pod", volumeWith(map[types.UID]*row{"a": {desire: DesireGone, state: StateMounted, busy: busy}, "b": wanted(StateNotMounted)}),
			"[volume_mount b]", 0},
		{"alone is alone", volumeWith(map[types.UID]*row{"a": wanted(StateNotMounted)}, func(v *volume) { v.busy = busy }), "[]", 0},
		{"refresh", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, state: StateMounted, refresh: 2, done: 1}}), "[volume_remount a]", 0},
		{"refresh by a mount", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, refresh: 2, done: 1}}), "[volume_mount a]", 0},
		{"not reported in use", volumeWith(map[types.UID]*row{"a": wanted(StateNotMounted)}, attachable, staged), "[]", 0},
		{"not attached", volumeWith(map[types.UID]*row{"a": wanted(StateNotMounted), "b": wanted(StateNotMounted)}, reported, staged),
			"[verify_controller_attached_volume a alone]", 0},
		{"attached, and not reported in use any more", volumeWith(map[types.UID]*row{"a": wanted(StateNotMounted)}, func(v *volume) { v.attachable, v.attached = true, true }),
			"[volume_mount a]", 0},
		{"not staged", volumeWith(map[types.UID]*row{"a": wanted(StateNotMounted)}, staged), "[mount_device a alone]", 0},
		{"staged perhaps", volumeWith(map[types.UID]*row{"a": wanted(StateNotMounted)}, device(StateUncertain)), "[mount_device a alone]", 0},
		{"staged", volumeWith(map[types.UID]*row{"a": wanted(StateNotMounted)}, device(StateMounted)), "[volume_mount a]", 0},
		{"staging waits for an unmount", volumeWith(map[types.UID]*row{
			"a": wanted(StateNotMounted), "b": {desire: DesireGone, state: StateUncertain},
		}, staged), "[volume_unmount b]", 0},
		{"staging waits for what runs", volumeWith(map[types.UID]*row{
			"a": wanted(StateNotMounted), "b": {desire: DesireGone, state: StateUncertain, busy: busy},
		}, staged), "[]", 0},
		{"unstage", volumeWith(nil, device(StateMounted)), "[unmount_device  alone]", 0},
		{"unstage what is uncertain", volumeWith(nil, device(StateUncertain)), "[unmount_device  alone]", 0},
		{"do not unstage what is kept", volumeWith(map[types.UID]*row{"a": {state: StateUncertain}}, device(StateMounted)), "[]", 0},
		{"do not unstage what is wanted soon", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, terminating: true}}, device(StateMounted)), "[]", 0},
		{"expand", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, state: StateMounted, spec: large}}, small), "[volume_fs_resize a alone]", 0},
		{"expand on mount", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, spec: large}, "b": {desire: DesireMounted, spec: large}}, small),
			"[volume_mount a alone]", 0},
		{"cannot expand", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, state: StateMounted, spec: large}}, small, func(v *volume) { v.fixed = true }),
			"[]", 0},
		{"nothing to expand", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, state: StateMounted, spec: large}}, func(v *volume) { v.size = large.Size }),
			"[]", 0},
		{"no wish for a size", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, state: StateMounted}}, small), "[]", 0},
		{"read-only", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, state: StateMounted, spec: readOnly}}, small), "[]", 0},
		{"a plugin without abilities", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, state: StateMounted, spec: large}}, small, func(v *volume) { v.plugin = named{} }),
			"[]", 0},
		{"size unknown", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, state: StateMounted, spec: large}}), "[]", 0},
		{"for one of two pods", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, spec: once}, "b": {desire: DesireMounted, spec: once}}),
			"[volume_mount a alone]", 0},
		{"for the pod that has it perhaps", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, spec: once}, "b": {desire: DesireMounted, spec: once, state: StateUncertain}}),
			"[volume_mount b alone]", 0},
		{"for one pod, while another pod is busy with it", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, spec: once}, "b": {busy: busy}}), "[]", 0},
		{"for one pod", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, spec: once}, "b": {state: StateUncertain}}), "[]", 0},
		{"back-off", volumeWith(map[types.UID]*row{
			"a": {desire: DesireMounted, failure: failed(OpMount, time.Second)}, "b": {desire: DesireMounted, failure: failed(OpMount, time.Minute)},
		}), "[]", time.Second},
		{"back-off of the second pod ends first", volumeWith(map[types.UID]*row{
			"a": {desire: DesireMounted, failure: failed(OpMount, time.Minute)}, "b": {desire: DesireMounted, failure: failed(OpMount, time.Second)},
		}), "[]", time.Second},
		{"back-off is over", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, failure: failed(OpMount, 0)}}), "[volume_mount a]", 0},
		{"back-off of another kind", volumeWith(map[types.UID]*row{"a": {desire: DesireGone, state: StateUncertain, failure: failed(OpMount, time.Hour)}}),
			"[volume_unmount a]", 0},
		{"back-off of the device", volumeWith(map[types.UID]*row{"a": wanted(StateNotMounted)}, staged, func(v *volume) { v.failure = failed(OpMountDevice, time.Minute) }),
			"[]", time.Minute},
		{"terminal", volumeWith(map[types.UID]*row{"a": {desire: DesireMounted, failure: failure{kind: OpMount, count: 1, terminal: true}}}), "[]", 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := tc.v.plan(now)
			assert.Equal(t, tc.want, fmt.Sprint(p.steps))
			if tc.wake == 0 {
				assert.Zero(t, p.wake)
			} else {
				assert.Equal(t, now.Add(tc.wake), p.wake)
			}
		})
	}
}

func TestVolumeRefreshes(t *testing.T) {
	for _, tc := range []struct {
		plugin Plugin
		want   bool
	}{{inert{refresh: true}, true}, {inert{}, false}, {named{}, false}} {
		v := &volume{plugin: tc.plugin}
		assert.Equal(t, tc.want, v.refreshes(Spec{}))
	}
}

// TestPlanKeepsItsRules draws random volumes and checks each rule in the comment of plan.
func TestPlanKeepsItsRules(t *testing.T) {
	for seed := range casetest.Rounds[uint64](20000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		v := randomVolume(rng)
		p := v.plan(now)
		seen := map[types.UID]bool{}
		for _, s := range p.steps {
			require.Nil(t, v.busy, "seed %d: rule 1", seed)
			require.False(t, seen[s.uid], "seed %d: rule 2", seed)
			seen[s.uid] = true
			require.True(t, !s.alone || len(p.steps) == 1 && v.idle(), "seed %d: rule 5", seed)
			if s.kind == OpUnmountDevice {
				require.Empty(t, v.rows, "seed %d: rule 6", seed)
				continue
			}
			r := v.row(s.uid)
			require.Nil(t, r.busy, "seed %d: rule 2", seed)
			require.Equal(t, s.kind == OpUnmount, r.desire == DesireGone, "seed %d: rule 3", seed)
			require.True(t, s.kind == OpUnmount || r.desire == DesireMounted && !r.terminating, "seed %d: rule 4", seed)
			if s.kind == OpMount {
				require.True(t, v.device == StateMounted || !v.staged, "seed %d: rule 4: staged before set up", seed)
				require.True(t, v.attached || !v.attachable, "seed %d: rule 4: attached before set up", seed)
			}
		}
		if len(p.steps) == 0 && v.idle() && p.wake.IsZero() {
			requireSettled(t, seed, v)
		}
	}
}

// requireSettled checks that no possible operation is left undone.
func requireSettled(t *testing.T, seed uint64, v *volume) {
	for _, r := range v.rows {
		if r.desire == DesireGone {
			require.Equal(t, StateNotMounted, r.state, "seed %d: a gone pod keeps a volume", seed)
		}
		if r.desire == DesireMounted && !r.terminating && r.state != StateMounted {
			stuck := v.blocked(r.place.PodUID, r) != nil || r.failure.terminal || v.failure.terminal
			require.True(t, stuck, "seed %d: nobody mounts the volume", seed)
		}
	}
}

func randomVolume(rng *rand.Rand) *volume {
	odds := func(n int) bool { return rng.IntN(n) == 0 }
	randomFailure := func() failure {
		if odds(2) {
			return failure{}
		}
		kind := OperationKind(1 + rng.IntN(7))
		return failure{
			kind: kind, count: 1 + rng.IntN(3), terminal: odds(4) && kind.sets(),
			until: now.Add(time.Duration(rng.IntN(3)-1) * time.Second),
		}
	}
	v := volumeWith(map[types.UID]*row{}, func(v *volume) {
		v.plugin = inert{refresh: odds(2)}
		v.staged, v.attachable, v.attached, v.reported = odds(2), odds(3), odds(2), odds(2)
		v.failure = randomFailure()
		if v.staged {
			v.device = State(rng.IntN(3))
		}
	})
	for i := range rng.IntN(4) {
		r := &row{
			desire: Desire(rng.IntN(3)), terminating: odds(4), state: State(rng.IntN(3)),
			refresh: uint64(rng.IntN(2)), failure: randomFailure(),
		}
		if odds(4) {
			r.busy = &operation{}
		}
		r.place.PodUID = types.UID(fmt.Sprint(i))
		v.rows = append(v.rows, r)
	}
	if odds(6) && v.idle() {
		v.busy = &operation{}
	}
	return v
}

// idle reports whether no operation runs on v.
func (v *volume) idle() bool {
	if v.busy != nil {
		return false
	}
	for _, r := range v.rows {
		if r.busy != nil {
			return false
		}
	}
	return true
}

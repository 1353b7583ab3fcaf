// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The reasons why a volume is not mounted are failures of a setup, and operations that have begun.
func TestReasonsOfAMissingVolume(t *testing.T) {
	began := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	v := &volume{name: "x", plugin: inert{}, failure: failure{kind: OpUnmountDevice, err: errors.New("device busy")}}
	r := &row{failure: failure{kind: OpMount, err: errors.New("no space")}}
	r.place.Inner = "data"
	texts := func() (out []string) {
		for _, err := range v.why("uid", r) {
			if err != nil {
				out = append(out, err.Error())
			}
		}
		return out
	}
	assert.Equal(t, []string{"volume data: no space"}, texts())
	v.failure.kind = OpMountDevice
	assert.Equal(t, []string{"volume data: no space", "volume data: device busy"}, texts(), "both failed")
	v.failure = failure{}
	v.busy = &operation{step: step{kind: OpMountDevice}}
	assert.Equal(t, []string{"volume data: no space"}, texts(), "the operation still waits for its turn")
	v.busy.started = began
	require.Len(t, texts(), 2)
	assert.Contains(t, texts()[1], "is under way since 2026-07-01T12:00:00Z")
}

// Only a mount and an expansion grow a volume to the size of its spec.
func TestOperationsThatGrow(t *testing.T) {
	for _, kind := range []OperationKind{OpMount, OpExpand, OpRefresh, OpUnmount} {
		v := &volume{name: "x", plugin: inert{}, size: resource.MustParse("1Gi")}
		r := &row{spec: Spec{Size: resource.MustParse("2Gi")}}
		r.place.PodUID = "uid"
		v.rows = append(v.rows, r)
		o := v.prepare(step{kind: kind, uid: "uid"}, "/r", time.Now())
		assert.Equal(t, kind == OpRefresh || kind == OpUnmount, o.to.IsZero(), "%v", kind)
	}
}

// All names of a folder are listed, in order. What is not a folder has none.
func TestListOfAFolder(t *testing.T) {
	root := t.TempDir()
	var want []string
	for i := range 5 {
		want = append(want, strconv.Itoa(i))
		require.NoError(t, os.WriteFile(filepath.Join(root, strconv.Itoa(i)), nil, 0o600))
	}
	f := recordFiles{root: root}
	names, err := f.list(".")
	require.NoError(t, err)
	assert.Equal(t, want, names)
	for _, dir := range []string{"missing", "1"} {
		names, err = f.list(dir)
		require.NoError(t, err)
		assert.Empty(t, names, dir)
	}
}

// A snapshot has all that is known of a volume and its pods: no field stays zero.
func TestSnapshotHasAllFields(t *testing.T) {
	m, err := New(Options{Root: "/r"})
	require.NoError(t, err)
	failed := failure{count: 2, until: time.Now(), err: errors.New("busy")}
	m.mu.volumes["v"] = &volume{
		name: "v", plugin: inert{}, attachable: true, attached: true, reported: true, device: StateMounted, deviceDir: "/d", failure: failed,
		rows: []*row{{
			place: Place{PodUID: "uid", Inner: "inner"}, outer: []string{"outer"}, desire: DesireMounted, state: StateMounted,
			found: true, mounted: Mounted{Path: "/p"}, failure: failed,
		}},
	}
	s := m.Snapshot()
	require.Len(t, s.Volumes, 1)
	require.Len(t, s.Volumes[0].Pods, 1)
	for _, value := range []reflect.Value{reflect.ValueOf(s.Volumes[0]), reflect.ValueOf(s.Volumes[0].Pods[0])} {
		for i := range value.NumField() {
			assert.False(t, value.Field(i).IsZero(), value.Type().Field(i).Name)
		}
	}
}

// An attachable volume is forgotten together with another volume: the volumes in use have changed.
func TestForgottenVolumesInUse(t *testing.T) {
	changes := 0
	m, err := New(Options{Root: "/r", Hooks: Hooks{InUseChanged: func() { changes++ }}})
	require.NoError(t, err)
	for _, attachable := range [][]bool{{false}, {true}, {true, false}, {false, true}} {
		changes = 0
		m.mu.Lock()
		for _, a := range attachable {
			m.forget(&volume{attachable: a})
		}
		m.unlock()
		assert.Equal(t, slices.Contains(attachable, true), changes == 1, attachable)
	}
}

// An agent whose plugin stages no more volumes may find a staged volume: staging fails for good.
func TestPluginThatStagesNoMore(t *testing.T) {
	err := executor{}.mountDevice(t.Context(), &operation{plugin: named{}})
	require.ErrorContains(t, err, "the plugin stages no volumes")
	require.ErrorIs(t, err, ErrTerminal)
	require.ErrorContains(t, executor{}.unmountDevice(t.Context(), &operation{plugin: named{}}), "the plugin stages no volumes")
}

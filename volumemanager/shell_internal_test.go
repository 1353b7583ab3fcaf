// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"errors"
	"os"
	"path/filepath"
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

// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// A failure of the disk is told by each use of the records, and not taken for an absent record.
func TestRecordsOnAFailingDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	below := recordFiles{root: filepath.Join(file, "root")}
	_, err := below.openPods()
	assert.Error(t, err)
	assert.Error(t, below.removeDevice("v"))
	assert.Error(t, below.writeDevice(&operation{plugin: stuckStage{}}))

	_, err = below.read("record.json")
	assert.ErrorIs(t, err, syscall.ENOTDIR)

	records := recordFiles{root: t.TempDir()}
	_, err = records.placeOf("uid", "no-such-record.json")
	assert.ErrorIs(t, err, fs.ErrNotExist)

	impossible := Place{Root: records.root, PodUID: "uid", Plugin: "x.com/a", Inner: "v\x00"}
	require.NoError(t, os.MkdirAll(impossible.PodDir(), 0o700))
	assert.Error(t, records.removeMount(impossible), "no file can have this name")

	folder := filepath.Join(t.TempDir(), "folder")
	require.NoError(t, os.Mkdir(folder, 0o700))
	root, err := os.OpenRoot(folder)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, os.Remove(folder))
	assert.Error(t, replace(root, "record.json", []byte("new")), "the folder is gone")
	_, err = openOrMake(root, "pods")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// A device record that cannot be read as a record is an error with its name, and no volume.
func TestDamagedDeviceRecord(t *testing.T) {
	records := recordFiles{root: t.TempDir()}
	require.NoError(t, os.MkdirAll(filepath.Join(records.root, deviceRecords), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(records.root, deviceRecords, "x.json"), []byte("{"), 0o600))
	all, err := records.devices()
	require.ErrorContains(t, err, "device record x.json: ")
	assert.Empty(t, all)
}

// All device records are read, beside one that is damaged.
func TestAllDeviceRecordsAreRead(t *testing.T) {
	records := recordFiles{root: t.TempDir()}
	for _, volume := range []v1.UniqueVolumeName{"a", "b", "c"} {
		require.NoError(t, records.writeDevice(&operation{volume: volume, plugin: stuckStage{}}))
	}
	for _, damaged := range []string{"0.json", "1.json"} { // before the hashed names
		require.NoError(t, os.WriteFile(filepath.Join(records.root, deviceRecords, damaged), []byte("{"), 0o600))
	}
	all, err := records.devices()
	require.ErrorContains(t, err, "device record 0.json: ")
	require.ErrorContains(t, err, "device record 1.json: ")
	assert.Len(t, all, 3)
}

// A mount record under a name that is too long for its volume must be a record, of a volume.
func TestMountRecordsWithoutAVolume(t *testing.T) {
	records := recordFiles{root: t.TempDir()}
	require.NoError(t, os.MkdirAll(filepath.Join(records.root, podsDir, "uid"), 0o700))
	for content, want := range map[string]string{
		"{":                                     "unexpected end",
		`{"plugin":"x.com/a","inner":".."}`:     "..",
		`{"plugin":"x.com/a","inner":"volume"}`: "is that of another volume",
	} {
		name := "0123" + recordSuffix
		require.NoError(t, os.WriteFile(filepath.Join(records.root, podsDir, "uid", name), []byte(content), 0o600))
		_, err := records.placeOf("uid", name)
		assert.ErrorContains(t, err, want)
	}
}

// A change counts that comes at the moment at which the call ends.
func TestChangeAtTheEndOfAWait(t *testing.T) {
	m, err := New(Options{Root: t.TempDir()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	looks := 0
	require.NoError(t, m.await(ctx, "uid", func() (bool, error) {
		looks++
		return looks > 1, nil
	}))
	require.ErrorIs(t, m.await(ctx, "uid", func() (bool, error) { return false, nil }), context.Canceled)
}

// stuckStage is a plugin whose volumes are unmounted at once.
type stuckStage struct {
	Plugin
	DeviceMounter
}

func (stuckStage) Name() string { return "example.com/stuck" }

func (stuckStage) UnmountDevice(context.Context, Device) error { return nil }

// An unmounted device whose record stays is a failure, so that the removal is repeated.
func TestDeviceRecordThatStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	e := executor{records: recordFiles{root: filepath.Join(file, "root")}}
	require.ErrorContains(t, e.unmountDevice(t.Context(), &operation{plugin: stuckStage{}}), "remove the device record: ")
}

// slowLimiter does not know the limit by itself.
type slowLimiter struct{ AttachLimiter }

func (slowLimiter) Exhausted(ctx context.Context, _ Spec) (bool, error) {
	<-ctx.Done()
	return true, ctx.Err()
}

// The question for the attach limit takes at most 5 s after the end of the wait, for all volumes
// together, and a failed question is no limit.
func TestQuestionForTheAttachLimitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		assert.False(t, exhausted(ctx, []limited{{limiter: slowLimiter{}}, {limiter: slowLimiter{}}}))
		assert.Equal(t, 5*time.Second, time.Since(began))
	})
}

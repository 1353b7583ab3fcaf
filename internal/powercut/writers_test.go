// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package powercut_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/imagegc/recordfile"
	"github.com/keelson-dev/keelson/internal/atomicfile"
	"github.com/keelson-dev/keelson/internal/powercut"
	"github.com/keelson-dev/keelson/runtime/process"
)

// writerEnv and racerEnv hold the folder of a traced test binary.
const (
	writerEnv = "KEELSON_POWERCUT_WRITE"
	racerEnv  = "KEELSON_POWERCUT_RACE"
)

func TestMain(m *testing.M) {
	process.Main()
	for env, write := range map[string]func(dir string) error{writerEnv: writeVersions, racerEnv: raceForFolders, enderEnv: runEnders} {
		if dir := os.Getenv(env); dir != "" {
			if err := write(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// versions is how often each file is written. After each time a file named done-<version> is there for good.
const versions = 4

func contentOf(version int) []byte {
	return []byte(fmt.Sprintf("version %d\n%s", version, strings.Repeat("x", 100*version)))
}

func imagesOf(version int) (records []imagegc.Record) {
	for i := range version {
		records = append(records, imagegc.Record{ID: fmt.Sprint("sha256:", i), FirstDetected: time.Unix(1, 0).UTC()})
	}
	return records
}

func writeVersions(dir string) error {
	images := recordfile.New(filepath.Join(dir, "images.json"))
	for v := 1; v <= versions; v++ {
		done := filepath.Join(dir, fmt.Sprint("done-", v))
		if err := errors.Join(
			atomicfile.WritePath(filepath.Join(dir, "file"), contentOf(v)),
			images.Save(context.Background(), imagesOf(v)),
			atomicfile.WritePath(done, nil),
		); err != nil {
			return err
		}
	}
	return nil
}

// raceForFolders makes files in folders the instant that another thread has made them.
func raceForFolders(dir string) error {
	const folders, threads = 100, 4
	errs := make(chan error)
	for range threads {
		go func() {
			for i := range folders {
				name := filepath.Join(dir, fmt.Sprint(i))
				if err := os.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
					errs <- err
					return
				}
				file := filepath.Join(name, "file")
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var err error
	for range threads {
		err = errors.Join(err, <-errs)
	}
	return err
}

// TestParallelCallsAreRecordedInTheirOrder: no file is recorded before its folder.
func TestParallelCallsAreRecordedInTheirOrder(t *testing.T) {
	root := t.TempDir()
	program, err := os.Executable()
	require.NoError(t, err)
	assert.Len(t, slices.DeleteFunc(record(t, root, program, racerEnv+"="+root), func(op powercut.Op) bool { return op.Kind != powercut.Make }), 200)
}

// record runs a program to its end and returns its changes below root.
func record(t *testing.T, root, program string, env ...string) []powercut.Op {
	t.Helper()
	recorder, err := newRecorder(root)
	require.NoError(t, err)
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	defer output.Close()
	tr := &tracer{recorder: recorder}
	traced(t, tr.run(program, nil, append(os.Environ(), env...), output, func(int) {}))
	said, err := os.ReadFile(output.Name())
	require.NoError(t, err)
	require.Empty(t, string(said))
	require.Empty(t, recorder.lost)
	return recorder.log()
}

// traced skips the test where a process cannot trace its child.
func traced(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("no process can be traced here: %v", err)
	}
	require.NoError(t, err)
}

// TestEveryPrefixOfReplacements: wherever the power is cut, a replaced file has a complete version, and a version
// reported as written is not lost.
func TestEveryPrefixOfReplacements(t *testing.T) {
	root := t.TempDir()
	program, err := os.Executable()
	require.NoError(t, err)
	ops := record(t, root, program, writerEnv+"="+root)
	memory, err := os.MkdirTemp("/dev/shm", "powercut")
	if err != nil {
		memory = t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(memory)) })
	images := 0
	for n := range len(ops) + 1 {
		for loss := range powercut.Losses {
			for seed := range uint64(4) {
				image := powercut.Image(ops[:n], loss, rand.New(rand.NewPCG(seed, uint64(n))))
				dir := filepath.Join(memory, fmt.Sprint(images))
				require.NoError(t, os.Mkdir(dir, 0o700))
				require.NoError(t, image.Store(dir))
				images++
				if !judgeVersions(t, dir) {
					t.Fatalf("after %d of %d operations, loss %d, seed %d; the last ones: %+v", n, len(ops), loss, seed, ops[max(0, n-4):n])
				}
			}
		}
	}
	t.Logf("%d operations, %d images", len(ops), images)
	assert.Greater(t, images, 500)
}

func judgeVersions(t *testing.T, dir string) bool {
	t.Helper()
	reported := 0
	for v := 1; v <= versions; v++ {
		if _, err := os.Stat(filepath.Join(dir, fmt.Sprint("done-", v))); err == nil {
			reported = v
		}
	}
	good := true
	data, err := atomicfile.ReadPath(filepath.Join(dir, "file"), 1<<20)
	if reported > 0 || !errors.Is(err, fs.ErrNotExist) {
		good = assert.NoError(t, err)
		version := 0
		_, _ = fmt.Sscanf(string(data), "version %d\n", &version)
		good = good && assert.GreaterOrEqual(t, version, reported) && assert.Equal(t, string(contentOf(version)), string(data))
	}
	saved, err := recordfile.New(filepath.Join(dir, "images.json")).Load(context.Background())
	good = good && assert.NoError(t, err) && assert.GreaterOrEqual(t, len(saved), reported)
	// The next write replaces all leftovers.
	return good && assert.NoError(t, writeVersions(dir))
}

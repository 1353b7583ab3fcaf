// SPDX-License-Identifier: Apache-2.0

package powercut_test

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/internal/powercut"
)

const (
	dir   = powercut.Root
	prior = powercut.ID(1)
	next  = powercut.ID(2)
)

// replacement is the log of a file whose content changes from "old" to "newer".
func replacement(syncFile, syncFolder powercut.Kind) []powercut.Op {
	ops := []powercut.Op{
		{Kind: powercut.Make, File: prior, Dir: dir, Name: "f", Mode: 0o600},
		{Kind: powercut.Write, File: prior, Data: []byte("old")},
		{Kind: powercut.Sync, File: prior},
		{Kind: powercut.Sync, File: dir},
		{Kind: powercut.Make, File: next, Dir: dir, Name: "f.tmp", Mode: 0o600},
		{Kind: powercut.Write, File: next, Data: []byte("newer")},
		{Kind: syncFile, File: next, Mode: 0o600},
		{Kind: powercut.Rename, File: next, Dir: dir, Name: "f.tmp", NewDir: dir, NewName: "f"},
		{Kind: syncFolder, File: dir, Mode: 0o700},
	}
	return ops
}

// contents returns all that "f" can hold after a power cut at n operations.
func contents(ops []powercut.Op, loss powercut.Loss) []string {
	all := map[string]bool{}
	for seed := range uint64(500) {
		n := powercut.Image(ops, loss, rand.New(rand.NewPCG(seed, 0))).Entries["f"]
		if n == nil {
			all["missing"] = true
			continue
		}
		all[strings.ReplaceAll(string(n.Data), "\x00", "0")] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// TestImage: the model loses the changes of programs that do not sync, and keeps all synced
// changes.
func TestImage(t *testing.T) {
	right := replacement(powercut.Sync, powercut.Sync)
	careless := replacement(powercut.Chmod, powercut.Chmod)
	torn := []string{"", "00000", "n", "ne", "new", "newe", "newer", "old"}
	for _, loss := range []powercut.Loss{powercut.LoseTail, powercut.LoseAny} {
		assert.Equal(t, []string{"newer"}, contents(right, loss))
		assert.Equal(t, []string{"newer", "old"}, contents(right[:8], loss), "the folder was not synced")
		assert.Equal(t, []string{"old"}, contents(right[:7], loss))
		assert.Equal(t, torn, contents(careless, loss))
		assert.Contains(t, contents(right[:2], loss), "missing")
	}
	assert.Equal(t, []string{"newer"}, contents(careless, powercut.LoseNothing))
}

func TestRenameBetweenFolders(t *testing.T) {
	ops := []powercut.Op{
		{Kind: powercut.Make, File: 1, Dir: dir, Name: "a", Mode: fs.ModeDir | 0o700},
		{Kind: powercut.Make, File: 2, Dir: dir, Name: "b", Mode: fs.ModeDir | 0o700},
		{Kind: powercut.Sync, File: dir},
		{Kind: powercut.Make, File: 3, Dir: 1, Name: "f", Mode: 0o600},
		{Kind: powercut.Write, File: 3, Data: []byte("data")},
		{Kind: powercut.Sync, File: 3},
		{Kind: powercut.Sync, File: 1},
		{Kind: powercut.Rename, File: 3, Dir: 1, Name: "f", NewDir: 2, NewName: "g"},
	}
	seen := map[string]int{}
	for seed := range uint64(200) {
		image := powercut.Image(ops, powercut.LoseAny, rand.New(rand.NewPCG(seed, 0)))
		seen[fmt.Sprint(len(image.Entries["a"].Entries), len(image.Entries["b"].Entries))]++
	}
	assert.Len(t, seen, 2)
	assert.Contains(t, seen, "1 0")
	assert.Contains(t, seen, "0 1")
}

func TestStore(t *testing.T) {
	ops := append(replacement(powercut.Sync, powercut.Sync),
		powercut.Op{Kind: powercut.Make, File: 5, Dir: dir, Name: "d", Mode: fs.ModeDir | 0o750},
		powercut.Op{Kind: powercut.Make, File: 6, Dir: 5, Name: "link", Mode: fs.ModeSymlink | 0o777, Data: []byte("../f")},
		powercut.Op{Kind: powercut.Link, File: next, Dir: 5, Name: "other"},
		powercut.Op{Kind: powercut.Unlink, File: next, Dir: dir, Name: "f"},
	)
	top := t.TempDir()
	require.NoError(t, powercut.Image(ops, powercut.LoseNothing, rand.New(rand.NewPCG(1, 1))).Store(top))
	target, err := os.Readlink(filepath.Join(top, "d/link"))
	require.NoError(t, err)
	assert.Equal(t, "../f", target)
	data, err := os.ReadFile(filepath.Join(top, "d/other"))
	require.NoError(t, err)
	assert.Equal(t, "newer", string(data))
	assert.NoFileExists(t, filepath.Join(top, "f"))
	info, err := os.Stat(filepath.Join(top, "d"))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o750), info.Mode().Perm())
}

// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// RunScript runs the script in a file. If the test fails, the message has the failed line or the
// violations found by Check, and the journal.
func RunScript(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	script, err := ParseScript(filepath.ToSlash(file), data)
	if err != nil {
		t.Fatal(err)
	}
	if r := Play(t, script); r.Err != nil {
		t.Fatalf("%v\n\nThe journal:\n%s", r.Err, r.Journal)
	}
}

// RunScripts runs every script that matches a pattern of package path/filepath, each as a subtest.
// A pattern without a match is a failure.
func RunScripts(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts %s: found %d: %v", pattern, len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) { RunScript(t, file) })
	}
}

// Played is the outcome of a script.
type Played struct {
	Err     error  // the failed command with its line, and the violations found by Check
	Journal string // the history, for people; empty for a script without commands
	Starts  int    // number of started containers
}

// Play runs a script on a separate node in a separate bubble, and returns a failure without failing
// the test. Two runs of a script have the same durations. The order of events at the same instant
// may differ.
func Play(t *testing.T, script *Script) Played {
	t.Helper()
	return PlayOn(t, ReferenceAgent, script)
}

// PlayOn is Play with another agent.
func PlayOn(t *testing.T, assemble Assemble, script *Script) (played Played) {
	t.Helper()
	root, err := os.MkdirTemp(memory(), "nodetest-")
	if err != nil {
		return Played{Err: err}
	}
	defer func() {
		if err := os.RemoveAll(root); err != nil {
			t.Errorf("nodetest: %v", err)
		}
	}()
	p := &player{script: script, root: root, assemble: assemble}
	synctest.Test(t, func(*testing.T) {
		played.Err = p.play()
		if p.node == nil {
			return
		}
		played.Starts = p.node.World.Total("StartContainer")
		played.Journal = p.journal()
	})
	return played
}

// memory returns a folder of a file system in memory, if available: agents sync important files to
// disk, and a test need not wait for a disk.
func memory() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err != nil || !info.IsDir() || info.Mode().Perm()&0o002 == 0 {
		return ""
	}
	return shm
}

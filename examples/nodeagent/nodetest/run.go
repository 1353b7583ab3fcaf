// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// RunScript runs the script in a file. The test fails with the line that failed, or
// with what Check found, and the journal.
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

// RunScripts runs every script that a pattern of package path/filepath matches, each
// as a subtest of its name. It is a failure if there is none.
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

// Played is what came of a script.
type Played struct {
	Err     error  // the command that failed, with its line, and all that Check found
	Journal string // what happened, for people; empty if the script has no commands
	Starts  int    // of containers
}

// Play runs a script on a node of its own, in a bubble of its own, and does not
// fail the test: that is up to the caller. Two runs of one script have the same
// durations; events at one instant may come in another order.
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

// memory is a folder of a file system without a disk, where there is one: agents force
// to the disk what must not get lost, and a test need not wait for that.
func memory() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err != nil || !info.IsDir() || info.Mode().Perm()&0o002 == 0 {
		return ""
	}
	return shm
}

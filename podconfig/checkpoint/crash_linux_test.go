// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig"
)

// childFolder marks the test binary as the child of TestKillLeavesTheOldOrTheNew.
const childFolder = "KEELSON_CHECKPOINT_CHILD"

// TestChild saves generations in turn until it is killed, and prints each saved generation.
func TestChild(t *testing.T) {
	dir := os.Getenv(childFolder)
	if dir == "" {
		t.Skip("only as a child of TestKillLeavesTheOldOrTheNew")
	}
	first, err := strconv.Atoi(os.Getenv(childFolder + "_FROM"))
	require.NoError(t, err)
	f := newFixture(t, dir)
	for generation := first; ; generation++ {
		f.say("api", generationOf(generation))
		require.NoError(t, f.writer.Save())
		fmt.Println("saved", generation)
	}
}

// generationOf returns a snapshot of pods labelled with the generation.
func generationOf(n int) podconfig.Change {
	image := fmt.Sprint(n)
	return podconfig.Snapshot(pod("a", image), pod("b", image), pod("c", image))
}

// TestKillLeavesTheOldOrTheNew kills a process that saves without pause, with SIGKILL at random
// moments. The file must hold a whole generation, at least the last printed generation. The next
// process must work with the remaining files.
func TestKillLeavesTheOldOrTheNew(t *testing.T) {
	kills := 40
	if testing.Short() {
		kills = 10
	}
	f, generation := newFixture(t, t.TempDir()), 0
	for range kills {
		said := f.saveAndKill(generation, time.Duration(rand.IntN(20_000))*time.Microsecond)
		pods := f.read()
		require.Len(t, pods, 3)
		got, err := strconv.Atoi(strings.TrimPrefix(pods[0], "api/a="))
		require.NoError(t, err)
		require.Equal(t, []string{fmt.Sprint("api/a=", got), fmt.Sprint("api/b=", got), fmt.Sprint("api/c=", got)}, pods, "one generation")
		require.GreaterOrEqual(t, got, said, "what was said to be saved is")
		require.LessOrEqual(t, got, said+1, "and not what was never begun")
		generation = got + 1
	}
}

// saveAndKill runs a child until a moment after its first save, and returns the last printed
// generation.
func (f *fixture) saveAndKill(from int, after time.Duration) (said int) {
	self, err := os.Executable()
	require.NoError(f, err)
	cmd := exec.Command(self, "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), childFolder+"="+strings.TrimSuffix(f.path, "/pods.checkpoint"), fmt.Sprint(childFolder, "_FROM=", from))
	out, err := cmd.StdoutPipe()
	require.NoError(f, err)
	require.NoError(f, cmd.Start())
	said = -1
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		n, err := strconv.Atoi(strings.TrimPrefix(lines.Text(), "saved "))
		require.NoError(f, err, lines.Text())
		if said < 0 {
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
		said = n
	}
	err = cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	require.True(f, ok, "%v", err)
	require.Equal(f, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	require.GreaterOrEqual(f, said, 0)
	return said
}

// tinyDisk returns a file system of the given bytes. It skips the test for users other than root.
func tinyDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skip("needs to mount a tmpfs of its own:", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

func TestFullDiskKeepsTheOldAndSaysSo(t *testing.T) {
	f := newFixture(t, tinyDisk(t, 64<<10))
	f.say("api", generationOf(1))
	require.NoError(t, f.writer.Save())
	ballast := strings.TrimSuffix(f.path, "pods.checkpoint") + "ballast"
	require.Error(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600), "the disk is full now")
	for generation := range 3 {
		f.say("api", generationOf(2+generation))
		err := f.writer.Save()
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.EqualError(t, err, "checkpoint "+f.path+": write: no space left on device")
		require.Equal(t, []string{"api/a=1", "api/b=1", "api/c=1"}, f.read())
		require.False(t, f.exists(f.path+".tmp"), "the little that fits is not left behind")
	}
	require.NoError(t, os.Remove(ballast))
	require.NoError(t, f.writer.Save())
	require.Equal(t, []string{"api/a=4", "api/b=4", "api/c=4"}, f.read())
}

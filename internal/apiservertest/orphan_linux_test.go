// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// helperVariable makes the test program a helper process. The helper starts a server, prints its
// process IDs, and waits to be killed.
const helperVariable = "KEELSON_APISERVERTEST_HELPER"

// helper reports whether this process was a helper that has finished.
func helper() bool {
	dir := os.Getenv(helperVariable)
	if dir == "" {
		return false
	}
	_, err := makeFolder(dir)
	if err != nil {
		fmt.Println(err)
		return true
	}
	p, err := launch("/bin/sleep", []string{"1000"}, filepath.Join(dir, "log"))
	if err != nil {
		fmt.Println(err)
		return true
	}
	fmt.Println(p.pid)
	<-p.exited
	return true
}

// TestOrphans checks that servers do not outlive a killed test process, and that the next start
// removes the folder of the process.
func TestOrphans(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(strings.TrimSpace(line), &pid)
	require.NoError(t, err, line)
	child, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(child)
	left, err := filepath.Glob(filepath.Join(dir, folderPrefix+"*"))
	require.NoError(t, err)
	require.Len(t, left, 1)

	require.NoError(t, cmd.Process.Kill())
	assert.Error(t, cmd.Wait())
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(child), Events: unix.POLLIN}}, 10_000)
	require.NoError(t, err)
	if !assert.Equal(t, 1, n, "the child has ended, too") {
		assert.NoError(t, unix.PidfdSendSignal(child, unix.SIGKILL, nil, 0))
	}
	sweep(dir)
	assert.NoDirExists(t, left[0])
}

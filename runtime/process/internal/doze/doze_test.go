// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package doze_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/doze"
)

// wakeEnv makes the test binary a process that dozes. Its value is the number of the naps so far.
const wakeEnv = "DOZE_TEST_NAPS"

// dozer dozes before every byte of its input and every SIGUSR1, and says what has woken it.
func dozer() {
	if os.Args[0] != "dozer" {
		return
	}
	// os/signal takes the signal that has woken the process, because nothing else has.
	naps, _ := strconv.Atoi(os.Getenv(wakeEnv))
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGUSR1)
	if naps > 0 {
		fds := []unix.PollFd{{Fd: 0, Events: unix.POLLIN}}
		n, _ := unix.Poll(fds, 0)
		line := make([]byte, 1)
		if n > 0 {
			n, _ = unix.Read(0, line)
		}
		switch {
		case fds[0].Revents == 0:
			fmt.Println(naps, <-asked)
		case n == 0:
			fmt.Println(naps, "end")
			os.Exit(0)
		default:
			fmt.Printf("%d %s\n", naps, line)
		}
	}
	signal.Stop(asked)
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	if err := doze.Exec("sleeper", []string{fmt.Sprintf("%s=%d", wakeEnv, naps+1)}, []int{0}, nil, unix.SIGUSR1); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func TestMain(m *testing.M) {
	dozer()
	os.Exit(m.Run())
}

// TestExec: a process that dozes keeps PID, arguments, folder and descriptors, has little memory, and
// wakes up for a byte, for a signal and for the end of a pipe.
func TestExec(t *testing.T) {
	in, out := pipe(t), pipe(t)
	var c *exec.Cmd
	doze.Blocked(func() {
		c = &exec.Cmd{Path: "/proc/self/exe", Args: []string{"dozer", "two"}, Stdin: in[0], Stdout: out[1], Stderr: os.Stderr, Dir: t.TempDir()}
		require.NoError(t, c.Start())
	})
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	_ = out[1].Close()
	proc := fmt.Sprintf("/proc/%d/", c.Process.Pid)
	asleep := func() {
		for {
			comm, err := os.ReadFile(proc + "comm")
			require.NoError(t, err)
			if string(comm) == "sleeper\n" {
				break
			}
			time.Sleep(time.Millisecond)
		}
		args, err := os.ReadFile(proc + "cmdline")
		require.NoError(t, err)
		assert.Equal(t, "dozer\x00two\x00", string(args))
		dir, err := os.Readlink(proc + "cwd")
		require.NoError(t, err)
		assert.Equal(t, c.Dir, dir)
	}
	said := func() string {
		buf := make([]byte, 100)
		n, err := out[0].Read(buf)
		if err != nil {
			t.Fatal(err, c.Wait())
		}
		return string(buf[:n])
	}
	asleep()
	_, err := in[1].WriteString("a")
	require.NoError(t, err)
	assert.Equal(t, "1 a\n", said())
	asleep()
	// Other signals wait.
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGHUP, unix.SIGTERM, unix.SIGQUIT, unix.SIGUSR2, unix.SIGALRM, unix.SIGPIPE} {
		require.NoError(t, unix.Kill(c.Process.Pid, sig))
	}
	require.NoError(t, unix.Kill(c.Process.Pid, unix.SIGUSR1))
	assert.Equal(t, "2 user defined signal 1\n", said())
	asleep()
	rollup, err := os.ReadFile(proc + "smaps_rollup")
	require.NoError(t, err)
	kib := 0
	for _, field := range []string{"Private_Dirty:", "Private_Clean:"} {
		_, after, _ := strings.Cut(string(rollup), field)
		var n int
		_, err = fmt.Sscan(after, &n)
		require.NoError(t, err)
		kib += n
	}
	assert.LessOrEqual(t, kib, 64*os.Getpagesize()/4096, "KiB of private memory")
	t.Logf("%d KiB", kib)
	// Stopped and continued, it dozes on.
	require.NoError(t, unix.Kill(c.Process.Pid, unix.SIGSTOP))
	require.NoError(t, unix.Kill(c.Process.Pid, unix.SIGCONT))
	require.NoError(t, in[1].Close())
	assert.Equal(t, "3 end\n", said())
	require.NoError(t, c.Wait())
}

func pipe(t *testing.T) [2]*os.File {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return [2]*os.File{r, w}
}

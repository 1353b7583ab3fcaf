// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runtimetest

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShellPrintsWhatTheBehaviourSays(t *testing.T) {
	cmd := Shell(Behaviour{
		Print: []string{"it's $HOME", ""}, PrintErr: []string{"oops"}, PrintEnv: []string{"GREETING", "ABSENT"},
		PrintDir: true, PrintArgs: true, PrintLong: 100 << 10, PrintTail: "tail",
		ExitAfter: 2 * time.Millisecond, ExitCode: 3,
	})
	c := exec.Command(cmd[0], append(cmd[1:], "one", "two words", "")...)
	c.Dir = "/usr"
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "GREETING=hello  there"}
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	err := c.Run()
	require.Error(t, err)
	assert.Equal(t, 3, c.ProcessState.ExitCode())
	assert.Equal(t, "it's $HOME\n\nGREETING=hello  there\nABSENT=\ndir=/usr\narg=one\narg=two words\narg=\n"+
		strings.Repeat("x", 100<<10)+"\ntail", out.String())
	assert.Equal(t, "oops\n", errOut.String())
}

func TestShellOnSIGTERM(t *testing.T) {
	for _, tt := range []struct {
		name  string
		b     Behaviour
		group int // -1 signals the whole process group
		want  int
	}{
		{"process exits with TermCode", Behaviour{TermCode: 7}, 1, 7},
		{"group exits with TermCode", Behaviour{TermCode: 7}, -1, 7},
		{"with a child that will not go", Behaviour{TermCode: 7, Spawn: true}, -1, 7},
		{"unhurried", Behaviour{TermCode: 7, TermAfter: 50 * time.Millisecond}, -1, 7},
		{"ignored, until it exits by itself", Behaviour{IgnoreTerm: true, ExitAfter: 200 * time.Millisecond, ExitCode: 4}, -1, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.b.Print = []string{"ready"}
			cmd := Shell(tt.b)
			c := exec.CommandContext(t.Context(), cmd[0], cmd[1:]...)
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := c.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, c.Start())
			defer func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }() // the child of Spawn
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != "ready" {
				require.Equal(t, "beat", lines.Text())
			}
			require.Equal(t, "ready", lines.Text())
			require.NoError(t, syscall.Kill(tt.group*c.Process.Pid, syscall.SIGTERM))
			err = c.Wait()
			assert.Equal(t, tt.want, c.ProcessState.ExitCode(), "%v", err)
		})
	}
}

func TestShellOfAProgramThatIsNotThere(t *testing.T) {
	require.ErrorIs(t, exec.Command(Shell(Behaviour{CannotStart: true})[0]).Run(), os.ErrNotExist)
}

func TestParseLogLine(t *testing.T) {
	l, err := parseLogLine("2026-01-02T03:04:05.000000006Z stderr P:more  a b ")
	require.NoError(t, err)
	assert.Equal(t, logLine{at: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), stream: "stderr", partial: true, text: " a b "}, l)
	for _, bad := range []string{"", "x", "2026-01-02T03:04:05Z stdout F", "yesterday stdout F x", "2026-01-02T03:04:05Z stdin F x", "2026-01-02T03:04:05Z stdout X x"} {
		_, err := parseLogLine(bad)
		assert.Error(t, err, "%q", bad)
	}
}

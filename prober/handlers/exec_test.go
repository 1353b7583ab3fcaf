// SPDX-License-Identifier: Apache-2.0

package handlers_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/handlers"
)

// shellRunner runs commands on this machine, in a process group that is killed when ctx ends, and keeps 16 KiB of each
// stream, as the runtime's backends do.
func shellRunner(ctx context.Context, _ string, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
	c := exec.CommandContext(ctx, cmd[0], cmd[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	out, errOut := &capped{}, &capped{}
	c.Stdout, c.Stderr = out, errOut
	err = c.Run()
	if ctx.Err() != nil {
		return nil, nil, 0, ctx.Err()
	}
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.Bytes(), errOut.Bytes(), exited.ExitCode(), nil
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return out.Bytes(), errOut.Bytes(), 0, err
}

type capped struct{ bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), 16<<10-c.Len())])
	return len(p), nil
}

func shell(t testing.TB, script string) prober.Target {
	return targetOf(t, "", v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", script}}})
}

func newExec(t testing.TB) *handlers.Handler {
	return newHandler(t, handlers.Options{Runner: handlers.RunnerFunc(shellRunner)})
}

func TestExec(t *testing.T) {
	h := newExec(t)
	for script, want := range map[string]prober.Outcome{
		"echo fine":                      {Verdict: prober.VerdictSuccess, Output: "fine\n"},
		"echo err >&2; echo out; exit 3": {Verdict: prober.VerdictFailure, Output: "out\nerr\n"},
		"exit 1":                         {Verdict: prober.VerdictFailure},
		"kill -9 $$$$":                   {Verdict: prober.VerdictFailure},
		"trap '' TERM; echo deaf":        {Verdict: prober.VerdictSuccess, Output: "deaf\n"},
		"printf 'caf\\351!'":             {Verdict: prober.VerdictSuccess, Output: "caf\uFFFD!"},
		"nobody-has-this-command 2>&-":   {Verdict: prober.VerdictFailure},
	} {
		assert.Equal(t, want, outcome(t, timeout, h, shell(t, script)), script)
	}
}

// TestExecThatCannotRun has no verdict, as in the kubelet.
func TestExecThatCannotRun(t *testing.T) {
	target := targetOf(t, "", v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/nobody/has/this"}}})
	out, err := within(t, timeout, newExec(t), target)
	assert.ErrorIs(t, err, syscall.ENOENT)
	assert.Equal(t, prober.Outcome{}, out)
}

// TestExecTooLate: commands that do not end, ignore signals, or leave children behind that hold their output.
func TestExecTooLate(t *testing.T) {
	h := newExec(t)
	for name, script := range map[string]string{
		"sleeps":          "sleep 600",
		"ignores SIGTERM": "trap '' TERM; while :; do sleep 600; done",
		"forks":           "sleep 600 & sleep 600",
		"prints forever":  "yes s3cret",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			out := outcome(t, 5*brief, h, shell(t, script))
			assert.Equal(t, prober.Outcome{Verdict: prober.VerdictFailure, Output: "the command did not end in time"}, out)
			assert.Less(t, time.Since(began), timeout)
		})
	}
}

// TestExecThatForks ends when the command does, although a child lives on.
func TestExecThatForks(t *testing.T) {
	out := outcome(t, timeout, newExec(t), shell(t, "sleep 5 >/dev/null 2>&1 & echo $!"))
	require.Equal(t, prober.VerdictSuccess, out.Verdict)
	child, err := strconv.Atoi(strings.TrimSpace(out.Output))
	require.NoError(t, err)
	assert.NoError(t, syscall.Kill(child, syscall.SIGKILL), "it is still there")
}

// TestExecPrintsMuch: 10 MiB of output are read and 10 KiB kept, cut between runes.
func TestExecPrintsMuch(t *testing.T) {
	out := outcome(t, timeout, newExec(t), shell(t, "yes € | head -c 10485760; exit 1"))
	assert.Equal(t, prober.VerdictFailure, out.Verdict)
	assert.LessOrEqual(t, len(out.Output), prober.MaxOutput)
	assert.Greater(t, len(out.Output), prober.MaxOutput-utf8.UTFMax)
	assert.True(t, utf8.ValidString(out.Output))
	assert.NotContains(t, out.Output, "\uFFFD")
}

func TestExecErrors(t *testing.T) {
	answer := func(code int, err error) *handlers.Handler {
		return newHandler(t, handlers.Options{Runner: handlers.RunnerFunc(
			func(context.Context, string, []string) ([]byte, []byte, int, error) { return nil, nil, code, err })})
	}
	down := errors.New("the runtime is down")
	_, err := within(t, timeout, answer(0, down), shell(t, ""))
	assert.ErrorIs(t, err, down, "no verdict")
	out := outcome(t, timeout, answer(0, context.DeadlineExceeded), shell(t, ""))
	assert.Equal(t, prober.VerdictFailure, out.Verdict, "the runtime keeps the time")
}

func TestExecExpandsItsCommand(t *testing.T) {
	var id string
	var got []string
	h := newHandler(t, handlers.Options{Runner: handlers.RunnerFunc(
		func(_ context.Context, instance string, cmd []string) ([]byte, []byte, int, error) {
			id, got = instance, cmd
			return nil, nil, 0, nil
		})})
	env := []v1.EnvVar{
		{Name: "A", Value: "old"}, {Name: "A", Value: "$(B)"}, {Name: "B", Value: "b"}, {Name: "EMPTY"},
		{Name: "SECRET", ValueFrom: &v1.EnvVarSource{}},
	}
	for in, want := range map[string]string{
		"":                    "",
		"plain":               "plain",
		"$(B)":                "b",
		"x$(B)y$(B)z":         "xbybz",
		"$(A)":                "$(B)", // one pass; the last of a name counts
		"$(EMPTY)!":           "!",
		"$(SECRET) $(NOBODY)": "$(SECRET) $(NOBODY)",
		"$$(B)":               "$(B)",
		"$$$(B)":              "$b",
		"$B $ $(":             "$B $ $(",
		"$(B) $(open $$ $(B":  "b $(open $ $(B",
		"$":                   "$",
	} {
		target := targetOf(t, "", v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"cmd", in}}})
		target.Container.Env = env
		outcome(t, timeout, h, target)
		assert.Equal(t, []string{"cmd", want}, got, "%q", in)
		assert.Equal(t, "test://c1", id)
	}

	// References can ask for more than there is.
	target := targetOf(t, "", v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{strings.Repeat("$(BIG)", 100_000)}}})
	target.Container.Env = []v1.EnvVar{{Name: "BIG", Value: strings.Repeat("x", 1<<20)}}
	_, err := within(t, timeout, h, target)
	assert.ErrorContains(t, err, "the command is longer than")
	target.Probe.Exec.Command = []string{strings.Repeat("$(", 400_000)}
	outcome(t, timeout, h, target)
}

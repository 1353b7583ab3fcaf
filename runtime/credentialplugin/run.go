// SPDX-License-Identifier: Apache-2.0

package credentialplugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// runPatience limits a run of a plug-in, with the wait for other runs of the plug-in.
	runPatience = time.Minute
	// maxRuns is the highest number of processes of a plug-in.
	maxRuns = 4
	// maxAnswer is the largest size of an answer, in bytes.
	maxAnswer = 1 << 20
	// closePatience limits the wait for the output of processes that have ended.
	closePatience = time.Second
)

var (
	errPatience = fmt.Errorf("no answer within %s", runPatience)
	errTooLarge = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
)

// run runs a plug-in once and returns its output. Errors contain no output.
func run(ctx context.Context, dir string, p Provider, image string) ([]byte, error) {
	input, err := json.Marshal(request{Kind: "CredentialProviderRequest", APIVersion: p.APIVersion, Image: image})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	output := &limited{full: func() { cancel(errTooLarge) }}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, p.Name), p.Args...)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdin, cmd.Stdout = bytes.NewReader(input), output
	// A separate process group, so that the processes started by the plug-in end, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = closePatience
	err = cmd.Run()
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return output.data, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case exited:
		return nil, fmt.Errorf("it ended with %s", exit)
	case errors.Is(err, exec.ErrWaitDelay):
		return nil, errors.New("it ended, and another process holds its output")
	}
	return nil, err
}

// limited keeps the output of a plug-in, and calls full once there is too much of it. It has no
// method ReadFrom, which io.Copy would call instead of Write.
type limited struct {
	data []byte
	full func()
}

// Write implements io.Writer.
func (l *limited) Write(data []byte) (int, error) {
	if len(l.data)+len(data) > maxAnswer {
		l.full()
		return 0, errTooLarge
	}
	l.data = append(l.data, data...)
	return len(data), nil
}

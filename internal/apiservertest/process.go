// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
)

// process is a program that runs until killed.
type process struct {
	pid    int
	handle *os.Process
	exited chan struct{} // closed when the process has ended
}

// launch starts a program with its output appended to the file log. On Linux the program dies with
// the calling process, however the process ends.
func launch(program string, args []string, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	// The environment contains nothing that could change the program's behaviour.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Dir(log)}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	started, exited := make(chan error), make(chan struct{})
	go func() {
		// The parent-death signal is sent when the parent thread dies, so the thread must live as
		// long as the process.
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		defer close(exited)
		err := cmd.Start()
		started <- errors.Join(err, out.Close())
		if err == nil {
			_ = cmd.Wait() // the program ends by a signal
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(program), err)
	}
	return &process{pid: cmd.Process.Pid, handle: cmd.Process, exited: exited}, nil
}

// kill kills the process like a crash and returns when the process is gone. kill may be repeated,
// and p may be nil.
func (p *process) kill() error {
	if p == nil {
		return nil
	}
	if err := p.handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// tail is the last part of a log.
func tail(log string) string {
	const lines = 40
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error() + "\n"
	}
	all := strings.SplitAfter(string(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

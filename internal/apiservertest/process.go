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

// process is a program that runs until it is killed.
type process struct {
	pid    int
	handle *os.Process
	exited chan struct{} // closed when the process has ended
}

// launch starts a program, which writes to the end of the file log. Where the
// system can, it dies when this process does, however that may be.
func launch(program string, args []string, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	// Nothing of ours in its environment could change what it does.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Dir(log)}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes()
	started, exited := make(chan error), make(chan struct{})
	go func() {
		// The signal of a parent's death comes with the death of the thread that
		// was the parent: this one must last as long as the process.
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		defer close(exited)
		err := cmd.Start()
		started <- errors.Join(err, out.Close())
		if err == nil {
			_ = cmd.Wait() // it ends by a signal
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(program), err)
	}
	return &process{pid: cmd.Process.Pid, handle: cmd.Process, exited: exited}, nil
}

// kill ends the process as a crash would and returns when it is gone. It can be
// repeated, and p may be nil.
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

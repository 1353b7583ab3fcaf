// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	goruntime "runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/lookpath"
	"github.com/keelson-dev/keelson/runtime/process/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

const (
	maxExecOutput = 16 << 10
	// execEnv marks the processes of one Exec, so that what it started can be
	// found when it is cancelled.
	execEnv = "KEELSON_EXEC_ID"
	// pipeTime is how long the output of a command that has ended is waited for,
	// when something it left behind holds it open.
	pipeTime = 500 * time.Millisecond
)

// Exec runs a command with the container's environment and working directory,
// in a session of its own. It ends with ctx or with the container, whichever is
// first; what it leaves running otherwise ends with the container.
func (r *Runtime) Exec(ctx context.Context, id runtime.ContainerID, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, 0, err
	}
	if len(cmd) == 0 {
		return nil, nil, 0, errors.New("exec: the command is empty")
	}
	s, in, err := r.openContainer(id)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("container %s: %w", id, err)
	}
	defer s.close()
	defer in.close()
	o, err := r.observe(ctx, in)
	if err == nil && o.verdict != verdictRunning {
		err = errors.New("the container does not run")
	}
	if err == nil {
		// Tells the shim to look for what is left when the container ends.
		err = touch(in.dir, record.ExecFile)
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("exec in container %s: %w", in.key.name, err)
	}
	stdout, stderr, exitCode, err = execIn(ctx, o, cmd)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("exec in container %s: %w", in.key.name, err)
	}
	return stdout, stderr, exitCode, nil
}

func touch(dir *os.Root, name string) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// execIn runs the command beside the container for as long as its shim lives.
func execIn(ctx context.Context, o observation, args []string) (stdout, stderr []byte, code int, err error) {
	shim, err := o.process.Shim.Open()
	if err != nil {
		return nil, nil, 0, errors.New("the container does not run")
	}
	defer shim.Close()
	running, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() {
		_ = shim.Wait(running)
		end()
	})

	name := args[0]
	if path.IsAbs(name) {
		name = shown(o.spec.Mounts, name)
	}
	program, err := lookpath.Find(name, o.spec.Dir, o.spec.Env)
	if err != nil {
		return nil, nil, 0, err
	}
	mark := execEnv + "=" + newSalt() + newSalt()
	var out, errOut capped
	c := exec.CommandContext(running, program)
	c.Args, c.Dir = args, o.spec.Dir
	c.Env = append(slices.Clone(o.spec.Env), mark)
	c.Stdout, c.Stderr = &out, &errOut
	c.SysProcAttr = execAttr()
	c.WaitDelay = pipeTime
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
	ran := make(chan error, 1)
	wg.Go(func() { ran <- runCommand(c, o.spec) })
	err = <-ran

	switch {
	case ctx.Err() != nil:
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
		defer cancel()
		killErr := proc.KillAll(cleaning, func(p proc.Info) bool { return proc.HasEnv(p.PID, mark) })
		return nil, nil, 0, errors.Join(ctx.Err(), killErr)
	case c.ProcessState == nil: // never started
		if bare := (*fs.PathError)(nil); errors.As(err, &bare) {
			err = bare.Err
		}
		return nil, nil, 0, fmt.Errorf("command %q: %w", args[0], err)
	}
	// How it ended is in its state; err may be that of what it left behind.
	status, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return out.buf, errOut.buf, 128 + int(status.Signal()), nil
	}
	return out.buf, errOut.buf, status.ExitStatus(), nil
}

// runCommand runs a command on a thread of its own that ends with it: the
// kernel's "kill me when my parent dies" means the thread, and privileges given
// up cannot be had back.
func runCommand(c *exec.Cmd, spec record.Spec) error {
	goruntime.LockOSThread() // and never unlocked
	if spec.NoNewPrivs {
		if err := dropPrivileges(); err != nil {
			return err
		}
	}
	return c.Run()
}

// capped keeps the first 16 KiB written to it.
type capped struct{ buf []byte }

func (c *capped) Write(p []byte) (int, error) {
	c.buf = append(c.buf, p[:min(len(p), maxExecOutput-len(c.buf))]...)
	return len(p), nil
}

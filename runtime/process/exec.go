// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	goruntime "runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/lookpath"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
	"github.com/keelson-dev/keelson/runtime/process/internal/stage"
)

const (
	maxExecOutput = 16 << 10
	// execEnv marks the processes of one Exec call, so that a cancelled Exec can kill them.
	execEnv = "KEELSON_EXEC_ID"
	// pipeTime bounds the wait for output after the command has ended, if a background
	// process of the command holds the output open.
	pipeTime = 500 * time.Millisecond
)

// Exec runs a command with the container's environment and working directory, in a new session.
// The command is killed when ctx or the container ends. Background processes of the command end
// with the container.
func (r *Runtime) Exec(ctx context.Context, id runtime.ContainerID, cmd []string) (stdout, stderr []byte, exitCode int, err error) {
	var out, errOut capped
	t, err := newStreams(runtime.Session{Stdout: &out, Stderr: &errOut})
	if err != nil {
		return nil, nil, 0, err
	}
	defer t.close()
	t.brief = true
	exitCode, err = r.execBeside(ctx, id, cmd, t.connect)
	t.finish(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	return out.buf, errOut.buf, exitCode, nil
}

// execBeside runs a command beside a running container, after connect has set its streams.
func (r *Runtime) execBeside(ctx context.Context, id runtime.ContainerID, cmd []string, connect func(*stage.Command)) (exitCode int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(cmd) == 0 {
		return 0, errors.New("exec: the command is empty")
	}
	s, in, err := r.openContainer(id)
	if err != nil {
		return 0, fmt.Errorf("container %s: %w", id, err)
	}
	defer s.close()
	defer in.close()
	o, err := r.observe(ctx, in)
	if err == nil && o.verdict != verdictRunning {
		err = errors.New("the container does not run")
	}
	if err == nil {
		// The file asks the shim to look for processes of Exec when the container ends.
		err = touch(in.dir, record.ExecFile)
	}
	if err == nil {
		exitCode, err = execIn(ctx, in, o, cmd, connect)
	}
	if err != nil {
		return 0, fmt.Errorf("exec in container %s: %w", in.key.name, err)
	}
	return exitCode, nil
}

// touch makes an empty file if name does not exist. An existing folder is as good, because only the
// existence of name counts.
func touch(dir *os.Root, name string) error {
	if _, err := dir.Lstat(name); err == nil {
		return nil
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// execIn runs the command beside the container for as long as its shim lives.
func execIn(ctx context.Context, in *instance, o observation, args []string, connect func(*stage.Command)) (code int, err error) {
	shim, err := in.hold(o.process.Shim)
	if err != nil {
		return 0, errors.New("the container does not run")
	}
	defer shim.Close()
	running, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()

	mark := execEnv + "=" + newSalt() + newSalt()
	c := stage.Command{Args: args, Dir: o.spec.Dir, Env: append(slices.Clone(o.spec.Env), mark), Walls: o.spec.Walls}
	if o.spec.Root != nil {
		main, err := o.process.Main.Open()
		if err != nil {
			return 0, errors.New("the container does not run")
		}
		defer main.Close()
		c.Programs, c.Beside = stage.Candidates(args[0], c.Env), main.File()
	} else {
		name := args[0]
		if path.IsAbs(name) {
			name = shown(o.spec.Mounts, name)
		}
		program, err := lookpath.Find(name, o.spec.Dir, o.spec.Env)
		if err != nil {
			return 0, err
		}
		c.Programs = []string{program}
	}
	connect(&c)
	var p *os.Process
	var state *os.ProcessState
	started := make(chan struct{})
	wg.Go(func() {
		// The kernel kills the command when the thread that started it ends.
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		defer end()
		p, err = stage.Start(c)
		close(started)
		if err == nil {
			state, err = p.Wait()
		}
	})
	gone := false // the shim, before the command
	wg.Go(func() {
		gone = shim.Wait(running) == nil
		<-started
		if p != nil {
			_ = p.Kill() // it may have ended
		}
	})
	wg.Wait()

	if ctx.Err() != nil || gone { // the shim may have looked for processes of the command too early
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
		defer cancel()
		if killErr := proc.KillMarked(cleaning, mark, proc.Ref{}); ctx.Err() != nil {
			return 0, errors.Join(ctx.Err(), killErr)
		}
	}
	switch {
	case state == nil: // never started
		if bare := (*fs.PathError)(nil); errors.As(err, &bare) {
			err = bare.Err
		}
		return 0, fmt.Errorf("command %q: %w", args[0], err)
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// capped keeps the first 16 KiB written to it.
type capped struct{ buf []byte }

func (c *capped) Write(p []byte) (int, error) {
	c.buf = append(c.buf, p[:min(len(p), maxExecOutput-len(c.buf))]...)
	return len(p), nil
}

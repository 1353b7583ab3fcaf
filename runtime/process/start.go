// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/cgroup"
	"github.com/keelson-dev/keelson/runtime/process/internal/doze"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// startTime bounds the wait for a shim's report of the start. A shim reports within milliseconds. A
// program that is not a shim never reports.
const startTime = 30 * time.Second

// StartContainer starts a created container and returns when the command was executed or has failed
// to execute. The end of ctx does not cancel a start under way, because the result must be known. A
// start takes milliseconds.
func (r *Runtime) StartContainer(ctx context.Context, id runtime.ContainerID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.shim == "" && !mainCalled.Load() {
		return ErrNoShim
	}
	s, in, err := r.openContainer(id)
	if err != nil {
		return fmt.Errorf("container %s: %w", id, err)
	}
	defer s.close()
	defer in.close()
	if err := r.start(ctx, s, in); err != nil {
		return fmt.Errorf("start container %s: %w", in.key.name, err)
	}
	return nil
}

func (r *Runtime) start(ctx context.Context, s *sandbox, in *instance) error {
	lock, err := r.lockToStart(ctx, in)
	if err != nil {
		return err
	}
	// The shim has a duplicate, which keeps the lock held.
	defer lock.Close()
	// The facts read below stay true until the lock is free again.
	if err := s.usable(); err != nil {
		return err
	}
	o, f, err := r.look(in, searchNowhere)
	if err != nil {
		return err
	}
	if judge(f) != verdictCreated {
		return errors.New("it was started before")
	}
	if len(o.spec.Args) == 0 {
		return errors.New("its record is broken")
	}
	if g := o.spec.Cgroup; g != nil {
		if err := cgroup.Make(g); err != nil {
			return fmt.Errorf("make the cgroup: %w", err)
		}
	}
	if r.shim == "" || r.shimWorks.Load() {
		if err := r.bear(in, lock, &o.spec); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	if err := r.launch(in, lock); err != nil {
		return err
	}
	r.shimWorks.Store(true)
	return nil
}

// lockToStart takes a created container's lock. A program started by this process at the same
// moment holds a duplicate of every descriptor until the program is executed. A lock may therefore
// stay held shortly after the holder has closed the lock.
func (r *Runtime) lockToStart(ctx context.Context, in *instance) (*record.Lock, error) {
	for {
		lock, err := record.TryLock(in.dir, in.key.id().ID)
		if !errors.Is(err, record.ErrLocked) {
			return lock, err
		}
		o, err := r.observe(ctx, in)
		if err != nil {
			return nil, err
		}
		if o.verdict != verdictCreated {
			return nil, errors.New("it was started before")
		}
	}
}

// launch starts the shim and waits for the shim's report.
func (r *Runtime) launch(in *instance, lock *record.Lock) error {
	hear, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer hear.Close()
	p, err := r.startShim(in, lock, say)
	_ = say.Close()
	if err != nil {
		return err
	}
	if _, err = listen(hear); err != nil {
		// The kill of the shim also kills the container's main process.
		_ = p.Kill()
		_, _ = p.Wait()
		return r.explain(in, err)
	}
	if info, err := proc.Lookup(p.Pid); err == nil {
		r.watch(in, info.Ref)
	}
	return p.Release()
}

// startShim starts the shim in a new session, with all signals blocked. The shim inherits the lock and the pipe for the
// report, no other descriptor, and no variable of the agent's environment.
func (r *Runtime) startShim(in *instance, lock *record.Lock, say *os.File) (*os.Process, error) {
	path, err := r.shimProgram()
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	shimLog, err := openShimLog(in)
	if err != nil {
		return nil, err
	}
	defer shimLog.Close()
	// In the order of record.LockFD, record.StatusFD and record.NameFD.
	files := []*os.File{null, null, shimLog, lock.File, say}
	if lock.Name != nil {
		files = append(files, lock.Name)
	}
	var p *os.Process
	doze.Blocked(func() {
		p, err = os.StartProcess(path, []string{record.ShimName, in.path}, &os.ProcAttr{
			Dir:   in.path,
			Env:   shimEnvironment(),
			Files: files,
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	})
	if err != nil {
		return nil, fmt.Errorf("start the shim: %w", err)
	}
	return p, nil
}

// shimEnvironment returns the whole environment of a shim: the mark, GOMAXPROCS=1, and the settings
// of builds with -race and -cover.
func shimEnvironment() []string {
	env := []string{record.ShimEnv + "=1", "GOMAXPROCS=1"}
	for _, name := range []string{"GORACE", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// openShimLog opens the file that is a shim's stderr.
func openShimLog(in *instance) (*os.File, error) {
	return in.dir.OpenFile(record.LockFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// shimProgram returns the path of the program that is executed as a shim.
func (r *Runtime) shimProgram() (string, error) {
	if r.shim != "" {
		return r.shim, nil
	}
	path, err := selfExecutable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return path, nil
}

// selfExecutable returns a path that executes this program. On Linux the path is valid even after
// the program's file was replaced or removed.
func selfExecutable() (string, error) {
	if goruntime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// errSilent is the error of a shim that ended without a report.
var errSilent = errors.New("the shim ended at once")

// listen waits for a shim's report. The error is nil if the container's command was executed.
func listen(hear *os.File) (pid int, err error) {
	if err := hear.SetReadDeadline(time.Now().Add(startTime)); err != nil {
		return 0, err
	}
	var word record.Started
	err = json.NewDecoder(hear).Decode(&word)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("the shim said nothing for %v", startTime)
	case err != nil:
		err = errSilent
	case word.Error != "":
		err = errors.New(word.Error)
	}
	return word.PID, err
}

// explain adds the first line of the shim's stderr to the error of a shim that ended without a
// report.
func (r *Runtime) explain(in *instance, err error) error {
	if !errors.Is(err, errSilent) {
		return err
	}
	raw, readErr := in.dir.ReadFile(record.LockFile)
	line, _, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	if readErr != nil || line == "" {
		return err
	}
	return fmt.Errorf("%w: %.200s", err, line)
}

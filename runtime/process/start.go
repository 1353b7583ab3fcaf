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
	"github.com/keelson-dev/keelson/runtime/process/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// startTime bounds how long a shim may take to say whether the container
// started. It takes milliseconds unless it is not a shim at all.
const startTime = 30 * time.Second

// StartContainer starts a created container and returns when its command has
// been executed, or could not be. Once begun it is not cancelled by ctx: a start
// takes milliseconds, and what became of it must be known.
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
	// The shim has a duplicate, with which the lock stays held.
	defer lock.Close()
	// Everything below is true until the lock is free again.
	if err := s.usable(); err != nil {
		return err
	}
	o, f, err := r.look(in)
	if err != nil {
		return err
	}
	f.locked = false // it is ours
	if judge(f) != verdictCreated {
		return errors.New("it was started before")
	}
	if len(o.spec.Args) == 0 {
		return errors.New("its record is broken")
	}
	return r.launch(in, lock)
}

// lockToStart takes a created container's lock. Another program that this
// process starts at the same moment holds a duplicate of every descriptor until
// it is executed, so a lock may be held a moment longer than by its holder.
func (r *Runtime) lockToStart(ctx context.Context, in *instance) (*os.File, error) {
	for {
		lock, err := record.TryLock(in.dir)
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

// launch starts the shim and waits for its word.
func (r *Runtime) launch(in *instance, lock *os.File) error {
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
	err = listen(hear)
	if err != nil {
		// Whatever it still does ends here, and with it what it started.
		_ = p.Kill()
		_, _ = p.Wait()
		return r.explain(in, err)
	}
	if info, err := proc.Lookup(p.Pid); err == nil {
		r.watch(in.key, info.Ref)
	}
	return p.Release()
}

// startShim starts the shim in a session of its own. It inherits the lock, the
// pipe to speak on, and nothing else: not the agent's environment, either.
func (r *Runtime) startShim(in *instance, lock, say *os.File) (*os.Process, error) {
	path := r.shim
	if path == "" {
		var err error
		if path, err = selfExecutable(); err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	shimLog, err := in.dir.OpenFile(record.ShimLogFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer shimLog.Close()
	p, err := os.StartProcess(path, []string{record.ShimName, in.path}, &os.ProcAttr{
		Dir: in.path,
		Env: shimEnvironment(),
		// In the order of record.LockFD and record.StatusFD.
		Files: []*os.File{null, null, shimLog, lock, say},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start the shim: %w", err)
	}
	return p, nil
}

// shimEnvironment is the whole environment of a shim: its mark, that one thread
// is plenty, and what builds with -race and -cover are told by.
func shimEnvironment() []string {
	env := []string{record.ShimEnv + "=1", "GOMAXPROCS=1"}
	for _, name := range []string{"GORACE", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// selfExecutable returns a path that executes this program, even if its file
// was replaced or removed meanwhile.
func selfExecutable() (string, error) {
	if goruntime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// errSilent says that a shim ended without a word.
var errSilent = errors.New("the shim ended at once")

// listen waits for a shim's word: nil if the container's command was executed.
func listen(hear *os.File) error {
	if err := hear.SetReadDeadline(time.Now().Add(startTime)); err != nil {
		return err
	}
	var word record.Started
	err := json.NewDecoder(hear).Decode(&word)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the shim said nothing for %v", startTime)
	case err != nil:
		return errSilent
	case word.Error != "":
		return errors.New(word.Error)
	}
	return nil
}

// explain adds to the error of a shim that ended without a word what it wrote
// to its stderr.
func (r *Runtime) explain(in *instance, err error) error {
	if !errors.Is(err, errSilent) {
		return err
	}
	raw, readErr := in.dir.ReadFile(record.ShimLogFile)
	line, _, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	if readErr != nil || line == "" {
		return err
	}
	return fmt.Errorf("%w: %.200s", err, line)
}

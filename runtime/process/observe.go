// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/ending"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

const (
	// settleTime bounds the wait for a start begun by another agent. After settleTime the
	// container's state is unknown.
	settleTime = 3 * time.Second
	// cleanUpTime bounds the time for killing the processes left by a dead shim.
	cleanUpTime = 10 * time.Second
)

// observation is the state of one container with the records that prove it.
type observation struct {
	verdict verdict // below verdictSettling
	spec    record.Spec
	process record.Process
	exit    record.Exit
	unkept  bool  // no record has all of exit
	err     error // the reason for verdictUnknown
}

// observe returns the state of a container. observe waits for a start under way, and kills the
// processes left by a dead shim. The error is ctx's, or runtime.ErrNotFound for a container that is
// being removed.
func (r *Runtime) observe(ctx context.Context, in *instance) (observation, error) {
	deadline := r.settleBy(in.path)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		last := !time.Now().Before(deadline)
		where := searchHint
		if last || wait >= searchAfter {
			where = searchAll
		}
		o, err := r.observeNow(ctx, in, where)
		if err != nil {
			return o, err
		}
		if o.verdict != verdictSettling {
			r.settled(in.path)
			return o, nil
		}
		if last {
			r.unsettled(in.path)
			o.verdict, o.err = verdictUnknown, errors.New("its start does not settle")
			return o, nil
		}
		if retry.Sleep(ctx, wait) != nil {
			return o, ctx.Err()
		}
	}
}

// observeNow is observe without the wait. The verdict may be verdictSettling.
func (r *Runtime) observeNow(ctx context.Context, in *instance, where search) (observation, error) {
	o, f, err := r.look(in, where)
	if err == nil {
		o.verdict = judge(f)
	}
	if err == nil && o.verdict > verdictSettling {
		if err = r.conclude(ctx, in); err == nil {
			if o, f, err = r.look(in, where); err == nil {
				o.verdict = min(judge(f), verdictSettling)
			}
		}
	}
	switch {
	case errors.Is(err, runtime.ErrNotFound):
		return o, err
	case errors.Is(err, record.ErrLocked):
		o.verdict = verdictSettling
	case err != nil && ctx.Err() != nil:
		return o, ctx.Err()
	case err != nil:
		r.report(in.path, err)
		o.verdict, o.err = verdictUnknown, err
	case o.verdict == verdictUnknown:
		o.err = errors.New("its record is broken")
	case o.verdict == verdictExited:
		proc.Reap(o.process.Shim.PID, record.ShimName)
		if o.unkept {
			// The message and the cgroup may change. A failure costs no more than that.
			_ = record.Restore(in.dir, record.ExitFile, o.exit)
		}
	}
	return o, nil
}

// settleBy returns the deadline of the wait for a start under way. A container whose start did not
// settle the last time gets no wait, because one hung start would slow every List.
func (r *Runtime) settleBy(path string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.stuck[path] {
		return time.Time{}
	}
	return time.Now().Add(settleTime)
}

func (r *Runtime) settled(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.stuck, path)
}

func (r *Runtime) unsettled(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.stuck[path] = true
}

// look gathers the facts in the order that the type facts prescribes.
func (r *Runtime) look(in *instance, where search) (o observation, f facts, err error) {
	end, err := r.readEnd(in, &o, &f)
	if err != nil {
		return o, f, err
	}
	if where != searchNowhere {
		if f.locked, err = record.Locked(in.dir, in.key.id().ID); err != nil {
			return o, f, err
		}
	}
	if o.process, f.process, err = read[record.Process](r, in, record.ProcessFile); err != nil {
		return o, f, err
	}
	if f.rebooted = in.boot.before(o.process); f.rebooted {
		// A process of this boot may well have the same number and start time.
		o.process.Shim, o.process.Main = proc.Ref{}, proc.Ref{}
	}
	f.started = o.process.Main.PID > 0
	f.shim = proc.Is(o.process.Shim, in.isShim)
	var spec presence
	if o.spec, spec, err = read[record.Spec](r, in, record.SpecFile); err != nil {
		return o, f, err
	}
	runs := f.exit == absent && f.process == present && f.started && f.shim
	if (f.locked || f.shim) && !f.rebooted && (!runs || spec != present) {
		spec = r.ask(in, where, &o, &f, spec)
	}
	if !f.locked && f.exit != present && o.process.Exit != nil {
		o.exit, f.exit = *o.process.Exit, present
		r.restored(in, record.ExitFile, record.Restore(in.dir, record.ExitFile, o.exit))
	}
	if spec != present {
		o.spec = in.bareSpec()
	}
	if end != nil {
		o.exit = ending.Exit(in.dir, &o.spec, *end, "", nil)
		o.unkept = true
	}
	if !f.shim && (spec != present || f.exit != present) && in.gone() {
		// Another call is deleting the records.
		err = runtime.ErrNotFound
	}
	return o, f, err
}

// readEnd reads how the container has ended. The result is nil, unless the shim has ended in its sleep
// and left the rest of the record to the reader.
func (r *Runtime) readEnd(in *instance, o *observation, f *facts) (end *record.End, err error) {
	if o.exit, f.exit, err = read[record.Exit](r, in, record.ExitFile); err != nil || f.exit == present {
		return nil, err
	}
	slept, err := record.ReadEnd(in.dir)
	switch bad := (*record.CorruptError)(nil); {
	case err == nil:
		f.exit = present
		return &slept, nil
	case errors.As(err, &bad):
		r.report(bad.Path, bad.Err)
		f.exit = corrupt
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return nil, nil
}

// read reads one record of a container and reports a corrupt record. The error is that of an
// unreadable folder.
func read[T any](r *Runtime, in *instance, name string) (T, presence, error) {
	v, err := record.Read[T](in.dir, name)
	if err == nil {
		return v, present, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return v, absent, nil
	}
	if bad := (*record.CorruptError)(nil); errors.As(err, &bad) {
		r.report(bad.Path, bad.Err)
		return v, corrupt, nil
	}
	return v, absent, err
}

// bareSpec returns the facts in the name of a container's folder, for a container with a broken
// spec. The creation time is unknown.
func (in *instance) bareSpec() record.Spec {
	return record.Spec{ID: in.key.id().ID, Name: in.key.name, RestartCount: in.key.restart}
}

// conclude records the end of a container with a dead shim. conclude holds the container's lock.
// The error is record.ErrLocked if another call holds the lock to do the same.
func (r *Runtime) conclude(ctx context.Context, in *instance) error {
	lock, err := record.TryLock(in.dir, in.key.id().ID)
	if err != nil {
		return err
	}
	defer lock.Close()
	o, f, err := r.look(in, searchNowhere)
	if err != nil {
		return err
	}
	exit := record.Exit{Code: 137, Reason: runtime.ReasonError, FinishedAt: time.Now()}
	switch judge(f) {
	case verdictLost:
		exit.Message = "the shim of the container was killed, and the container with it; its own exit code is not known"
		if err := killRest(ctx, in, o.process); err != nil {
			return fmt.Errorf("kill what a dead shim left behind: %w", err)
		}
	case verdictRebooted:
		exit.Message = "the machine was restarted while the container ran"
	case verdictForgotten:
		exit.Message = "the record of how the container ended cannot be read"
		for _, name := range []string{record.ExitFile, record.EndFile} {
			if err := tree.RemoveAll(in.dir, name); err != nil {
				return err
			}
		}
	default:
		return nil // another call has recorded the end
	}
	proc.Reap(o.process.Shim.PID, record.ShimName)
	return record.WriteDurable(in.dir, record.ExitFile, exit)
}

// killRest kills every process of a container with a dead shim. The processes are found by the mark
// in their environment, which the kernel keeps. The recorded PIDs may belong to other processes.
func killRest(ctx context.Context, in *instance, p record.Process) error {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTime)
	defer cancel()
	return proc.KillMarked(ctx, record.IDEnv+"="+in.key.id().ID, p.Main)
}

// bootCheck detects records from an earlier boot of the machine.
type bootCheck struct {
	now     string
	sandbox string // Sandbox.BootID; empty if it cannot be read
}

func (b bootCheck) before(p record.Process) bool {
	return b.sandbox != "" && b.sandbox != b.now || p.BootID != "" && p.BootID != b.now
}

// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/process/internal/proc"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

const (
	// settleTime is how long a start that another agent began is waited for,
	// before a container counts as unknown.
	settleTime = 3 * time.Second
	// cleanUpTime bounds the killing of what a dead shim left behind.
	cleanUpTime = 10 * time.Second
)

// observation is what became of one container, and the records that say so.
type observation struct {
	verdict verdict // below verdictSettling
	spec    record.Spec
	process record.Process
	exit    record.Exit
	err     error // why it is unknown
}

// observe says what became of a container. It waits for a start under way, and
// ends what a dead shim left behind. The error is ctx's, or
// runtime.ErrNotFound for a container that is being removed.
func (r *Runtime) observe(ctx context.Context, in *instance) (observation, error) {
	deadline := r.settleBy(in.path)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		o, err := r.observeNow(ctx, in)
		if err != nil {
			return o, err
		}
		if o.verdict != verdictSettling {
			r.settled(in.path)
			return o, nil
		}
		if !time.Now().Before(deadline) {
			r.unsettled(in.path)
			o.verdict, o.err = verdictUnknown, errors.New("its start does not settle")
			return o, nil
		}
		if !proc.Pause(ctx, wait) {
			return o, ctx.Err()
		}
	}
}

// observeNow is observe without waiting: the verdict may be settling.
func (r *Runtime) observeNow(ctx context.Context, in *instance) (observation, error) {
	o, f, err := r.look(in)
	if err == nil {
		o.verdict = judge(f)
	}
	if err == nil && o.verdict > verdictSettling {
		if err = r.conclude(ctx, in); err == nil {
			if o, f, err = r.look(in); err == nil {
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
		o.process.Shim.Reap()
	}
	return o, nil
}

// settleBy returns until when a container may be waited for to settle: not at
// all if it did not the last time, or one hung start would slow every List.
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

// look gathers the facts. See facts for the order.
func (r *Runtime) look(in *instance) (o observation, f facts, err error) {
	if o.exit, f.exit, err = read[record.Exit](r, in, record.ExitFile); err != nil {
		return o, f, err
	}
	if f.locked, err = record.Locked(in.dir); err != nil {
		return o, f, err
	}
	if o.process, f.process, err = read[record.Process](r, in, record.ProcessFile); err != nil {
		return o, f, err
	}
	if f.rebooted = in.boot.before(o.process); f.rebooted {
		// A process of this boot may well have the same number and start time.
		o.process.Shim, o.process.Main = proc.Ref{}, proc.Ref{}
	}
	f.started = o.process.Main.PID > 0
	f.shim = o.process.Shim.Alive()
	var spec presence
	if o.spec, spec, err = read[record.Spec](r, in, record.SpecFile); spec != present {
		o.spec = in.bareSpec()
	}
	if err == nil && !f.shim && (spec != present || f.exit != present) && in.gone() {
		// The records are being deleted under our eyes, one by one.
		err = runtime.ErrNotFound
	}
	return o, f, err
}

// read reads one record of a container. A corrupt one is reported; the error is
// that of a folder which cannot be read at all.
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

// bareSpec is what a container's folder says of it when its spec is broken.
func (in *instance) bareSpec() record.Spec {
	spec := record.Spec{ID: in.key.id().ID, Name: in.key.name, RestartCount: in.key.restart}
	if info, err := in.dir.Stat("."); err == nil {
		spec.CreatedAt = info.ModTime()
	}
	return spec
}

// conclude records the end of a container whose shim cannot. It holds the lock
// meanwhile: record.ErrLocked means that somebody else is about to.
func (r *Runtime) conclude(ctx context.Context, in *instance) error {
	lock, err := record.TryLock(in.dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	o, f, err := r.look(in)
	if err != nil {
		return err
	}
	f.locked = false // it is ours
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
		if err := in.dir.RemoveAll(record.ExitFile); err != nil {
			return err
		}
	default:
		return nil // it was concluded meanwhile
	}
	o.process.Shim.Reap()
	return record.WriteDurable(in.dir, record.ExitFile, exit)
}

// killRest kills every process of a container whose shim is dead: those that
// carry its mark in their environment, and those of its session or group.
func killRest(ctx context.Context, in *instance, p record.Process) error {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTime)
	defer cancel()
	entry := record.IDEnv + "=" + in.key.id().ID
	// As long as a session or group exists its number is not used again. But all
	// of ours may be gone, and the number may be another's: then its leader has
	// another start time.
	leader, err := proc.Lookup(p.Main.PID)
	session := p.Main.PID > 0 && (err != nil || leader.Ref == p.Main)
	return proc.KillAll(ctx, func(q proc.Info) bool {
		inSession := session && q.Start >= p.Main.Start && (q.SID == p.Main.PID || q.PGID == p.Main.PID)
		return inSession || proc.HasEnv(q.PID, entry)
	})
}

// bootCheck tells whether records are from an earlier boot of the machine.
type bootCheck struct {
	now     string
	sandbox string // Sandbox.BootID; empty if it cannot be read
}

func (b bootCheck) before(p record.Process) bool {
	return b.sandbox != "" && b.sandbox != b.now || p.BootID != "" && p.BootID != b.now
}

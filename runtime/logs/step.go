// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/logstamp"
	"github.com/keelson-dev/keelson/internal/missing"
	"github.com/keelson-dev/keelson/runtime"
)

// Rotate checks a single log: it repairs an interrupted rotation, and rotates a big log. An
// interruption at any point, also by the death of the process, loses no log line, and the next call
// continues:
//
//	0.log (too big)            remove the oldest rotated files
//	                           compress the others: .gz.tmp, then .gz, then remove
//	0.log -> 0.log.<stamp>     rename; from here on 0.log is missing
//	0.log (new)                ReopenLog; if that fails the name is put back
//
// If a removal or compression fails (a full disk), Rotate still rotates the log and retries the
// removal at the next call. A missing log is reopened, because an interrupted rotation leaves no
// log file. Logs that are not regular files are ignored.
func (r *Rotator) Rotate(ctx context.Context, log Log) error {
	if r.opts.MaxSize < 0 {
		return nil
	}
	dir, base, leave, err := r.at(ctx, log.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the container is gone
	}
	if err == nil {
		defer leave()
		err = r.step(ctx, dir, base, log.ID)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("rotate log %s: %w", log.Path, err)
	}
	if err != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (r *Rotator) step(ctx context.Context, dir folder, base string, id runtime.ContainerID) error {
	names, err := dir.names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range leftovers(names, base) {
		errs = append(errs, missing.Ignore(dir.remove(name)))
	}
	info, err := dir.stat(base)
	if errors.Is(err, fs.ErrNotExist) {
		err := r.reopen(ctx, id)
		if errors.Is(err, runtime.ErrNotRunning) {
			err = nil
		}
		return errors.Join(append(errs, err)...)
	}
	if err == nil {
		errs = append(errs, putBackHalfway(dir, names, base, info))
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() < r.opts.MaxSize {
		return errors.Join(append(errs, err)...)
	}
	if names, err = dir.names(); err != nil {
		return errors.Join(append(errs, err)...)
	}
	remove, compress := makeRoom(names, base, r.opts.MaxFiles)
	for _, name := range remove {
		errs = append(errs, missing.Ignore(dir.remove(name)))
	}
	for _, name := range compress {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, compressFile(ctx, dir, name))
	}
	return errors.Join(append(errs, r.rename(ctx, dir, base, nextStamp(names, base, time.Now()), id))...)
}

// putBackHalfway removes the second name of a log if renaming the log back was interrupted.
func putBackHalfway(dir folder, names []string, base string, log fs.FileInfo) error {
	for _, f := range history(names, base) {
		name := base + f.suffix()
		if info, err := dir.stat(name); err == nil && os.SameFile(info, log) {
			return missing.Ignore(dir.remove(name))
		}
	}
	return nil
}

// rename is the rotation itself.
func (r *Rotator) rename(ctx context.Context, dir folder, base, stamp string, id runtime.ContainerID) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	old := base + "." + stamp
	if err := dir.rename(base, old); err != nil {
		return missing.Ignore(err)
	}
	err := r.reopen(ctx, id)
	if err == nil {
		return nil
	}
	if errors.Is(err, runtime.ErrNotRunning) {
		err = nil // the container has just terminated: its log is no longer rotated
	}
	// ReopenLog may have succeeded despite the error. The new file then stays.
	if back := dir.putBack(old, base); back != nil && !errors.Is(back, fs.ErrExist) {
		return errors.Join(err, fmt.Errorf("rename it back: %w", back))
	}
	return err
}

func (r *Rotator) reopen(ctx context.Context, id runtime.ContainerID) error {
	ctx, cancel := context.WithTimeout(ctx, reopenTimeout)
	defer cancel()
	if err := r.opts.Reopener.ReopenLog(ctx, id); err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return fmt.Errorf("reopen: %w", err)
	}
	return nil
}

// compressFile replaces name by name.gz. The modification time is kept, because readers use the
// time to skip files.
func compressFile(ctx context.Context, dir folder, name string) error {
	info, err := dir.stat(name)
	if err != nil {
		return missing.Ignore(err)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	tmp := name + logstamp.GZ + tmpSuffix
	if err = writeCompressed(ctx, dir, name, tmp, info.Mode().Perm()); err == nil {
		err = dir.setTime(tmp, info.ModTime())
	}
	if err == nil {
		err = dir.rename(tmp, name+logstamp.GZ)
	}
	if err != nil {
		return fmt.Errorf("compress %s: %w", name, errors.Join(err, missing.Ignore(dir.remove(tmp))))
	}
	return missing.Ignore(dir.remove(name))
}

func writeCompressed(ctx context.Context, dir folder, from, to string, mode fs.FileMode) error {
	src, err := dir.open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := dir.create(to, mode)
	if err != nil {
		return err
	}
	// The fastest level halves the work, and logs come out a tenth larger.
	gz, err := gzip.NewWriterLevel(dst, gzip.BestSpeed)
	if err == nil {
		err = copyText(ctx, gz, src)
	}
	if err == nil {
		err = gz.Close()
	}
	if err == nil {
		err = dst.Sync() // the original goes next
	}
	return errors.Join(err, dst.Close())
}

// copyText copies until the end of src or of ctx.
func copyText(ctx context.Context, dst io.Writer, src io.Reader) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err := io.CopyN(dst, src, 1<<20)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Clean removes the log at path and all its rotated files, for a container that is gone. Clean
// waits for a running rotation of the log. (The kubelet's Clean has no effect if rotation is off;
// Rotator.Clean always removes the files.)
func (r *Rotator) Clean(ctx context.Context, path string) error {
	dir, base, leave, err := r.at(ctx, path)
	if err != nil {
		return missing.Ignore(err)
	}
	defer leave()
	names, err := dir.names()
	errs := []error{err}
	for _, name := range names {
		if name == base || strings.HasPrefix(name, base+".") {
			errs = append(errs, missing.Ignore(dir.remove(name)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean log %s: %w", path, err)
	}
	return nil
}

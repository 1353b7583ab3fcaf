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

	"github.com/keelson-dev/keelson/runtime"
)

// Rotate looks at one log, once: it heals what an interruption has left, and
// rotates the log if it is too big. Interrupted at any point, also by the death
// of the process, nothing that was logged is lost, and the next step goes on:
//
//	0.log (too big)            remove the oldest rotated files
//	                           compress the others: .gz.tmp, then .gz, then remove
//	0.log -> 0.log.<stamp>     rename; from here on 0.log is missing
//	0.log (new)                ReopenLog; if that fails the name is put back
//
// Where removing or compressing fails (a full disk) it rotates all the same, and
// tries again the next time. A log that is missing is reopened: that is where a
// step may have been interrupted. Logs that are no regular files are left alone.
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
		errs = append(errs, missing(dir.remove(name)))
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
		errs = append(errs, missing(dir.remove(name)))
	}
	for _, name := range compress {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, compressFile(ctx, dir, name))
	}
	return errors.Join(append(errs, r.rename(ctx, dir, base, nextStamp(names, base, time.Now()), id))...)
}

// putBackHalfway removes the second name of a log that was put back, where that
// was interrupted.
func putBackHalfway(dir folder, names []string, base string, log fs.FileInfo) error {
	for _, f := range history(names, base) {
		name := base + f.suffix()
		if info, err := dir.stat(name); err == nil && os.SameFile(info, log) {
			return missing(dir.remove(name))
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
		return missing(err)
	}
	err := r.reopen(ctx, id)
	if err == nil {
		return nil
	}
	if errors.Is(err, runtime.ErrNotRunning) {
		err = nil // it has just ended: its log is not rotated any more
	}
	// It may have been done all the same; then there is a new file, which stays.
	if back := dir.putBack(old, base); back != nil && !errors.Is(back, fs.ErrExist) {
		return errors.Join(err, fmt.Errorf("rename it back: %w", back))
	}
	return err
}

func (r *Rotator) reopen(ctx context.Context, id runtime.ContainerID) error {
	ctx, cancel := context.WithTimeout(ctx, r.opts.ReopenTimeout)
	defer cancel()
	if err := r.opts.Reopener.ReopenLog(ctx, id); err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return fmt.Errorf("reopen: %w", err)
	}
	return nil
}

// compressFile puts name.gz in the place of name. The time it was written last
// is kept: readers tell by it what they need not look at.
func compressFile(ctx context.Context, dir folder, name string) error {
	info, err := dir.stat(name)
	if err != nil {
		return missing(err)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	tmp := name + gzSuffix + tmpSuffix
	if err = writeCompressed(ctx, dir, name, tmp, info.Mode().Perm()); err == nil {
		err = dir.setTime(tmp, info.ModTime())
	}
	if err == nil {
		err = dir.rename(tmp, name+gzSuffix)
	}
	if err != nil {
		return fmt.Errorf("compress %s: %w", name, errors.Join(err, missing(dir.remove(tmp))))
	}
	return missing(dir.remove(name))
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

// Clean removes the log at path and everything rotated from it, for a container
// that is gone. It waits for a rotation of that log to end. (The kubelet's does
// nothing if rotation is off; this one does.)
func (r *Rotator) Clean(ctx context.Context, path string) error {
	dir, base, leave, err := r.at(ctx, path)
	if err != nil {
		return missing(err)
	}
	defer leave()
	names, err := dir.names()
	errs := []error{err}
	for _, name := range names {
		if name == base || strings.HasPrefix(name, base+".") {
			errs = append(errs, missing(dir.remove(name)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean log %s: %w", path, err)
	}
	return nil
}

// missing treats fs.ErrNotExist as success: what is to be gone is.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

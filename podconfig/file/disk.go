// SPDX-License-Identifier: Apache-2.0

package file

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// patience is the time for a file system to answer a call about a path before the path counts
	// as hung. After the first hung path, further paths of the same scan get only hurriedPatience.
	patience        = 250 * time.Millisecond
	hurriedPatience = 20 * time.Millisecond
	// farewell is the time for which a cancelled scan waits for the running call.
	farewell = 50 * time.Millisecond
	// mostHung is the largest number of hung calls. Each hung call occupies a thread.
	mostHung = 1_000
	// batch is the number of paths read at once, and thus the number of contents in memory.
	batch = 64
)

// errHung means that the file system has not answered.
var errHung = errors.New("the file system does not answer; the file is read once it does, check the mount")

// errTooManyHung means that a path was not read because mostHung calls about other paths have not
// returned.
var errTooManyHung = fmt.Errorf("not read, because the file system does not answer about %d other paths, check the mount", mostHung)

// disk makes calls that may never return on a network file system or FUSE. Each batch of calls runs
// in its own goroutine. If a call hangs, its goroutine is abandoned, because no context can end the
// call. While a call hangs, no further call is made for its path.
type disk struct {
	// root is exempt from mostHung.
	root string
	hung map[string]<-chan struct{} // by path; closed after the call has returned
}

// blocked returns the reason not to read path now, or nil.
func (d *disk) blocked(path string) error {
	for hung, returned := range d.hung {
		select {
		case <-returned:
			delete(d.hung, hung)
		default:
		}
	}
	switch {
	case d.hung[path] != nil:
		return errHung
	case len(d.hung) >= mostHung && path != d.root:
		return errTooManyHung
	}
	return nil
}

// visit calls a function for a range of paths, one path after another, in a goroutine.
type visit[T any] struct {
	from, to int // indices of the paths
	call     func(i int) T
	returned chan struct{} // closed after the goroutine has ended

	mu struct {
		sync.Mutex
		results []T // of the paths so far
		since   time.Time
		left    bool // further results are dropped
	}
}

func startVisit[T any](from, to int, call func(i int) T) *visit[T] {
	v := &visit[T]{from: from, to: to, call: call, returned: make(chan struct{})}
	v.mu.results, v.mu.since = make([]T, 0, to-from), time.Now()
	go v.run()
	return v
}

func (v *visit[T]) run() {
	defer close(v.returned)
	for i := v.from; i < v.to; i++ {
		result := v.call(i)
		v.mu.Lock()
		left := v.mu.left
		if !left {
			v.mu.results, v.mu.since = append(v.mu.results, result), time.Now()
		}
		v.mu.Unlock()
		if left {
			return
		}
	}
}

// abandonIfSlow abandons the visit if its running call has taken longer than patience, and returns
// the results so far. Otherwise abandonIfSlow returns the remaining time for the call.
func (v *visit[T]) abandonIfSlow(patience time.Duration) (results []T, remaining time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if remaining = patience - time.Since(v.mu.since); remaining > 0 {
		return nil, remaining
	}
	v.mu.left = true
	return v.mu.results, 0
}

// wait returns the results of the visit. If a call hangs, there are fewer results than paths. The
// error is the cause of ctx.
func (v *visit[T]) wait(ctx context.Context, patience time.Duration) ([]T, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-v.returned:
			return v.mu.results, nil
		case <-ctx.Done():
			v.abandonIfSlow(0)
			timer.Reset(farewell)
			select {
			case <-v.returned:
			case <-timer.C:
			}
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
		results, remaining := v.abandonIfSlow(patience)
		if remaining <= 0 {
			return results, nil
		}
		timer.Reset(remaining)
	}
}

// each makes a call about each path and passes the result to got, in order and in the calling
// goroutine. Both functions receive the index of the path. For a hung path, got receives an error.
// The error of each is the cause of ctx.
func each[T any](ctx context.Context, d *disk, paths []string, call func(i int) T, got func(i int, result T, err error)) error {
	wait := patience
	var none T
	for i := 0; i < len(paths); {
		if err := d.blocked(paths[i]); err != nil {
			got(i, none, err)
			i++
			continue
		}
		v := startVisit(i, i+d.batchLength(paths[i:]), call)
		results, err := v.wait(ctx, wait)
		if err != nil {
			return err
		}
		for _, result := range results {
			got(i, result, nil)
			i++
		}
		if i < v.to {
			d.hung[paths[i]] = v.returned
			wait = hurriedPatience
		}
	}
	return nil
}

// batchLength returns the number of leading paths to read in a batch, at least 1.
func (d *disk) batchLength(paths []string) int {
	n := 1
	for n < min(batch, len(paths)) && d.hung[paths[n]] == nil {
		n++
	}
	return n
}

// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// A runtime's word that a container has ended is not enough:
//
//   - containerd says so when the process is gone, a moment before its status
//     does. The seam promises that the status does, too.
//   - A stop of a container that does not run does nothing, also while it is
//     about to run. A stop waits for the start that this value has under way,
//     and for a moment for one whose outcome nobody told (its call was cut
//     short), and stops what comes up.
//   - It may fail and the container end all the same, see insist.go.
//   - It leaves a created container startable. What is still created after a stop
//     is marked in a file, and StartContainer refuses what is marked, in this
//     process and in later ones.

// Bounds of these moments. There is no event to wait for that all runtimes
// offer.
const (
	statusPatience = 10 * time.Second
	lostPatience   = 2 * time.Second
	firstPause     = 2 * time.Millisecond
	longestPause   = 200 * time.Millisecond
)

// StopContainer implements runtime.Runtime.
func (r *Runtime) StopContainer(ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
	if !goodID(id.ID) {
		return notFound("StopContainer", id.ID)
	}
	if err := r.awaitIdle(ctx, id.ID); err != nil {
		return fmt.Errorf("StopContainer: %w", err)
	}
	if err := r.stopFirmly(ctx, id.ID, grace); err != nil {
		return err
	}
	began, marked := time.Now(), false
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		st, err := r.containerStatus(ctx, id.ID)
		if err != nil {
			return gone(err)
		}
		waited := time.Since(began)
		switch created := st.GetState() == api.ContainerState_CONTAINER_CREATED; {
		case st.GetState() == api.ContainerState_CONTAINER_EXITED:
			r.clearLost(id.ID)
			return nil
		case created && !marked:
			if err := r.files.markStopped(id.ID); err != nil {
				return fmt.Errorf("StopContainer: remember that it must not start: %w", err)
			}
			marked = true
			// A start may have begun just before the mark.
			if err := r.awaitIdle(ctx, id.ID); err != nil {
				return fmt.Errorf("StopContainer: %w", err)
			}
			continue
		case created && (!r.isLost(id.ID) || waited > lostPatience):
			r.clearLost(id.ID)
			return nil
		case waited > statusPatience:
			return fmt.Errorf("StopContainer: the runtime says that the container has ended, and %s later that it is %s", statusPatience, stateOf(st.GetState()))
		case !created:
			// It came up meanwhile, or its status lags behind; kill in either case:
			// its grace is over.
			if err := r.stopFirmly(ctx, id.ID, 0); err != nil {
				return gone(err)
			}
		}
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("StopContainer: %w", err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop asks politely, waits for grace and kills. The CRI counts in seconds: what
// is left of grace beyond them is waited for here.
func (r *Runtime) stop(ctx context.Context, id string, grace time.Duration) error {
	whole := grace.Truncate(time.Second)
	if grace <= 0 || whole == grace {
		return r.stopOnce(ctx, id, max(grace, 0))
	}
	limited, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := r.stopOnce(limited, id, whole+time.Second)
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	return r.stopOnce(ctx, id, 0)
}

// stopOnce is one call; grace is whole seconds.
func (r *Runtime) stopOnce(ctx context.Context, id string, grace time.Duration) error {
	_, err := do(ctx, callTimeout+grace, "StopContainer", r.cri.StopContainer,
		&api.StopContainerRequest{ContainerId: id, Timeout: int64(grace / time.Second)})
	return err
}

// mayRun reports whether there may be a process.
func mayRun(s api.ContainerState) bool {
	return s != api.ContainerState_CONTAINER_CREATED && s != api.ContainerState_CONTAINER_EXITED
}

// isUncertain reports whether a call failed in a way that leaves open whether it
// had its effect.
func isUncertain(err error) bool {
	if err == nil {
		return false
	}
	e, ok := errors.AsType[*CallError](err)
	return !ok || e.Code == codes.DeadlineExceeded || e.Code == codes.Canceled || connectionDied(err)
}

// start is a call under way that others on the container wait for.
type start struct{ done chan struct{} }

// acquire waits until no start and no removal of the container is under way,
// and makes the caller the one that is.
func (r *Runtime) acquire(ctx context.Context, id string) (release func(), err error) {
	for {
		r.mu.Lock()
		other := r.mu.starts[id]
		if other == nil {
			own := &start{done: make(chan struct{})}
			r.mu.starts[id] = own
			r.mu.Unlock()
			return func() {
				r.mu.Lock()
				delete(r.mu.starts, id)
				r.mu.Unlock()
				close(own.done)
			}, nil
		}
		r.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// awaitIdle waits until no start and no removal of the container is under way.
func (r *Runtime) awaitIdle(ctx context.Context, id string) error {
	r.mu.Lock()
	other := r.mu.starts[id]
	r.mu.Unlock()
	if other == nil {
		return nil
	}
	select {
	case <-other.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Runtime) setLost(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.lost[id] = true
}

func (r *Runtime) isLost(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.lost[id]
}

func (r *Runtime) clearLost(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.lost, id)
}

// lingering returns a context that ends d later than ctx. The caller must call
// cancel, which waits for what is behind it.
func lingering(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	out, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-out.Done():
			return
		case <-ctx.Done():
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-out.Done():
		case <-timer.C:
			end()
		}
	})
	return out, func() { end(); wg.Wait() }
}

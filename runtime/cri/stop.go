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

	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/runtime"
)

// A runtime's report of a stopped container is not enough:
//
//   - containerd reports the stop when the process is gone, a moment before the status is exited.
//     runtime.Runtime promises an exited status.
//   - A stop of a container not yet running does nothing, even during its start. StopContainer
//     waits for a start under way in this process, and for a moment for a start with an unknown
//     outcome (its call was cut short), and then stops the container again if running.
//   - A stop may fail although the container ends, see insist.go.
//   - A stop leaves a created container startable. StopContainer marks a created container in a
//     file, and StartContainer refuses marked containers, in this process and in later ones.

// Bounds of the waits. No event for these moments is offered by all runtimes.
const (
	statusPatience = 10 * time.Second
	lostPatience   = 2 * time.Second
	firstPause     = 2 * time.Millisecond
	longestPause   = 200 * time.Millisecond
)

// StopContainer implements runtime.Runtime.
func (r *client) StopContainer(ctx context.Context, id runtime.ContainerID, grace time.Duration) error {
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
			r.lost.Delete(id.ID)
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
			r.lost.Delete(id.ID)
			return nil
		case waited > statusPatience:
			return fmt.Errorf("StopContainer: the runtime says that the container has ended, and %s later that it is %s", statusPatience, stateOf(st.GetState()))
		case !created:
			// The container started meanwhile, or the status lags behind. Kill in either case: the
			// grace period is over.
			if err := r.stopFirmly(ctx, id.ID, 0); err != nil {
				return gone(err)
			}
		}
		if err := retry.Sleep(ctx, wait); err != nil {
			return fmt.Errorf("StopContainer: %w", err)
		}
	}
}

// stop sends the stop signal, waits for grace and kills. The CRI counts in whole seconds; the
// fraction of grace is timed here.
func (r *client) stop(ctx context.Context, id string, grace time.Duration) error {
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

// stopOnce makes one call; grace is whole seconds.
func (r *client) stopOnce(ctx context.Context, id string, grace time.Duration) error {
	_, err := do(ctx, callTimeout+grace, "StopContainer", r.cri.StopContainer,
		&api.StopContainerRequest{ContainerId: id, Timeout: int64(grace / time.Second)})
	return err
}

// mayRun reports whether there may be a process.
func mayRun(s api.ContainerState) bool {
	return s != api.ContainerState_CONTAINER_CREATED && s != api.ContainerState_CONTAINER_EXITED
}

// isUncertain reports whether a failed call may have had its effect.
func isUncertain(err error) bool {
	if err == nil {
		return false
	}
	e, ok := errors.AsType[*CallError](err)
	return !ok || e.Code == codes.DeadlineExceeded || e.Code == codes.Canceled || connectionDied(err)
}

// awaitIdle waits until no start and no removal of the container is under way.
func (r *client) awaitIdle(ctx context.Context, id string) error {
	release, err := r.turns.Lock(ctx, id)
	if err == nil {
		release()
	}
	return err
}

func (r *client) isLost(id string) bool {
	_, lost := r.lost.Load(id)
	return lost
}

// lingering returns a context ending d later than ctx. The caller must call cancel, which joins the
// goroutine of lingering.
func lingering(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	out, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-out.Done():
		case <-ctx.Done():
			_ = retry.Sleep(out, d)
			end()
		}
	})
	return out, func() { end(); wg.Wait() }
}

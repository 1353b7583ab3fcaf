// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// watchingRuntime is a client of a runtime with container events. Events of the agent's own starts
// are dropped: the caller of a start reads the pod's status anyway, and every such event would
// cause another read.
type watchingRuntime struct {
	*client
	own     ownStarts
	changes atomic.Uint64 // events, and begins of a stream
	watched atomic.Bool   // a stream is open
}

// Changes implements logs.ChangeCounter. The events of the agent's own starts count.
func (w *watchingRuntime) Changes() (n uint64, known bool) {
	known = w.watched.Load()
	return w.changes.Load(), known
}

// errStreamEnded means the runtime ended the stream without an error.
var errStreamEnded = errors.New("GetContainerEvents: the runtime ended the stream")

// Watch implements runtime.Watcher by GetContainerEvents.
func (w *watchingRuntime) Watch(ctx context.Context) iter.Seq2[types.UID, error] {
	return func(yield func(types.UID, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := w.watch(ctx, yield); err != nil && ctx.Err() == nil {
			yield("", err)
		}
	}
}

// watch returns nil when yield returns false.
func (w *watchingRuntime) watch(ctx context.Context, yield func(types.UID, error) bool) error {
	stream, err := w.cri.GetContainerEvents(ctx, &api.GetEventsRequest{})
	if err != nil {
		return callError(ctx, noTimeout, "GetContainerEvents", err)
	}
	w.changes.Add(1)
	w.watched.Store(true)
	defer w.watched.Store(false)
	// The stream is opened before the list, on one connection, so no change is lost between both.
	pods, err := w.List(ctx, runtime.ListOptions{})
	if err != nil {
		return err
	}
	for _, p := range pods {
		if !yield(p.UID, nil) {
			return nil
		}
	}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return errStreamEnded
		}
		if err != nil {
			return callError(ctx, noTimeout, "GetContainerEvents", err)
		}
		w.changes.Add(1)
		uid, err := w.podOf(ctx, event)
		if w.own.explain(uid, event) {
			continue
		}
		if err != nil {
			return err
		}
		if uid != "" && !yield(uid, nil) {
			return nil
		}
	}
}

// podOf returns the UID of the event's pod; "" if the object no longer exists or was not made by an
// agent.
func (r *client) podOf(ctx context.Context, event *api.ContainerEventResponse) (types.UID, error) {
	if sandbox := event.GetPodSandboxStatus(); sandbox != nil {
		return podUID(sandbox.GetLabels()), nil
	}
	for _, c := range event.GetContainersStatuses() {
		if uid := podUID(c.GetLabels()); uid != "" {
			return uid, nil
		}
	}
	if !goodID(event.GetContainerId()) {
		return "", nil
	}
	st, err := r.containerStatus(ctx, event.GetContainerId())
	if err == nil {
		return podUID(st.GetLabels()), nil
	}
	if gone(err) != nil {
		return "", err
	}
	sandbox, err := r.sandboxStatus(ctx, event.GetContainerId())
	return podUID(sandbox.GetLabels()), gone(err)
}

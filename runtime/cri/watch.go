// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"io"
	"iter"

	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/runtime"
)

// watchingRuntime is a Runtime whose runtime tells of changes by itself. It
// keeps to itself what it is told of its own starts: who asked for them looks at
// the pod anyway, and would look again for every such hint.
type watchingRuntime struct {
	*Runtime
	own ownStarts
}

// errStreamEnded is for a stream that the runtime ended without an error.
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

// watch returns nil when nobody wants to hear more.
func (w *watchingRuntime) watch(ctx context.Context, yield func(types.UID, error) bool) error {
	stream, err := w.cri.GetContainerEvents(ctx, &api.GetEventsRequest{})
	if err != nil {
		return callError(ctx, noTimeout, "GetContainerEvents", err)
	}
	// The stream comes first and the list after it, on one connection: nothing
	// falls between them.
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

// podOf tells whose pod an event is about; "" where it is nobody's any more, or
// not an agent's.
func (r *Runtime) podOf(ctx context.Context, event *api.ContainerEventResponse) (types.UID, error) {
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

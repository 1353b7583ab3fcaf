// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// podOption shapes a test pod.
type podOption func(*v1.Pod)

// testPod returns a pod with the given UID, named after it, with a grace period of 30 s.
func testPod(uid types.UID, options ...podOption) *v1.Pod {
	grace := int64(30)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid), Namespace: "ns"},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &grace},
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

// static makes the pod a static pod with the given name.
func static(name string) podOption {
	return func(pod *v1.Pod) {
		pod.Name = name
		pod.Annotations = map[string]string{podfacts.AnnotationSource: "file"}
	}
}

// named renames the pod.
func named(name string) podOption {
	return func(pod *v1.Pod) { pod.Name = name }
}

// version distinguishes pods with the same UID, by their metadata.
func version(v string) podOption {
	return func(pod *v1.Pod) {
		pod.ResourceVersion = v
		metav1.SetMetaDataLabel(&pod.ObjectMeta, "version", v)
	}
}

// inPhase sets the API phase.
func inPhase(phase v1.PodPhase) podOption {
	return func(pod *v1.Pod) { pod.Status.Phase = phase }
}

// beingDeleted gives the pod a deletion timestamp and grace period.
func beingDeleted(grace int64) podOption {
	return func(pod *v1.Pod) {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		pod.DeletionGracePeriodSeconds = &grace
	}
}

// funcSyncer is a syncer and orphan syncer of funcs; a nil one succeeds at once.
type funcSyncer struct {
	sync        func(context.Context, SyncRequest) (Outcome, error)
	terminating func(context.Context, TerminatingRequest) error
	terminated  func(context.Context, SyncRequest) error
	orphan      func(context.Context, Orphan, int64) error
}

func (s *funcSyncer) SyncPod(ctx context.Context, r SyncRequest) (Outcome, error) {
	if s.sync == nil {
		return Outcome{}, nil
	}
	return s.sync(ctx, r)
}

func (s *funcSyncer) SyncTerminatingPod(ctx context.Context, r TerminatingRequest) error {
	if s.terminating == nil {
		return nil
	}
	return s.terminating(ctx, r)
}

func (s *funcSyncer) SyncTerminatedPod(ctx context.Context, r SyncRequest) error {
	if s.terminated == nil {
		return nil
	}
	return s.terminated(ctx, r)
}

func (s *funcSyncer) SyncTerminatingOrphan(ctx context.Context, o Orphan, grace int64) error {
	if s.orphan == nil {
		return nil
	}
	return s.orphan(ctx, o, grace)
}

// podsOnly hides the orphan method of a syncer.
type podsOnly struct{ PodSyncer }

// exact is a Jitter that adds nothing.
func exact(d time.Duration) time.Duration { return d }

// newWorkers returns Workers without jitter, not running.
func newWorkers(t *testing.T, o Options) *Workers {
	t.Helper()
	if o.Syncer == nil {
		o.Syncer = &funcSyncer{}
	}
	if o.Jitter == nil {
		o.Jitter = exact
	}
	w, err := New(o)
	require.NoError(t, err)
	return w
}

// runWorkers returns running Workers, and a func that stops the Workers and waits for Run.
func runWorkers(t *testing.T, o Options) (*Workers, func()) {
	t.Helper()
	w := newWorkers(t, o)
	return w, runUntilStopped(t, w)
}

// runUntilStopped starts Run in the bubble and returns a func that ends it and waits.
func runUntilStopped(t *testing.T, w *Workers) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// send passes an update that must be accepted, and lets everything settle.
func send(t *testing.T, w *Workers, u Update) {
	t.Helper()
	require.NoError(t, w.UpdatePod(u))
	synctest.Wait()
}

// info returns the WorkerInfo of a pod that must be known.
func info(t *testing.T, w *Workers, uid types.UID) WorkerInfo {
	t.Helper()
	known, ok := w.Info(uid)
	require.True(t, ok, "pod %s is unknown", uid)
	return known
}

// closed reports whether a channel is closed.
func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// seconds returns a pointer for a grace period.
func seconds(s int64) *int64 { return &s }

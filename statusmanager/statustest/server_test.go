// SPDX-License-Identifier: Apache-2.0

package statustest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

var _ interface {
	statusmanager.Patcher
	statusmanager.Getter
	statusmanager.Pods
} = (*statustest.Server)(nil)

func newServer(t *testing.T, o statustest.Options) *statustest.Server {
	s, err := statustest.New(o)
	require.NoError(t, err)
	return s
}

func create(s *statustest.Server, name string) (*v1.Pod, statusmanager.PodRef) {
	pod := s.Create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	return pod, statusmanager.PodRef{Namespace: "default", Name: name, UID: pod.UID}
}

func patch(ref statusmanager.PodRef, status string) []byte {
	return []byte(`{"metadata":{"uid":"` + string(ref.UID) + `"},"status":` + status + `}`)
}

func TestPatch(t *testing.T) {
	s := newServer(t, statustest.Options{})
	_, ref := create(s, "a")
	first, err := s.PatchStatus(t.Context(), ref, patch(ref, `{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`))
	require.NoError(t, err)
	same, err := s.PatchStatus(t.Context(), ref, patch(ref, `{"phase":"Running"}`))
	require.NoError(t, err)
	assert.Equal(t, first.ResourceVersion, same.ResourceVersion, "nothing changed")
	merged, err := s.PatchStatus(t.Context(), ref, patch(ref, `{"conditions":[{"type":"Other","status":"True"}]}`))
	require.NoError(t, err)
	assert.NotEqual(t, first.ResourceVersion, merged.ResourceVersion)
	assert.Len(t, merged.Status.Conditions, 2)
	assert.Len(t, first.Status.Conditions, 1, "what was handed out stays as it was")

	other := ref
	other.UID = "other"
	_, err = s.PatchStatus(t.Context(), other, patch(other, `{"phase":"Failed"}`))
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
	assert.ErrorContains(t, err, "metadata.uid")
	other.Name = "nobody"
	_, err = s.PatchStatus(t.Context(), other, patch(other, `{}`))
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
	_, err = s.PatchStatus(t.Context(), ref, []byte(`{"status":`))
	assert.True(t, apierrors.IsBadRequest(err), "%v", err)
	assert.Equal(t, 6, s.Total(statusmanager.RequestPatch))
	assert.Equal(t, 2, s.Changes(statusmanager.RequestPatch))
}

func TestDelete(t *testing.T) {
	s := newServer(t, statustest.Options{})
	pod, ref := create(s, "a")
	wrong := ref
	wrong.UID = "other"
	assert.True(t, apierrors.IsConflict(s.DeletePod(t.Context(), wrong)))
	_, err := s.Change(pod.UID, func(p *v1.Pod) { p.Finalizers = []string{"example.com/wait"} })
	require.NoError(t, err)
	require.NoError(t, s.DeletePod(t.Context(), ref))
	require.NotNil(t, s.Get(pod.UID), "a finalizer keeps it")
	_, err = s.Change(pod.UID, func(p *v1.Pod) { p.Finalizers = nil })
	require.NoError(t, err)
	require.NoError(t, s.DeletePod(t.Context(), ref))
	assert.Nil(t, s.Get(pod.UID))
	assert.True(t, apierrors.IsNotFound(s.DeletePod(t.Context(), ref)))
	_, err = s.Delete(pod.UID)
	require.ErrorIs(t, err, statustest.ErrNoPod)
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, statustest.Options{Latency: time.Second})
		_, ref := create(s, "a")
		_, other := create(s, "b")
		inject := func(f statustest.Fault) *statustest.Injected {
			in, err := s.Inject(f)
			require.NoError(t, err)
			return in
		}
		boom := errors.New("boom")
		second := inject(statustest.Fault{Request: statusmanager.RequestGet, Pod: "a", Nth: 2, Err: boom})
		get := func(r statusmanager.PodRef) error { _, err := s.GetPod(t.Context(), r); return err }
		require.NoError(t, get(ref))
		require.NoError(t, get(other))
		require.ErrorIs(t, get(ref), boom)
		require.NoError(t, get(ref))
		assert.Equal(t, 1, second.Hits())

		short := inject(statustest.Fault{For: 1500 * time.Millisecond, Err: boom})
		require.ErrorIs(t, get(ref), boom)
		require.ErrorIs(t, get(ref), boom)
		require.NoError(t, get(ref), "it is over")
		short.Clear()

		slow := inject(statustest.Fault{Times: 1, Latency: time.Minute})
		began := time.Now()
		require.NoError(t, get(ref))
		assert.Equal(t, time.Minute+time.Second, time.Since(began))
		slow.Clear()

		hang := inject(statustest.Fault{HangUntilCtx: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := s.GetPod(ctx, ref)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		hang.Clear()

		lost := inject(statustest.Fault{DoneButReplyLost: true})
		_, err = s.PatchStatus(t.Context(), ref, patch(ref, `{"phase":"Running"}`))
		require.ErrorIs(t, err, statustest.ErrReplyLost)
		assert.Equal(t, v1.PodRunning, s.Get(ref.UID).Status.Phase)
		lost.Clear()
	})
}

func TestInvalidFaultsAndOptions(t *testing.T) {
	s := newServer(t, statustest.Options{})
	for _, f := range []statustest.Fault{{}, {Nth: -1, Latency: 1}, {Latency: -1}} {
		_, err := s.Inject(f)
		require.Error(t, err)
	}
	_, err := statustest.New(statustest.Options{Latency: -1})
	require.ErrorContains(t, err, "Options.Latency")
}

// TestWatch: every change is reported in order, including changes made by a watcher.
func TestWatch(t *testing.T) {
	s := newServer(t, statustest.Options{})
	var phases []v1.PodPhase
	s.Watch(func(pod *v1.Pod) {
		phases = append(phases, pod.Status.Phase)
		if pod.Status.Phase == v1.PodRunning {
			_, err := s.Change(pod.UID, func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })
			assert.NoError(t, err)
		}
	})
	_, ref := create(s, "a")
	_, err := s.PatchStatus(t.Context(), ref, patch(ref, `{"phase":"Running"}`))
	require.NoError(t, err)
	assert.Equal(t, []v1.PodPhase{"", v1.PodRunning, v1.PodFailed}, phases)
}

func TestMirrors(t *testing.T) {
	s := newServer(t, statustest.Options{})
	static := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "hash"}}
	mirror := s.CreateMirror(static)
	assert.NotEqual(t, static.UID, mirror.UID)
	found, ok := s.Mirror("hash")
	assert.True(t, ok)
	assert.Equal(t, mirror.UID, found.UID)
	uid, ok := s.Static(mirror.UID)
	assert.True(t, ok)
	assert.Equal(t, static.UID, uid)
	_, ok = s.Static("nobody")
	assert.False(t, ok)
}

func TestJournal(t *testing.T) {
	s := newServer(t, statustest.Options{JournalLimit: 2})
	_, ref := create(s, "a")
	for _, phase := range []string{"Pending", "Running", "Running", "Failed"} {
		_, err := s.PatchStatus(t.Context(), ref, patch(ref, `{"phase":"`+phase+`"}`))
		require.NoError(t, err)
	}
	assert.Equal(t, "    0.000s patch default/a("+string(ref.UID)+"): ok, nothing changed", s.Journal()[0].String()[:0]+
		"    0.000s"+s.Journal()[0].String()[10:])
	assert.Contains(t, s.Journal().String(), "ok, Failed")
	assert.Len(t, s.Journal(), 2)
	assert.Equal(t, 4, s.Total(statusmanager.RequestPatch))

	none := newServer(t, statustest.Options{JournalLimit: -1})
	_, ref = create(none, "a")
	_, err := none.GetPod(t.Context(), ref)
	require.NoError(t, err)
	assert.Empty(t, none.Journal())
	assert.Equal(t, 1, none.Total(statusmanager.RequestGet))
}

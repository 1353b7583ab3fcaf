// SPDX-License-Identifier: Apache-2.0

package statustest_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// watched collects the events of a watch, as "TYPE name at time".
type watched struct {
	watch.Interface
	began time.Time
}

// next returns the events that have arrived, with "END" at the end of the watch.
func (w *watched) next() (seen []string) {
	for {
		synctest.Wait()
		select {
		case e, open := <-w.ResultChan():
			if !open {
				return append(seen, "END")
			}
			name := fmt.Sprint(apierrors.ReasonForError(apierrors.FromObject(e.Object)))
			if pod, ok := e.Object.(*v1.Pod); ok {
				name = pod.Name
				if pod.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
					name = "initial"
				}
			}
			seen = append(seen, fmt.Sprintf("%s %s %s", e.Type, name, time.Since(w.began)))
		default:
			return seen
		}
	}
}

func open(t *testing.T, c *statustest.Client, o metav1.ListOptions) *watched {
	t.Helper()
	o.FieldSelector = "spec.nodeName=a"
	w, err := c.Watch(t.Context(), o)
	require.NoError(t, err)
	return &watched{w, time.Now()}
}

func bound(name, node string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID, pod.Spec.NodeName = "ns", name, types.UID("uid-of-"+name), node
	return pod
}

// TestClientFollows: Follow passes what a watch passes, after the lag and in the goroutine of the caller, and ends
// with the error of its function, a cut or the end of its context.
func TestClientFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := statustest.New(statustest.Options{})
		require.NoError(t, err)
		c := s.NewClient(time.Second)
		s.Create(bound("early", "a"))
		s.Create(bound("other", "b"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		var seen []string
		ends := make(chan error)
		refusal := errors.New("enough")
		follow := func() {
			ends <- c.Follow(ctx, "a", func(e watch.Event) error {
				pod := e.Object.(*v1.Pod)
				seen = append(seen, fmt.Sprintf("%s %s %s", e.Type, pod.Name, time.Since(began)))
				if pod.Name == "last" {
					return refusal
				}
				return nil
			})
		}
		go follow()
		synctest.Wait()
		_, err = s.Change("uid-of-early", func(p *v1.Pod) { p.Status.Phase = v1.PodRunning })
		require.NoError(t, err)
		s.Remove("uid-of-other")
		s.Remove("uid-of-early")
		s.Create(bound("last", "a"))
		s.Create(bound("unseen", "a"))
		require.ErrorIs(t, <-ends, refusal)
		assert.Equal(t, []string{"ADDED early 0s", "BOOKMARK  0s", "MODIFIED early 1s", "DELETED early 1s", "ADDED last 1s"}, seen)

		s.Remove("uid-of-last")
		go follow()
		synctest.Wait()
		c.Cut(nil)
		require.NoError(t, <-ends)
		go follow()
		require.ErrorIs(t, <-ends, syscall.ECONNREFUSED)
		c.Mend()
		go follow()
		synctest.Wait()
		cancel()
		require.NoError(t, <-ends)
	})
}

func TestClientWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := statustest.New(statustest.Options{History: 4})
		require.NoError(t, err)
		c := s.NewClient(time.Second)
		s.Create(bound("early", "a"))
		s.Create(bound("other", "b"))

		list, err := c.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=a"})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
		all, err := c.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, all.Items, 2)

		w := open(t, c, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true, TimeoutSeconds: new(int64(60))})
		both := open(t, c, metav1.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true})
		assert.Equal(t, []string{"ADDED early 0s", "BOOKMARK initial 0s"}, both.next())
		pending := s.Create(bound("pending", ""))
		_, err = s.Change(pending.UID, func(p *v1.Pod) { p.Spec.NodeName = "a" })
		require.NoError(t, err)
		_, err = s.Change("uid-of-early", func(p *v1.Pod) { p.Status.Phase = v1.PodRunning })
		require.NoError(t, err)
		s.Remove("uid-of-other")
		assert.Empty(t, w.next(), "the lag")
		time.Sleep(time.Second)
		assert.Equal(t, []string{"ADDED pending 1s", "MODIFIED early 1s"}, w.next())
		assert.Equal(t, []string{"ADDED pending 1s", "MODIFIED early 1s"}, both.next())
		s.Bookmark()
		require.NoError(t, c.DeletePod(t.Context(), statusmanager.PodRef{Namespace: "ns", Name: "early", UID: "uid-of-early"}))
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"BOOKMARK  3s", "DELETED early 3s"}, w.next(), "the bookmark waited for this reader since 2s")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"BOOKMARK  1m3s", "END"}, w.next(), "the timeout, also late by the reader")

		for range 20 { // more than the history
			s.Create(bound("new", "a"))
			s.Remove("uid-of-new")
		}
		w = open(t, c, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		assert.Equal(t, []string{"ERROR Expired 0s", "END"}, w.next())
		list, err = c.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		w = open(t, c, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		s.Create(bound("new", "a"))
		c.EndWatches()
		assert.Equal(t, []string{"END"}, w.next())
		w = open(t, c, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"ADDED new 1s"}, w.next(), "nothing is lost between two watches")
		w.Stop()
		s.Compact()
		w = open(t, c, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		assert.Equal(t, []string{"ERROR Expired 0s", "END"}, w.next())
		both.Stop()
	})
}

// TestReplacedPodIsDeleted: a pod of the same name and another UID is the end of the first pod.
func TestReplacedPodIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := statustest.New(statustest.Options{})
		require.NoError(t, err)
		s.Create(bound("web", "a"))
		w := open(t, s.NewClient(0), metav1.ListOptions{})
		next := bound("web", "a")
		next.UID = "another"
		s.Create(next)
		assert.Equal(t, []string{"ADDED web 0s", "DELETED web 0s", "ADDED web 0s"}, w.next())
		w.Stop()
	})
}

func TestCutClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := statustest.New(statustest.Options{})
		require.NoError(t, err)
		c := s.NewClient(0)
		pod := s.Create(bound("web", "a"))
		ref := statusmanager.PodRef{Namespace: "ns", Name: "web", UID: pod.UID}
		w := open(t, c, metav1.ListOptions{ResourceVersion: pod.ResourceVersion})
		for _, cause := range []error{nil, apierrors.NewServiceUnavailable("no")} {
			want := cause
			if cause == nil {
				want = syscall.ECONNREFUSED
			}
			c.Cut(cause)
			_, listed := c.List(t.Context(), metav1.ListOptions{})
			_, watching := c.Watch(t.Context(), metav1.ListOptions{})
			_, patched := c.PatchStatus(t.Context(), ref, []byte(`{}`))
			_, got := c.GetPod(t.Context(), ref)
			for _, err := range []error{listed, watching, patched, got, c.DeletePod(t.Context(), ref)} {
				assert.True(t, errors.Is(err, want), err)
			}
		}
		assert.Equal(t, []string{"END"}, w.next())
		c.Mend()
		got, err := c.GetPod(t.Context(), ref)
		require.NoError(t, err)
		assert.Equal(t, pod.UID, got.UID)
		for _, o := range []metav1.ListOptions{{LabelSelector: "a=b"}, {FieldSelector: "status.phase=Running"}, {FieldSelector: "x"}} {
			_, err := c.List(t.Context(), o)
			assert.True(t, apierrors.IsBadRequest(err), err)
		}
		_, err = c.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "x"})
		assert.True(t, apierrors.IsBadRequest(err), err)
	})
}

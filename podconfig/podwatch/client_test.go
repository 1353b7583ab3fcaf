// SPDX-License-Identifier: Apache-2.0

package podwatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/internal/clienttest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/mirror"
	"github.com/keelson-dev/keelson/podconfig/podwatch"
)

// client-go's clients implement PodListWatcher.
var (
	_ podwatch.PodListWatcher = typedcorev1.PodInterface(nil)
	_ mirror.Writer           = typedcorev1.PodInterface(nil)
)

// client-go's fake client works, too. It ignores field selectors and has no bookmarks.
func TestRunOnAFakeClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		clients := clienttest.New(pod("a"), onNode(pod("foreign"), "m"))
		pods := clients.CoreV1().Pods("ns")
		f := &fixture{T: t}
		f.config = podwatch.Config{Pods: clients.CoreV1().Pods(""), NodeName: "n", WithoutWatchList: true}
		r := f.run()
		require.Equal(t, []string{"snapshot a"}, r.take())
		_, err := pods.Create(t.Context(), pod("b"), metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = pods.Update(t.Context(), withImage(pod("a"), "x:2"), metav1.UpdateOptions{})
		require.NoError(t, err)
		require.NoError(t, pods.Delete(t.Context(), "b", metav1.DeleteOptions{}))
		synctest.Wait()
		require.Equal(t, []string{"upsert b", "upsert a=x:2", "remove b"}, r.take())
		require.NoError(t, r.stop())
	})
}

// tardy takes three seconds to end a list or a watch.
type tardy struct {
	lists bool // lists also never answer
	ended atomic.Bool
}

func (s *tardy) List(ctx context.Context, _ metav1.ListOptions) (*v1.PodList, error) {
	if s.lists {
		s.end(ctx)
		return nil, ctx.Err()
	}
	return &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (s *tardy) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	events := make(chan watch.Event)
	go func() {
		defer close(events)
		s.end(ctx)
	}()
	return watch.NewProxyWatcher(events), nil
}

func (s *tardy) end(ctx context.Context) {
	<-ctx.Done()
	time.Sleep(3 * time.Second)
	s.ended.Store(true)
}

// When Run returns, all its requests and goroutines have ended, even slow requests.
func TestRunWaitsForWhatItBegan(t *testing.T) {
	for name, lists := range map[string]bool{"list": true, "watch": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				server := &tardy{lists: lists}
				f := &fixture{T: t, config: podwatch.Config{Pods: server, NodeName: "n", WithoutWatchList: true}}
				r := f.run()
				require.NoError(t, r.stop())
				require.True(t, server.ended.Load())
			})
		})
	}
}

// dying is a watch that reports an undecodable event after its context has ended, like client-go's.
type dying struct{ tardy }

func (s *dying) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	events, last := make(chan watch.Event), make(chan watch.Event, 1)
	last <- watch.Event{Type: watch.Error, Object: &metav1.Status{Code: 500}}
	go func() {
		defer close(events)
		<-ctx.Done()
		select {
		case events <- <-last:
		case <-time.After(time.Second):
		}
	}()
	return watch.NewProxyWatcher(events), nil
}

func TestRunTellsNothingOfItsOwnEnd(t *testing.T) {
	for range 20 { // the order of ready events is random
		bubble(t, func(t *testing.T) {
			f := &fixture{T: t}
			f.config = podwatch.Config{Pods: &dying{}, NodeName: "n", WithoutWatchList: true, Problem: f.problem}
			r := f.run()
			require.NoError(t, r.stop())
			require.Empty(t, f.told())
		})
	}
}

// stuck is a sink that waits for the end of its context, like the sink of a blocked consumer.
type stuck struct{}

func (stuck) Submit(ctx context.Context, _ podconfig.Change) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestRunEndsInASinkThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		s, err := podwatch.New(f.config)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, s.Run(ctx, stuck{}))
	})
}

func TestRunLogsWithoutProblem(t *testing.T) {
	bubble(t, func(t *testing.T) {
		core, lines := observer.New(zap.DebugLevel)
		f := newFixture(t, func(c *podwatch.Config) { c.Problem, c.Logger = nil, zap.New(core) })
		f.set(pod("a"))
		f.break_(answer(status(apierrors.NewUnauthorized("who"))))
		r := f.run()
		r.pass(3 * time.Minute)
		f.break_(nil)
		r.pass(3 * time.Minute)
		f.break_(answer(status(apierrors.NewResourceExpired("old")), "watch"))
		f.cut()
		r.pass(3 * time.Minute)
		require.NoError(t, r.stop())
		var got []string
		for _, l := range lines.All() {
			got = append(got, l.Level.String()+" "+l.Message)
			for _, value := range l.ContextMap() {
				require.NotContains(t, value, secret)
			}
		}
		require.Equal(t, []string{"warn cannot read pods from the API server", "info requests to the API server succeed again",
			"info API server has forgotten the known state, listing all pods", "info requests to the API server succeed again"}, got)
	})
}

func TestNewNamesTheBadField(t *testing.T) {
	tests := []struct {
		name string
		edit func(*podwatch.Config)
		want string
	}{
		{"no pods", func(c *podwatch.Config) { c.Pods = nil }, "Pods"},
		{"no node", func(c *podwatch.Config) { c.NodeName = "" }, "NodeName"},
		{"no name", func(c *podwatch.Config) { c.NodeName = "a,metadata.name=b" }, "NodeName"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := podwatch.Config{Pods: clienttest.New().CoreV1().Pods(""), NodeName: "n"}
			s, err := podwatch.New(c)
			require.NoError(t, err)
			require.Equal(t, "api", s.Name())
			tc.edit(&c)
			_, err = podwatch.New(c)
			require.ErrorIs(t, err, podwatch.ErrConfig)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/runtime/services"
)

// server is an API server's Services.
type server struct {
	mu    sync.Mutex
	items []v1.Service
	fails error // of lists and watches
	watch *watch.RaceFreeFakeWatcher
	lists int
}

func (s *server) List(ctx context.Context, _ metav1.ListOptions) (*v1.ServiceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if s.fails != nil {
		return nil, s.fails
	}
	return &v1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: slices.Clone(s.items)}, ctx.Err()
}

func (s *server) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return nil, s.fails
	}
	s.watch = watch.NewRaceFreeFake()
	return s.watch, nil
}

func (s *server) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

// tell sends an event to whoever watches.
func (s *server) tell(what watch.EventType, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch.Action(what, service(text))
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
	if s.watch != nil && err != nil {
		s.watch.Stop()
	}
}

// service is one from "namespace/name IP".
func service(text string) *v1.Service {
	name, ip, _ := strings.Cut(text, " ")
	s := &v1.Service{}
	s.Namespace, s.Name, _ = strings.Cut(name, "/")
	s.ResourceVersion, s.Labels = "7", map[string]string{"what": "is not kept"}
	s.Spec.ClusterIP = ip
	s.Spec.Ports = []v1.ServicePort{{Name: "http", Port: 80, NodePort: 30000}}
	return s
}

type fixture struct {
	*server
	known *services.Cache
	logs  *observer.ObservedLogs
}

// run is a Services that runs until the test ends.
func run(t *testing.T, o services.Options, s *server) *fixture {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	o.Client, o.Logger = s, zap.New(core)
	known, err := services.New(o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, known.Run(ctx)) })
	t.Cleanup(func() { stop(); wg.Wait() })
	return &fixture{s, known, logs}
}

// sees is what a pod of a namespace sees, as "name IP, …", or the error.
func (f *fixture) sees(t *testing.T, namespace, source string) string {
	t.Helper()
	pod := &v1.Pod{}
	pod.Namespace, pod.Annotations = namespace, map[string]string{"kubernetes.io/config.source": source}
	all, err := f.known.For(t.Context(), pod)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, s := range all {
		assert.Equal(t, []v1.ServicePort{{Name: "http", Port: 80}}, s.Spec.Ports)
		assert.Empty(t, s.Labels)
		out = append(out, fmt.Sprintf("%s/%s %s", s.Namespace, s.Name, s.Spec.ClusterIP))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (f *fixture) logged() (out []string) {
	for _, e := range f.logs.TakeAll() {
		out = append(out, e.Message)
	}
	return out
}

func newServer(all ...string) *server {
	s := &server{}
	for _, text := range all {
		s.items = append(s.items, *service(text))
	}
	return s
}

const (
	cannot = "cannot read the Services of the API server; containers start with the last known variables"
	again  = "the Services of the API server can be read again"
)

func TestServicesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(t, services.Options{}, newServer("default/kubernetes 10.0.0.1", "default/web 10.0.0.2", "ns/db 10.0.0.3", "ns/headless None"))
		assert.Equal(t, "default/kubernetes 10.0.0.1, ns/db 10.0.0.3", f.sees(t, "ns", "api"))
		assert.Equal(t, "default/kubernetes 10.0.0.1, default/web 10.0.0.2", f.sees(t, "default", "api"))
		assert.Equal(t, "default/kubernetes 10.0.0.1", f.sees(t, "other", ""))

		synctest.Wait()
		f.tell(watch.Added, "other/new 10.0.0.4")
		f.tell(watch.Modified, "ns/db None")
		f.tell(watch.Deleted, "default/kubernetes 10.0.0.1")
		synctest.Wait()
		assert.Equal(t, "other/new 10.0.0.4", f.sees(t, "other", "api"))
		assert.Empty(t, f.sees(t, "ns", "api"))
		require.ErrorIs(t, f.known.Run(t.Context()), services.ErrRunning)
		assert.Empty(t, f.logged())
	})
}

func TestAPodWaitsForTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("ns/db 10.0.0.3")
		s.fails = apierrors.NewInternalError(errors.New("no leader"))
		f := run(t, services.Options{}, s)
		assert.Empty(t, f.sees(t, "ns", "file"), "a pod of the node itself does not wait")
		began := time.Now()
		assert.Equal(t, services.ErrUnknown.Error(), f.sees(t, "ns", "api"))
		assert.Equal(t, 10*time.Second, time.Since(began))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, []string{cannot}, f.logged(), "once")
		assert.Less(t, f.asked(), 40)

		f.fail(nil)
		time.Sleep(time.Minute)
		assert.Equal(t, "ns/db 10.0.0.3", f.sees(t, "ns", "api"))
		assert.Equal(t, []string{again}, f.logged())
	})
}

func TestAClientThatMayNotListServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("ns/db 10.0.0.3")
		s.fails = apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", errors.New("no"))
		f := run(t, services.Options{}, s)
		began := time.Now()
		assert.Empty(t, f.sees(t, "ns", "api"), "the pod goes without")
		assert.Zero(t, time.Since(began))
		time.Sleep(time.Hour)
		assert.Equal(t, []string{cannot}, f.logged())
	})
}

func TestWhatWasKnownStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(t, services.Options{}, newServer("ns/db 10.0.0.3"))
		synctest.Wait()
		f.fail(errors.New("connection refused"))
		time.Sleep(time.Hour)
		assert.Equal(t, "ns/db 10.0.0.3", f.sees(t, "ns", "api"))
		assert.Equal(t, []string{cannot}, f.logged())
	})
}

// A node that starts offline gives its pods what it gave them before.
func TestTheFileIsWhatWasKnown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "desired", "services.json")
	synctest.Test(t, func(t *testing.T) {
		f := run(t, services.Options{File: file}, newServer("ns/db 10.0.0.3", "ns/headless None"))
		time.Sleep(2 * time.Second)
		f.tell(watch.Added, "ns/web 10.0.0.4")
		time.Sleep(2 * time.Second)
	})
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.fails = errors.New("connection refused")
		f := run(t, services.Options{File: file}, s)
		began := time.Now()
		assert.Equal(t, "ns/db 10.0.0.3, ns/web 10.0.0.4", f.sees(t, "ns", "api"))
		assert.Equal(t, "ns/db 10.0.0.3, ns/web 10.0.0.4", f.sees(t, "ns", "file"))
		assert.Zero(t, time.Since(began))
		f.fail(nil)
		time.Sleep(time.Minute)
		assert.Empty(t, f.sees(t, "ns", "api"), "the server knows better")
	})
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.fails = errors.New("connection refused")
		f := run(t, services.Options{File: file}, s)
		assert.Empty(t, f.sees(t, "ns", "api"), "that there are none is known, too")
	})
	for _, bad := range []string{"", "{", `{"kind":"Pod"}`, "null", `{"kind":"ServiceList","items":[{"spec":{"ports":"x"}}]}`} {
		require.NoError(t, os.WriteFile(file, []byte(bad), 0o600))
		synctest.Test(t, func(t *testing.T) {
			s := newServer("ns/db 10.0.0.3")
			s.fails = errors.New("connection refused")
			f := run(t, services.Options{File: file}, s)
			assert.Equal(t, services.ErrUnknown.Error(), f.sees(t, "ns", "api"))
			assert.Equal(t, []string{"the recorded Services are not used", cannot}, f.logged())
			f.fail(nil)
			time.Sleep(time.Minute)
		})
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(data), "10.0.0.3")
	}
}

func TestAFileThatCannotBeWritten(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(folder, nil, 0o600))
	synctest.Test(t, func(t *testing.T) {
		f := run(t, services.Options{File: filepath.Join(folder, "services.json")}, newServer("ns/db 10.0.0.3"))
		for range 5 {
			time.Sleep(time.Minute)
			f.tell(watch.Modified, "ns/db 10.0.0.3")
		}
		assert.Equal(t, "ns/db 10.0.0.3", f.sees(t, "ns", "api"))
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"the recorded Services are not used", "the Services are not known after a restart without an API server"}, f.logged())
	})
}

func TestBadOptions(t *testing.T) {
	_, err := services.New(services.Options{})
	require.ErrorIs(t, err, services.ErrOptions)
	require.ErrorContains(t, err, "Client")
	_, err = services.New(services.Options{Client: newServer(), File: "services.json"})
	require.ErrorIs(t, err, services.ErrOptions)
	require.ErrorContains(t, err, "File")
}

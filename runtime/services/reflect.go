// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/internal/lifecycle"
)

// listing is the reflector's client. It lists and watches, and does not offer streamed lists,
// because Services are small.
type listing struct {
	*Cache
	lists lifecycle.Calls // the reflector lists in goroutines, and does not wait for their end
}

var (
	_ cache.ListerWatcher            = (*listing)(nil)
	_ cache.ListerWatcherWithContext = (*listing)(nil)
)

// IsWatchListSemanticsUnSupported tells client-go's reflector not to use streamed lists.
func (*listing) IsWatchListSemanticsUnSupported() bool { return true }

// List is ListWithContext without a context; the reflector does not call it.
func (l *listing) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext without a context; the reflector does not call it.
func (l *listing) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

var errNoList = errors.New("the answer is no list of Services")

// ListWithContext returns a page of the list.
func (l *listing) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if !l.lists.Begin() {
		return nil, context.Canceled
	}
	defer l.lists.End()
	list, err := l.client.List(ctx, o)
	if err == nil && (list == nil || list.ResourceVersion == "") {
		err = errNoList // client-go accepts any JSON object as a list
	}
	if err != nil {
		if ctx.Err() == nil && !stale(err) {
			l.heard(err)
		}
		return nil, err
	}
	for i := range list.Items {
		list.Items[i] = *stripped(&list.Items[i])
	}
	return list, nil
}

// WatchWithContext opens a watch.
func (l *listing) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := l.client.Watch(ctx, o)
	if ctx.Err() == nil && !stale(err) {
		l.heard(err)
	}
	return w, err
}

// stale reports whether the reflector reacts to err with a new list.
func stale(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// stripped returns the fields of a Service that variables need.
func stripped(s *v1.Service) *v1.Service {
	spec := v1.ServiceSpec{ClusterIP: s.Spec.ClusterIP}
	for _, p := range s.Spec.Ports {
		spec.Ports = append(spec.Ports, v1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port})
	}
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace}, Spec: spec}
}

// store receives the Services from the reflector.
type store struct{ *Cache }

var _ cache.ReflectorStore = (*store)(nil)

func (st *store) Add(object any) error { return st.Update(object) }

// Update stores the newest version of a Service.
func (st *store) Update(object any) error {
	if s, ok := object.(*v1.Service); ok {
		st.mu.Lock()
		defer st.mu.Unlock()
		put(st.mu.all, stripped(s))
		st.changed.Notify()
	}
	return nil
}

func (st *store) Delete(object any) error {
	if s, ok := object.(*v1.Service); ok {
		st.mu.Lock()
		defer st.mu.Unlock()
		drop(st.mu.all, s)
		st.changed.Notify()
	}
	return nil
}

// Replace stores a complete list.
func (st *store) Replace(list []any, _ string) error {
	all := make(map[string]map[string]*v1.Service)
	for _, object := range list {
		if s, ok := object.(*v1.Service); ok {
			put(all, s)
		}
	}
	st.mu.Lock()
	st.mu.all = all
	st.mu.Unlock()
	st.changed.Notify()
	st.settle()
	return nil
}

// Resync is never called.
func (*store) Resync() error { return nil }

// put stores a Service if it has variables.
func put(all map[string]map[string]*v1.Service, s *v1.Service) {
	if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == v1.ClusterIPNone {
		drop(all, s)
		return
	}
	if all[s.Namespace] == nil {
		all[s.Namespace] = make(map[string]*v1.Service)
	}
	all[s.Namespace][s.Name] = s
}

func drop(all map[string]map[string]*v1.Service, s *v1.Service) {
	delete(all[s.Namespace], s.Name)
	if len(all[s.Namespace]) == 0 {
		delete(all, s.Namespace)
	}
}

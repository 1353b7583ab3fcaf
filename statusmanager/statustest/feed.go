// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// defaultHistory is the default of Options.History.
const defaultHistory = 100

// change is a version of a pod.
type change struct {
	version int
	kind    watch.EventType
	pod     *v1.Pod
	at      time.Time
}

// feed has the pods of a node, or of all nodes, for lists and watches. It is guarded by Server.mu.
type feed struct {
	pods      map[types.NamespacedName]*v1.Pod
	log       []change // the latest, in order
	forgotten int      // version of the last change that is not in log
	streams   []*stream
}

// feed returns the feed of a node, "" for all nodes. A feed begins with its first use. The lock is
// held.
func (s *Server) feed(node string) *feed {
	f := s.mu.feeds[node]
	if f == nil {
		f = &feed{pods: map[types.NamespacedName]*v1.Pod{}, forgotten: s.mu.version}
		for name, pod := range s.mu.pods {
			if node == "" || pod.Spec.NodeName == node {
				f.pods[name] = pod
			}
		}
		s.mu.feeds[node] = f
	}
	return f
}

// tell adds a change to the feeds of the pod. The lock is held, and s.mu.version is the version of
// the change.
func (s *Server) tell(kind watch.EventType, pod *v1.Pod) {
	c := change{s.mu.version, kind, pod, time.Now()}
	if f := s.mu.feeds[""]; f != nil {
		f.add(c, s.options.History)
	}
	if f := s.mu.feeds[pod.Spec.NodeName]; f != nil && pod.Spec.NodeName != "" {
		f.add(c, s.options.History)
	}
}

// add appends a change. A pod that the feed has not had before, such as a pod that is bound, is
// added.
func (f *feed) add(c change, history int) {
	name := nameOf(c.pod)
	switch _, known := f.pods[name]; {
	case c.kind == watch.Deleted:
		delete(f.pods, name)
	case known:
		c.kind, f.pods[name] = watch.Modified, c.pod
	default:
		c.kind, f.pods[name] = watch.Added, c.pod
	}
	f.log = append(f.log, c)
	for _, s := range f.streams {
		s.pending = append(s.pending, c)
		s.wake.Notify()
	}
	if len(f.log) > 2*history {
		f.forget(len(f.log) - history)
	}
}

// forget removes the n oldest changes from the log.
func (f *feed) forget(n int) {
	if n > 0 {
		f.forgotten = f.log[n-1].version
		f.log = slices.Clone(f.log[n:])
	}
}

// sorted returns the pods by namespace and name.
func (f *feed) sorted() []*v1.Pod {
	return slices.SortedFunc(maps.Values(f.pods), func(a, b *v1.Pod) int {
		return strings.Compare(nameOf(a).String(), nameOf(b).String())
	})
}

// Compact forgets all past changes, as the storage of an API server does from time to time. A watch
// from an earlier version is answered with the error 410.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.mu.feeds {
		f.forget(len(f.log))
		f.forgotten = s.mu.version
	}
}

// Bookmark sends a bookmark with the present version to each watch that accepts bookmarks.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.mu.feeds {
		for _, stream := range f.streams {
			if stream.bookmarks {
				stream.pending = append(stream.pending, change{version: s.mu.version, kind: watch.Bookmark, at: time.Now()})
				stream.wake.Notify()
			}
		}
	}
}

// resourceVersion returns the present version. The lock is held.
func (s *Server) resourceVersion() string { return strconv.Itoa(s.mu.version) }

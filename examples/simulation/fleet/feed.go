// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/podconfig"
)

// feeds passes the changes of a single watch of pods to the nodes. It is the podconfig.Sink of the
// watch, and keeps no pods.
type feeds struct {
	pods corev1.PodInterface // of all namespaces
	// changed are called for each changed pod of the watch, with nil for a deleted pod.
	changed []func(uid types.UID, pod *v1.Pod)

	mu     sync.Mutex
	byNode map[string]*feed
	nodeOf map[types.UID]string
	listed bool // a Snapshot has been passed on
	shapes shapes
}

// feed is the podconfig.Source of a node's agent.
type feed struct {
	feeds *feeds
	node  string
	taken bool // an agent has the feed
	late  bool // the agent began after the Snapshot of all nodes

	mu      sync.Mutex
	pending []podconfig.Change
	more    signal.Signal
}

// newFeeds returns the feeds of the first agents of nodes.
func newFeeds(pods corev1.PodInterface, nodes []*v1.Node) *feeds {
	f := &feeds{pods: pods, byNode: make(map[string]*feed, len(nodes)), nodeOf: map[types.UID]string{}}
	for _, n := range nodes {
		f.byNode[n.Name] = &feed{feeds: f, node: n.Name, more: signal.New()}
	}
	return f
}

// connect returns the source of a node's next agent, and ends that of the agent before.
func (f *feeds) connect(node string) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if first := f.byNode[node]; !first.taken {
		first.taken = true
		return first
	}
	next := &feed{feeds: f, node: node, taken: true, late: f.listed, more: signal.New()}
	f.byNode[node] = next
	return next
}

// Submit implements podconfig.Sink.
func (f *feeds) Submit(_ context.Context, c podconfig.Change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch c.Kind() {
	case podconfig.ChangeSnapshot:
		f.snapshot(c.Pods())
	case podconfig.ChangeUpsert:
		for _, pod := range c.Pods() {
			f.note(f.shapes.slim(pod))
			if feed := f.byNode[pod.Spec.NodeName]; feed != nil {
				feed.push(podconfig.Upsert(pod).Given())
			}
		}
	case podconfig.ChangeRemove:
		for _, uid := range c.UIDs() {
			if feed := f.byNode[f.nodeOf[uid]]; feed != nil {
				feed.push(podconfig.Remove(uid))
			}
			f.forget(uid)
		}
	}
	return nil
}

// snapshot passes on a complete list.
func (f *feeds) snapshot(pods []*v1.Pod) {
	f.listed = true
	gone := f.nodeOf
	f.nodeOf = make(map[types.UID]string, len(pods))
	all := make(map[string][]*v1.Pod, len(f.byNode))
	for _, pod := range pods {
		f.note(f.shapes.slim(pod))
		delete(gone, pod.UID)
		all[pod.Spec.NodeName] = append(all[pod.Spec.NodeName], pod)
	}
	for uid := range gone {
		f.forget(uid)
	}
	for node, feed := range f.byNode {
		feed.push(podconfig.Snapshot(all[node]...).Given())
	}
}

// note remembers the node of a pod. The pod is not written afterwards.
func (f *feeds) note(pod *v1.Pod) {
	f.nodeOf[pod.UID] = pod.Spec.NodeName
	for _, changed := range f.changed {
		changed(pod.UID, pod)
	}
}

func (f *feeds) forget(uid types.UID) {
	delete(f.nodeOf, uid)
	for _, changed := range f.changed {
		changed(uid, nil)
	}
}

func (s *feed) push(c podconfig.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, c)
	s.more.Notify()
}

// Name implements podconfig.Source.
func (s *feed) Name() string { return podconfig.SourceAPI }

// Run implements podconfig.Source.
func (s *feed) Run(ctx context.Context, out podconfig.Sink) error {
	if s.late {
		if err := s.list(ctx, out); err != nil {
			return err
		}
	}
	for {
		s.mu.Lock()
		pending := s.pending
		s.pending = nil
		s.mu.Unlock()
		for _, c := range pending {
			if err := out.Submit(ctx, c); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.more:
		}
	}
}

// list submits the pods of an agent that began after the list of all pods. Changes of the list's time
// are pending and follow it.
func (s *feed) list(ctx context.Context, out podconfig.Sink) error {
	list, err := s.feeds.pods.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", s.node).String()})
	if err != nil {
		return fmt.Errorf("fleet: list the pods of node %s: %w", s.node, err)
	}
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	pods := make([]*v1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pod := &list.Items[i]
		s.feeds.nodeOf[pod.UID] = s.node
		pods = append(pods, s.feeds.shapes.slim(pod))
	}
	return out.Submit(ctx, podconfig.Snapshot(pods...).Given())
}

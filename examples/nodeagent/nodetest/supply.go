// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/podconfig"
)

var _ node.SourceWrapper = onceSource{}

// Mood is the behaviour of a source of pods.
type Mood uint8

// The moods of a source.
const (
	// Talkative submits every change at once.
	Talkative Mood = iota
	// Silent submits nothing, also to an agent that starts.
	Silent
	// Garbled submits invalid changes, and pods without a name beside the real pods.
	Garbled
	// Empty submits an empty list of pods.
	Empty
)

// supply is the source of an agent's pods. It outlives the agents.
type supply struct {
	name    string
	history *recorder
	deltas  bool // changes are submitted pod by pod after the first list

	mu struct {
		sync.Mutex
		pods    []*v1.Pod
		mood    Mood
		changed chan struct{} // closed at the next change
	}
}

func newSupply(name string, history *recorder) *supply {
	s := &supply{name: name, history: history}
	s.mu.changed = make(chan struct{})
	return s
}

func (s *supply) set(pods []*v1.Pod) {
	s.edit(func() { s.mu.pods = pods })
}

func (s *supply) feel(mood Mood) {
	s.edit(func() { s.mu.mood = mood })
}

func (s *supply) edit(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

func (s *supply) now() (pods []*v1.Pod, mood Mood, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.pods, s.mu.mood, s.mu.changed
}

// source returns the source for the holder of a lease.
func (s *supply) source(l *lease) podconfig.Source {
	return onceSource{podconfig.SourceFunc(s.name, func(ctx context.Context, out podconfig.Sink) error {
		var known []*v1.Pod // of the last submission; nil: a list is due
		for {
			if err := l.pass(ctx); err != nil {
				return err
			}
			pods, mood, changed := s.now()
			if mood == Talkative && known != nil {
				pods, err := s.sayChanges(ctx, out, known, pods)
				if known = pods; err != nil {
					return err
				}
			} else if err := s.say(ctx, out, pods, mood); err != nil {
				return err
			} else if known = nil; s.deltas && mood == Talkative {
				known = append([]*v1.Pod{}, pods...)
			}
			select {
			case <-changed:
			case <-l.gone:
				return errCrashed
			case <-ctx.Done():
				return nil
			}
		}
	})}
}

// onceSource is a source that a node does not run again: its failure ends an agent that has crashed.
type onceSource struct{ podconfig.Source }

// WrapSource implements node.SourceWrapper.
func (onceSource) WrapSource(func(podconfig.Source) podconfig.Source) {}

// sayChanges submits the differences between two lists of pods. It returns now, which is not nil.
func (s *supply) sayChanges(ctx context.Context, out podconfig.Sink, before, now []*v1.Pod) ([]*v1.Pod, error) {
	for _, pod := range before {
		if !slices.ContainsFunc(now, func(o *v1.Pod) bool { return o.UID == pod.UID }) {
			if err := out.Submit(ctx, podconfig.Remove(pod.UID)); err != nil {
				return before, err
			}
		}
	}
	for _, pod := range now {
		if !slices.Contains(before, pod) {
			if err := out.Submit(ctx, podconfig.Upsert(pod)); err != nil {
				return before, err
			}
		}
	}
	s.history.told(s.name, realPods(now))
	return append([]*v1.Pod{}, now...), nil
}

func (s *supply) say(ctx context.Context, out podconfig.Sink, pods []*v1.Pod, mood Mood) error {
	switch mood {
	case Silent:
		return nil
	case Empty:
		pods = nil
	case Garbled:
		if err := out.Submit(ctx, podconfig.Change{}); err != nil && ctx.Err() != nil {
			return err
		}
		junk := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}
		pods = append([]*v1.Pod{junk}, pods...)
	case Talkative:
	}
	if err := out.Submit(ctx, podconfig.Snapshot(pods...)); err != nil {
		return err
	}
	s.history.told(s.name, realPods(pods))
	return nil
}

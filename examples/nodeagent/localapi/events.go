// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// An EventLog keeps up to 1,000 events of the last hour in memory, like the events of an API server. A
// repeated event counts. It is a runtime.EventRecorder, and fits node.Options.Events. The zero value
// is empty.
type EventLog struct {
	mu struct {
		sync.Mutex
		events  []logged // ordered by LastTimestamp
		count   int
		changed func()
	}
}

const maxEvents, eventLife = 1000, time.Hour

// logged is an event and the hash of what makes two events equal, because most events are compared with
// all others.
type logged struct {
	hash  uint64
	event *v1.Event
}

// eventKey has what is equal in a repeated event.
type eventKey struct {
	about                 v1.ObjectReference
	kind, reason, message string
}

var hashSeed = maphash.MakeSeed()

// Event records an event about an object reference. Other objects are ignored.
func (l *EventLog) Event(about runtime.Object, eventType, reason, message string) {
	ref, ok := about.(*v1.ObjectReference)
	if !ok {
		return
	}
	l.mu.Lock()
	l.addLocked(*ref, eventType, reason, message, metav1.Now())
	changed := l.mu.changed
	l.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (l *EventLog) addLocked(about v1.ObjectReference, eventType, reason, message string, now metav1.Time) {
	e := &v1.Event{
		InvolvedObject: about, Type: eventType, Reason: reason, Message: message,
		FirstTimestamp: now, Source: v1.EventSource{Component: "nodeagent"}, ReportingController: "nodeagent",
	}
	key := eventKey{about, eventType, reason, message}
	hash := maphash.Comparable(hashSeed, key)
	same := func(o logged) bool {
		return o.hash == hash && key == eventKey{o.event.InvolvedObject, o.event.Type, o.event.Reason, o.event.Message}
	}
	if i := slices.IndexFunc(l.mu.events, same); i >= 0 {
		repeated := *l.mu.events[i].event // events of earlier lists do not change
		e = &repeated
		l.mu.events = slices.Delete(l.mu.events, i, i+1)
	} else {
		l.mu.count++
		namespace := cmp.Or(about.Namespace, v1.NamespaceDefault)
		e.Namespace, e.Name = namespace, fmt.Sprintf("%s.%x", about.Name, now.UnixNano()+int64(l.mu.count))
		e.UID, e.CreationTimestamp = types.UID(e.Name), now
	}
	e.Count++
	e.LastTimestamp = now
	l.mu.events = append(l.mu.events, logged{hash, e})
	if len(l.mu.events) > maxEvents {
		l.mu.events = slices.Delete(l.mu.events, 0, len(l.mu.events)-maxEvents)
	}
}

// list returns copies of the events.
func (l *EventLog) list() (all []*v1.Event) {
	old := time.Now().Add(-eventLife)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.events = slices.DeleteFunc(l.mu.events, func(e logged) bool { return e.event.LastTimestamp.Time.Before(old) })
	for _, e := range l.mu.events {
		clone := *e.event
		all = append(all, &clone)
	}
	return all
}

// onChange sets the function that is called after each event.
func (l *EventLog) onChange(changed func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.changed = changed
}

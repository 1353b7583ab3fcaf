// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ledger holds the history of all pods, and the violations found. It makes no observations itself
// and reads no clock.
type ledger struct {
	journal *journal

	mu         sync.Mutex
	pods       map[string]*podBook // by the manifest's name
	instances  map[string]*instance
	violations []string
	disturbed  []period // when containerd could not tell how containers end
	orphaning  []period // when a start may have been under way without an agent
	exceptions map[string]int
	doubts     []Record // faults not yet assigned to a cause
}

// period is from when to when, or open.
type period struct{ from, to time.Time }

func (p period) has(t time.Time) bool {
	return !t.Before(p.from) && (p.to.IsZero() || !t.After(p.to))
}

func within(periods []period, t time.Time) bool {
	return slices.ContainsFunc(periods, func(p period) bool { return p.has(t) })
}

// podBook is the history of one manifest file.
type podBook struct {
	name        string
	wanted      bool
	changed     time.Time // when wanted last changed, or the manifest
	gone        time.Time // when the end was noticed; zero before
	generations []*generation
	newest      int // generation that has started
}

// latest is nil before the first.
func (b *podBook) latest() *generation { return b.generation(len(b.generations)) }

func (b *podBook) generation(number int) *generation {
	if number < 1 || number > len(b.generations) {
		return nil
	}
	return b.generations[number-1]
}

// generation is one content of a manifest.
type generation struct {
	number     int
	shape      *shape
	pod        *v1.Pod
	written    time.Time
	bounced    bool                   // it was removed and came back
	over       time.Time              // since when it is known to be Succeeded or Failed
	phase      v1.PodPhase            // that was said last
	containers map[string]*containers // by name
}

// containers are the instances of one container of a generation.
type containers struct {
	starts   []*instance // in their order
	restarts int32       // the last reported values
	ids      []string    // the reported values, in order
	ended    map[string]v1.ContainerStateTerminated
}

func (g *generation) of(container string) *containers {
	c := g.containers[container]
	if c == nil {
		c = &containers{restarts: -1, ended: make(map[string]v1.ContainerStateTerminated)}
		g.containers[container] = c
	}
	return c
}

// instance is one start of a container.
type instance struct {
	start   Record
	asked   *Record // to end
	ended   *Record // by itself
	version int     // of the ConfigMap
	id      string  // the container's, once it was reported
}

func newLedger(j *journal) *ledger {
	return &ledger{
		journal: j, pods: make(map[string]*podBook), instances: make(map[string]*instance), exceptions: make(map[string]int),
	}
}

func (l *ledger) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.violations = append(l.violations, text)
	l.journal.say("VIOLATION %s", text)
}

func (l *ledger) except(why string) { l.exceptions[why]++ }

// broken are the violations so far.
func (l *ledger) broken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.violations)
}

func (l *ledger) book(name string) *podBook {
	b := l.pods[name]
	if b == nil {
		b = &podBook{name: name}
		l.pods[name] = b
	}
	return b
}

// names returns the names of all pods, sorted.
func (l *ledger) names() []string { return slices.Sorted(maps.Keys(l.pods)) }

// number returns the number of the next generation of a pod.
func (l *ledger) number(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.book(name).generations) + 1
}

// write notes a manifest that is about to be put in place.
func (l *ledger) write(name string, s *shape, pod *v1.Pod, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.book(name)
	b.generations = append(b.generations, &generation{
		number: len(b.generations) + 1, shape: s, pod: pod, written: at, containers: make(map[string]*containers),
	})
	b.wanted, b.changed, b.gone = true, at, time.Time{}
}

// comeBack notes that a removed manifest is about to be put in place again.
func (l *ledger) comeBack(name string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.book(name)
	b.wanted, b.changed, b.gone = true, at, time.Time{}
}

// bounce notes that the manifest is about to be removed and will come back.
func (l *ledger) bounce(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book(name).latest().bounced = true
}

// remove records the removal of a manifest.
func (l *ledger) remove(name string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.book(name)
	b.wanted, b.changed = false, at
}

// begin records the start of a period, earlier by lead, and returns a func that records its end.
func (l *ledger) begin(periods *[]period, lead time.Duration) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := len(*periods)
	*periods = append(*periods, period{from: time.Now().Add(-lead)})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		(*periods)[i].to = time.Now()
	}
}

// alive returns the instances without a record of their end, oldest first. Such an instance may
// have been killed.
func (l *ledger) alive() (all []*instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range l.instances {
		if i.ended == nil {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b *instance) int { return a.start.At.Compare(b.start.At) })
	return all
}

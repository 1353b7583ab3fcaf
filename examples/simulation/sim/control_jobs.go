// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"
)

// Jobs is a Controller that replaces the evicted pods of the workload, as the Job controller does.
// A replacement begins its work anew. A preempted pod is replaced when its eviction begins; the
// back-off does not apply, because eviction is no failure of the container.
type Jobs struct {
	// Retries is the number of replacements of a pod. Defaults to no limit.
	Retries int

	attempts map[*Pod]attempt
}

// attempt is a pod's number among the replacements of a pod of the workload.
type attempt struct {
	name   string
	number int
}

// Start implements Controller.
func (j *Jobs) Start(*Control) { j.attempts = map[*Pod]attempt{} }

// Handle implements Controller.
func (j *Jobs) Handle(c *Control, e Event) {
	switch e.Kind {
	case Evicting:
		j.replace(c, e.Pod)
	case Ended:
		if e.Pod.Phase == Failed {
			j.replace(c, e.Pod) // without Evicting before
		}
		delete(j.attempts, e.Pod)
	}
}

// replace submits a replacement, unless the pod has a replacement.
func (j *Jobs) replace(c *Control, p *Pod) {
	if p.replaced || p.replica {
		return
	}
	p.replaced = true
	a, again := j.attempts[p]
	if !again {
		a.name = p.Name
	}
	if a.number++; j.Retries > 0 && a.number > j.Retries {
		return
	}
	next := &Pod{Name: fmt.Sprintf("%s-retry-%d", a.name, a.number), Shape: p.Shape, Gang: p.Gang, User: p.User, Work: p.Work, first: p.firstSubmit()}
	if p.Gang != nil {
		p.Gang.members = append(p.Gang.members, next)
	}
	j.attempts[next] = a
	c.Submit(next)
}

// firstSubmit returns the submission of the first pod of which p is a replacement.
func (p *Pod) firstSubmit() time.Duration {
	if p.first > 0 {
		return p.first
	}
	return p.Submitted
}

// Replicas is a Controller that keeps a number of equal pods alive, as a ReplicaSet does. A pod that
// is being evicted, or has ended, is replaced at once.
type Replicas struct {
	Name  string
	Shape *Shape
	Count int

	made int
}

// Start implements Controller. All pods are submitted at the instant 0.
func (r *Replicas) Start(c *Control) {
	for range r.Count {
		r.create(c)
	}
}

func (r *Replicas) create(c *Control) {
	r.made++
	c.Submit(&Pod{Name: fmt.Sprintf("%s-%d", r.Name, r.made), Shape: r.Shape, User: r.Name, replica: true})
}

// Handle implements Controller.
func (r *Replicas) Handle(c *Control, e Event) {
	if e.Kind != Evicting && e.Kind != Ended || !e.Pod.replica || e.Pod.User != r.Name || e.Pod.replaced {
		return
	}
	e.Pod.replaced = true
	r.create(c)
}

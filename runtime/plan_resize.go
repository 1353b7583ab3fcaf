// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"cmp"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// Resize changes what one running container may use, without restarting it.
type Resize struct {
	Ref  Ref
	ID   ContainerID
	Name string
	// Resource is what this step changes: cpu or memory. A container for which
	// both change has two steps.
	Resource v1.ResourceName
	// From and To are all the cpu and memory that the container has before and
	// after this step, and nothing else.
	From, To v1.ResourceRequirements
	Cause    string // for people: "memory limit 1Gi to 2Gi"
}

// killResize is the reason to kill a container that is resized and whose
// resizePolicy asks for a restart.
const killResize KillReason = "Resize"

// resizable are the resources that change in a container that lives on, in the
// order in which they are changed.
var resizable = [...]v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU}

// fit resizes a running container whose resources are not as wanted, and reports
// whether it is kept as it runs. One that must be restarted for that is,
// whatever the pod's restart policy.
//
// It differs from the kubelet in what no limit means: the most, so that adding
// one is a decrease and taking it away an increase (#128675).
func (p *planner) fit(ref Ref, c *v1.Container, st *ContainerStatus) (kept bool) {
	if p.actuated == nil {
		return true
	}
	want := wantedBy(p.pod, c)
	record, known := p.actuated(c.Name)
	have := demandIn(&record)
	if have == want && known {
		return true
	}
	for _, name := range resizable {
		if have.differs(name, want) && restartsForResize(c, name) {
			p.restart(ref, st, killResize, "is resized: "+changes(have, want))
			return false
		}
	}
	from := have.requirements()
	for _, name := range resizable {
		if restartsForResize(c, name) || known && !have.differs(name, want) {
			continue
		}
		next := have.with(name, want)
		step := Resize{
			Ref: ref, ID: st.ID, Name: c.Name, Resource: name,
			From: from, To: next.requirements(), Cause: changes(have, next),
		}
		p.out.Resize = append(p.out.Resize, step)
		have, from = next, step.To
	}
	return true
}

// misfit reports whether the resources of a running container are not known to be as wanted.
func (p *planner) misfit(c *v1.Container) bool {
	if p.actuated == nil {
		return false
	}
	record, known := p.actuated(c.Name)
	return !known || demandIn(&record) != wantedBy(p.pod, c)
}

// restartsForResize reports whether a change of the resource restarts c.
func restartsForResize(c *v1.Container, name v1.ResourceName) bool {
	for i := range c.ResizePolicy {
		if c.ResizePolicy[i].ResourceName == name {
			return c.ResizePolicy[i].RestartPolicy == v1.RestartContainer
		}
	}
	return false
}

// orderResizes puts memory before cpu and, of each, what becomes less before
// what becomes more, so that the limits of the pod's containers together are at
// no time above what they are before or after; then by place.
func (p *planner) orderResizes() {
	rank := func(r *Resize) int {
		out := 0
		if r.Resource == v1.ResourceCPU {
			out = 2
		}
		if from, to := demandIn(&r.From), demandIn(&r.To); !from.falls(r.Resource, to) {
			out++
		}
		return out
	}
	slices.SortFunc(p.out.Resize, func(a, b Resize) int {
		return cmp.Or(
			cmp.Compare(rank(&a), rank(&b)),
			cmp.Compare(b.Ref.Group, a.Ref.Group), // init before regular
			cmp.Compare(a.Ref.Index, b.Ref.Index),
		)
	})
}

// changes says in words what differs.
func changes(from, to demand) string {
	text := appendChange(make([]byte, 0, 128), "memory limit", from.memoryLimit, to.memoryLimit, appendMemory)
	text = appendChange(text, "memory request", from.memoryRequest, to.memoryRequest, appendMemory)
	text = appendChange(text, "cpu limit", from.cpuLimit, to.cpuLimit, appendCPU)
	text = appendChange(text, "cpu request", from.cpuRequest, to.cpuRequest, appendCPU)
	if len(text) == 0 {
		return "not known to be set"
	}
	return string(text)
}

func appendChange(text []byte, what string, from, to int64, amount func([]byte, int64) []byte) []byte {
	if from == to {
		return text
	}
	if len(text) > 0 {
		text = append(text, ", "...)
	}
	text = append(append(text, what...), ' ')
	text = append(amount(text, from), " to "...)
	return amount(text, to)
}

// appendCPU and appendMemory write amounts as quantities are written.
func appendCPU(text []byte, n int64) []byte {
	switch {
	case n == 0:
		return append(text, "none"...)
	case n%1000 == 0:
		return strconv.AppendInt(text, n/1000, 10)
	default:
		return append(strconv.AppendInt(text, n, 10), 'm')
	}
}

func appendMemory(text []byte, n int64) []byte {
	if n == 0 {
		return append(text, "none"...)
	}
	unit := 0
	for n%1024 == 0 && unit < len(binaryUnits)-1 {
		n /= 1024
		unit++
	}
	return append(strconv.AppendInt(text, n, 10), binaryUnits[unit]...)
}

var binaryUnits = [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

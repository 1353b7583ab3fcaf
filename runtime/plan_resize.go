// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"cmp"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/sorted"
)

// Resize changes the resources of a running container without a restart.
type Resize struct {
	Ref  Ref
	ID   ContainerID
	Name string
	// Resource is the changed resource: cpu or memory. If both change, a container has two steps.
	Resource v1.ResourceName
	// From and To are the cpu and memory of the container before and after this step, without other
	// resources.
	From, To v1.ResourceRequirements
	Cause    string // for people: "memory limit 1Gi to 2Gi"
}

// killResize is the reason for killing a container for a resize, if its resizePolicy requires a
// restart.
const killResize KillReason = "Resize"

// resizable lists the resources that can change in a running container, in the order of their
// changes.
var resizable = [...]v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU}

// fit resizes a running container with other resources than wanted, and reports whether the
// container stays. If the resize requires a restart, fit restarts the container under every restart
// policy of the pod.
//
// In contrast to the kubelet, no limit means the highest limit: adding a limit is a decrease, and
// removing a limit is an increase (#128675).
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

// misfit reports whether the resources of a running container are unknown or differ from the wanted
// resources.
func (p *planner) misfit(c *v1.Container) bool {
	if p.actuated == nil {
		return false
	}
	record, known := p.actuated(c.Name)
	return !known || demandIn(&record) != wantedBy(p.pod, c)
}

// restartsForResize reports whether a change of the resource requires a restart of c.
func restartsForResize(c *v1.Container, name v1.ResourceName) bool {
	for i := range c.ResizePolicy {
		if c.ResizePolicy[i].ResourceName == name {
			return c.ResizePolicy[i].RestartPolicy == v1.RestartContainer
		}
	}
	return false
}

// orderResizes orders by resource, memory before cpu, then decreases before increases, then by
// position. So the sum of the limits of the pod's containers never exceeds both the sum before and
// the sum after.
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
	sorted.By(p.out.Resize, func(a, b Resize) int {
		return cmp.Or(
			cmp.Compare(rank(&a), rank(&b)),
			cmp.Compare(b.Ref.Group, a.Ref.Group), // init before regular
			cmp.Compare(a.Ref.Index, b.Ref.Index),
		)
	})
}

// changes describes the differences in words.
func changes(from, to demand) string {
	text := appendChange(make([]byte, 0, 128), "memory limit", from.MemoryLimit, to.MemoryLimit, appendMemory)
	text = appendChange(text, "memory request", from.MemoryRequest, to.MemoryRequest, appendMemory)
	text = appendChange(text, "cpu limit", from.CPULimit, to.CPULimit, appendCPU)
	text = appendChange(text, "cpu request", from.CPURequest, to.CPURequest, appendCPU)
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

// appendCPU and appendMemory write amounts in the form of quantities.
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

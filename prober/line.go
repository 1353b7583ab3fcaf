// SPDX-License-Identifier: Apache-2.0

package prober

// The lines for probes. A probe is at most once in each line.
const (
	lineQueue = iota // waits for a place in a pool
	lineNews         // has a result not yet passed to the sink
	lines
)

// line is a queue of probes, first in, first out. The line is linked through the probes, so it does
// not allocate and does not retain removed probes. kind selects the link of the probes.
type line struct {
	kind       uint8
	head, tail *probe
}

// push appends p, unless p is in the line already.
func (l *line) push(p *probe) {
	if l.has(p) {
		return
	}
	p.lined |= 1 << l.kind
	if l.head == nil {
		l.head = p
	} else {
		l.tail.next[l.kind] = p
	}
	l.tail = p
}

// pop removes and returns the first probe, or nil.
func (l *line) pop() *probe {
	p := l.head
	if p != nil {
		l.head, p.next[l.kind] = p.next[l.kind], nil
		p.lined &^= 1 << l.kind
		if l.head == nil {
			l.tail = nil // release the pointer to p
		}
	}
	return p
}

func (l *line) has(p *probe) bool { return p.lined&(1<<l.kind) != 0 }

func (l *line) empty() bool { return l.head == nil }

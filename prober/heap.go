// SPDX-License-Identifier: Apache-2.0

package prober

// agenda is a min-heap of waiting probes by the time they are due. Each knows its position, so that it can leave. Ties
// are broken by rank, which makes the order of probes that are due together a fact and not an accident.
type agenda []*probe

const notListed = -1

func (a agenda) first() *probe {
	if len(a) == 0 {
		return nil
	}
	return a[0]
}

func (a *agenda) push(p *probe) {
	p.index = int32(len(*a))
	*a = append(*a, p)
	a.up(int(p.index))
}

// remove takes p out; it must be in.
func (a *agenda) remove(p *probe) {
	i, last := int(p.index), len(*a)-1
	if i != last {
		a.swap(i, last)
	}
	(*a)[last] = nil
	*a = (*a)[:last]
	p.index = notListed
	if i != last {
		a.fix((*a)[i])
	}
}

// fix restores the order after p's time has changed.
func (a *agenda) fix(p *probe) {
	a.up(int(p.index))
	a.down(int(p.index))
}

func (a agenda) less(i, j int) bool {
	if !a[i].due.Equal(a[j].due) {
		return a[i].due.Before(a[j].due)
	}
	return a[i].rank < a[j].rank
}

func (a agenda) swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = int32(i), int32(j)
}

func (a agenda) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !a.less(i, parent) {
			return
		}
		a.swap(i, parent)
		i = parent
	}
}

func (a agenda) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(a); child++ {
			if a.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		a.swap(i, least)
		i = least
	}
}

// line is a queue, first in, first out.
type line struct {
	items []*probe
	head  int
}

func (l *line) push(p *probe) {
	if l.head > 0 && l.head == len(l.items) {
		l.items, l.head = l.items[:0], 0
	}
	if l.head > 64 && l.head > len(l.items)/2 {
		n := copy(l.items, l.items[l.head:])
		clear(l.items[n:])
		l.items, l.head = l.items[:n], 0
	}
	l.items = append(l.items, p)
}

func (l *line) pop() (*probe, bool) {
	if l.head == len(l.items) {
		return nil, false
	}
	p := l.items[l.head]
	l.items[l.head] = nil
	l.head++
	return p, true
}

func (l *line) len() int { return len(l.items) - l.head }

// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// record adds a record of the program in a container. Records come in the order of writing.
func (l *ledger) record(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.book(r.Pod)
	g := b.generation(r.Generation)
	if g == nil {
		l.violate("%s: nobody ever wrote this generation", r)
		return
	}
	i := l.instances[r.Instance]
	switch {
	case r.Event == Started:
		i = &instance{start: r}
		l.instances[r.Instance] = i
		l.started(b, g, i)
	case r.Event == Hooked:
	case i == nil:
		l.violate("%s: this instance never said that it starts", r)
	case r.Event == Asked:
		i.asked = &r
	case r.Event == Ended:
		i.ended = &r
	case r.Event == Saw:
		i.version = r.Code
	}
	switch {
	case !r.Event.IsFault():
	case within(l.disturbed, r.At) || within(l.disturbed, r.At.Add(-doubtful)):
		l.doubts = append(l.doubts, r)
	default:
		l.violate("%s", r)
	}
}

// doubtful is the time after the death of a shim in which containerd may still kill its processes
// and the agent may still report their end.
const doubtful = 5 * time.Second

// resolve decides about faults during a disturbance of containerd. When a shim is killed,
// containerd 1.6 reports that its containers have exited with 255 before killing their processes. A
// client that trusts the report removes volumes of a running process, or starts a second process,
// for a moment. A fault is a violation unless containerd reported the exit of the ended instance.
func (l *ledger) resolve(now time.Time) {
	l.doubts = slices.DeleteFunc(l.doubts, func(r Record) bool {
		of := r.Instance
		if r.Event == Doubled {
			of = r.Text // the holder of the lock
		}
		if i := l.instances[of]; i != nil && l.wasEndedWith255(i.start) {
			l.except("a process that ran for a moment after containerd said that it had exited, when its shim was killed")
			return true
		}
		if now.Sub(r.At) < 2*doubtful {
			return false
		}
		l.violate("%s", r)
		return true
	})
}

func (l *ledger) wasEndedWith255(r Record) bool {
	for _, t := range l.book(r.Pod).generation(r.Generation).of(r.Container).ended {
		if instanceOf(t.Message) == r.Instance && t.ExitCode == 255 {
			return true
		}
	}
	return false
}

// started compares the start of an instance with all earlier records.
func (l *ledger) started(b *podBook, g *generation, i *instance) {
	r := i.start
	if r.Generation < b.newest {
		l.violate("%s: generation %d has started before", r, b.newest)
	}
	b.newest = max(b.newest, r.Generation)
	if !b.gone.IsZero() && r.At.After(b.gone) {
		l.lateStart("%s: the pod was removed, and gone for %s", i, b)
	}
	if !g.over.IsZero() && r.At.After(g.over) && !g.bounced {
		l.violate("%s: the pod was %s for %s", r, g.phase, r.At.Sub(g.over))
	}
	c := g.of(r.Container)
	if len(c.starts) > 0 && g.pod.Spec.RestartPolicy == v1.RestartPolicyNever && r.Text != "sidecar" && !g.bounced {
		l.violate("%s: a pod that is never restarted; it started before as %s", r, c.starts[0].start.Instance)
	}
	c.starts = append(c.starts, i)
}

// lateStart records a violation, unless the agent died during a start. containerd then completes
// the start without a client, and no agent can know of the container before it exists.
func (l *ledger) lateStart(format string, i *instance, b *podBook) {
	if within(l.orphaning, i.start.At) {
		l.except("a start that was under way when the agent was killed")
		return
	}
	l.violate(format, i.start, i.start.At.Sub(b.gone))
}

// follower reads records as they are written.
type follower struct {
	path string
	file *os.File
	rest []byte // of a line that is not whole yet
}

// read returns the records since the last read.
func (f *follower) read() (records []Record, err error) {
	if f.file == nil {
		f.file, err = os.Open(f.path)
		if os.IsNotExist(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(f.file)
	if err != nil {
		return nil, err
	}
	text = append(f.rest, text...)
	end := bytes.LastIndexByte(text, '\n') + 1
	f.rest = bytes.Clone(text[end:])
	lines := bufio.NewScanner(bytes.NewReader(text[:end]))
	for lines.Scan() {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, lines.Err()
}

func (f *follower) close() {
	if f.file != nil {
		f.file.Close()
	}
}

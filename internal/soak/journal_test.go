// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const timeFormat = "15:04:05.000"

// journal is the list of events, one per line.
type journal struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func newJournal() *journal { return &journal{began: time.Now()} }

func (j *journal) say(format string, args ...any) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%s %8.3f  %s", now.UTC().Format(timeFormat), now.Sub(j.began).Seconds(), fmt.Sprintf(format, args...)))
}

// tail returns the last lines, preceded by the lines about the pods named in words.
func (j *journal) tail(n int, words []string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	from := max(0, len(j.lines)-n)
	var about []string
	for _, line := range j.lines[:from] {
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) }) {
			about = append(about, line)
		}
	}
	about = about[max(0, len(about)-n):]
	return strings.Join(append(append(about, "..."), j.lines[from:]...), "\n")
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n") + "\n"
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// screen is the content and the size of the terminal.
type screen struct {
	width, height int
	header        []string
	pods          []*v1.Pod
	pulls         []runtime.Pull
	problems      []string // sorted by time, latest last
	logFile       string   // file with details about the problems
	notice        string   // may be empty
	now           time.Time
}

// line is a line of the screen.
type line struct {
	text  string
	style style
}

// style selects the colour of a line.
type style uint8

const (
	plain style = iota
	title
	trouble
)

// escapes holds the ANSI sequence for each style.
var escapes = map[style]string{title: "\x1b[1m", trouble: "\x1b[31m"}

// paint returns the texts of lines, with ANSI sequences if colours is set.
func paint(lines []line, colours bool) []string {
	painted := make([]string, len(lines))
	for i, l := range lines {
		painted[i] = l.text
		if escape := escapes[l.style]; colours && escape != "" {
			painted[i] = escape + l.text + "\x1b[0m"
		}
	}
	return painted
}

// hasColours reports whether the environment allows colours on the terminal (no-color.org).
func hasColours(term string) bool { return os.Getenv("NO_COLOR") == "" && term != "dumb" && term != "" }

// fewestRows is the smallest height of the table: the head, two pods and a count. Other parts of
// the screen shrink first.
const fewestRows = 4

// layout returns the lines of the screen. They fit the width, and leave one line of the height for
// the cursor. Failing pods come first, and pods without room are only counted. At least the latest
// problem is shown.
func (s screen) layout() []line {
	head, tail := s.head(), s.tail(len(s.problems))
	for shown := len(s.problems) - 1; shown >= 1 && s.room(head, tail) < fewestRows; shown-- {
		tail = s.tail(shown)
	}
	if s.room(head, tail) < fewestRows {
		head = head[:1]
	}
	lines := slices.Concat(head, s.table(max(s.room(head, tail), 1)), tail)
	for i := range lines {
		lines[i].text = cut(lines[i].text, s.width)
	}
	return lines[:min(len(lines), max(s.height-1, 1))]
}

// room returns the number of lines left for the table.
func (s screen) room(head, tail []line) int { return s.height - 1 - len(head) - len(tail) }

func (s screen) head() []line {
	var lines []line
	for _, text := range append(wrap(s.header, s.width), "") {
		lines = append(lines, line{text: text})
	}
	return lines
}

// tail returns the latest problems and the notice.
func (s screen) tail(shown int) []line {
	var lines []line
	if shown > 0 {
		lines = append(lines, line{}, line{"Problems, the latest last; more about them in " + s.logFile, title})
		for _, text := range s.problems[len(s.problems)-shown:] {
			lines = append(lines, line{text, trouble})
		}
	}
	if s.notice != "" {
		lines = append(lines, line{}, line{s.notice, title})
	}
	return lines
}

// table returns at most room lines: a head, pods, and a count of the pods left out.
func (s screen) table(room int) []line {
	pods := slices.SortedFunc(slices.Values(s.pods), func(a, b *v1.Pod) int {
		return cmp.Or(rank(a)-rank(b), naturally(a.Namespace, b.Namespace), naturally(a.Name, b.Name))
	})
	shown := pods
	if len(pods)+1 > room {
		shown = pods[:max(room-2, 0)]
	}
	texts := table(shown, s.pulls, s.now, s.width)
	lines := []line{{texts[0], title}}
	for i, text := range texts[1:] {
		l := line{text: text}
		if rank(shown[i]) == failing {
			l.style = trouble
		}
		lines = append(lines, l)
	}
	if rest := pods[len(shown):]; len(rest) > 0 {
		lines = append(lines, countOf(rest))
	}
	return lines
}

// countOf returns a line with the number of pods left out, by phase.
func countOf(rest []*v1.Pod) line {
	counts := map[string]int{}
	for _, pod := range rest {
		if rank(pod) == failing {
			counts["failing"]++
			continue
		}
		counts[phaseOf(pod)]++
	}
	l := line{style: plain}
	var parts []string
	for _, name := range []string{"failing", string(v1.PodPending), string(v1.PodRunning), string(v1.PodSucceeded)} {
		if counts[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
		}
	}
	if counts["failing"] > 0 {
		l.style = trouble
	}
	noun := "pods"
	if len(rest) == 1 {
		noun = "pod"
	}
	l.text = fmt.Sprintf("… and %d more %s: %s", len(rest), noun, strings.Join(parts, ", "))
	return l
}

// Sort keys of pods in the table.
const (
	failing = iota
	fine
)

// rank returns failing for a failed pod, and for a pod with a container that waits for a reason not
// in startReasons.
func rank(pod *v1.Pod) int {
	switch phaseOf(pod) {
	case string(v1.PodFailed), string(v1.PodUnknown):
		return failing
	case string(v1.PodSucceeded):
		return fine
	}
	for s := range podfacts.Statuses(&pod.Status) {
		if w := s.State.Waiting; w != nil && !startReasons[w.Reason] {
			return failing
		}
	}
	return fine
}

// startReasons are the reasons of containers that wait for their first start.
var startReasons = map[string]bool{"": true, "ContainerCreating": true, "PodInitializing": true}

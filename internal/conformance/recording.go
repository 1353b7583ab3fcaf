// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	_ "embed" // the session
	"fmt"
	"regexp"
	"strings"
)

//go:embed session.sh
var sessionScript string

//go:embed session.txt
var sessionKnown string

//go:embed eviction.sh
var evictionScript string

//go:embed eviction.txt
var evictionKnown string

// sessionStep is a step of the session: a script for bash.
type sessionStep struct{ name, script string }

// stepMark begins a step.
const stepMark = "# step: "

// parseSession returns the steps of a session, each with the head of the file.
func parseSession(text string) ([]sessionStep, error) {
	head, rest, _ := strings.Cut(text, "\n"+stepMark)
	var steps []sessionStep
	seen := map[string]bool{}
	for part := range strings.SplitSeq(rest, "\n"+stepMark) {
		name, script, _ := strings.Cut(part, "\n")
		if name == "" || seen[name] {
			return nil, fmt.Errorf("step %q: want a name of its own", name)
		}
		seen[name] = true
		steps = append(steps, sessionStep{name, head + "\n" + script})
	}
	return steps, nil
}

// recording has the normalised outputs of the steps, in their order.
type recording []recorded

type recorded struct{ step, output string }

// text is the recording as a file, without the lines that are known to differ.
func (r recording) text(known []knownDifference) string {
	var text strings.Builder
	for _, one := range r {
		fmt.Fprintf(&text, "%s%s\n", stepMark, one.step)
		for line := range strings.Lines(one.output) {
			line = strings.TrimSuffix(line, "\n")
			if !isKnown(known, one.step, line) {
				text.WriteString(line + "\n")
			}
		}
	}
	return text.String()
}

// knownDifference are lines that may differ between the agents.
type knownDifference struct {
	reason string
	step   string // or * for all steps
	line   *regexp.Regexp
}

// parseKnown reads the list of known differences: a line has a reason, the name of a step or *, and
// a regular expression for lines, with tabs between them.
func parseKnown(text string) ([]knownDifference, error) {
	var all []knownDifference
	for _, line := range lines(text) {
		fields := strings.Split(line, "\t")
		if len(fields) != 3 || fields[0] == "" || fields[1] == "" {
			return nil, fmt.Errorf("%q: want a reason, a step and a regular expression, with tabs between them", line)
		}
		pattern, err := regexp.Compile(fields[2])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		all = append(all, knownDifference{fields[0], fields[1], pattern})
	}
	return all, nil
}

func isKnown(known []knownDifference, step, line string) bool {
	for _, k := range known {
		if (k.step == "*" || k.step == step) && k.line.MatchString(line) {
			return true
		}
	}
	return false
}

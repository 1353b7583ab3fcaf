// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	_ "embed" // the lists of specs
	"fmt"
	"regexp"
	"strings"
)

// The specs of the selection: those that every kubelet must pass.
const (
	selected   = `\[sig-node\].*\[NodeConformance\]|\[sig-storage\].*\[NodeConformance\]|\[sig-(node|network)\].*\[Conformance\]`
	unselected = `\[Serial\]|\[Disruptive\]|\[Flaky\]|\[Alpha\]|\[Slow\]`
)

//go:embed skips.txt
var skipsFile string

//go:embed short.txt
var shortFile string

//go:embed resources.txt
var resourcesFile string

//go:embed nodespecs.txt
var nodeSpecsFile string

//go:embed nodeskips.txt
var nodeSkipsFile string

// skip is a spec that cannot pass here, with the reason.
type skip struct{ spec, reason string }

// parseSkips reads a list: a line has a reason, a tab and the name of a spec.
func parseSkips(text string) ([]skip, error) {
	var all []skip
	for _, line := range lines(text) {
		reason, spec, ok := strings.Cut(line, "\t")
		if !ok || reason == "" || spec == "" {
			return nil, fmt.Errorf("%q: want a reason, a tab and a spec", line)
		}
		all = append(all, skip{spec, reason})
	}
	return all, nil
}

// lines returns the lines of a text without comments and empty lines.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// selection are the patterns of the specs that are run.
type selection struct {
	focus string
	skip  []string
}

// newSelection returns the selection of the flags.
func newSelection(o options) (selection, error) {
	s := selection{focus: selected, skip: []string{unselected}}
	if o.short {
		s.focus = anyOf(lines(shortFile))
	}
	if o.resources {
		s = selection{focus: anyOf(lines(resourcesFile))} // some of them are [Serial]
	}
	skips := skipsFile
	if o.node {
		s, skips = selection{focus: anyOf(lines(nodeSpecsFile))}, nodeSkipsFile
	}
	if o.focus != "" {
		s.focus = o.focus
	}
	if o.listed {
		return s, nil
	}
	listed, err := parseSkips(skips)
	if err != nil {
		return s, fmt.Errorf("the list of skips: %w", err)
	}
	for _, one := range listed {
		s.skip = append(s.skip, exactly(one.spec))
	}
	return s, nil
}

// anyOf returns a pattern for the named specs.
func anyOf(specs []string) string {
	patterns := make([]string, len(specs))
	for i, spec := range specs {
		patterns[i] = exactly(spec)
	}
	return strings.Join(patterns, "|")
}

// exactly returns a pattern for the named spec. The runner matches patterns against the name with a
// prefix.
func exactly(spec string) string { return regexp.QuoteMeta(spec) + "$" }

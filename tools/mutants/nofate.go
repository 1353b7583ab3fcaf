// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed nofate.txt
var noFateText string

// noFate are the rules by which a decider's mutant does not change a pod's fate.
type noFate []noFateRule

type noFateRule struct {
	text string
	expr *regexp.Regexp
}

func readNoFate() (rules noFate, err error) {
	for i, line := range strings.Split(noFateText, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "\t") {
			continue
		}
		expr, err := regexp.Compile(line)
		if err != nil {
			return nil, fmt.Errorf("nofate.txt:%d: %w", i+1, err)
		}
		rules = append(rules, noFateRule{line, expr})
	}
	return rules, nil
}

// subject is the text that the expression of a rule has to match.
func (m *mutant) subject() string { return m.pkg + "/" + m.file + " " + m.key() }

func (rules noFate) cover(m *mutant) bool {
	for _, r := range rules {
		if r.expr.MatchString(m.subject()) {
			return true
		}
	}
	return false
}

// stale returns the rules that no mutant answers to: the code has changed.
func (rules noFate) stale(all []*mutant) (lines []string) {
	for _, r := range rules {
		found := false
		for _, m := range all {
			found = found || r.expr.MatchString(m.subject())
		}
		if !found {
			lines = append(lines, r.text)
		}
	}
	return lines
}

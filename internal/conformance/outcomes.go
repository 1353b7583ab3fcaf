// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// The states of a spec.
const (
	passed  = "passed"
	flaky   = "flaky" // failed, and passed alone
	failed  = "failed"
	skipped = "skipped" // by the spec itself
)

// outcome is the result of one spec.
type outcome struct {
	state  string
	reason string // first line of the failure or of the spec's own skip
}

// message is the reason in a report: an attribute, or the text of the element.
type message struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// outcomes are the results of one run by the name of the spec.
type outcomes map[string]outcome

// readReport reads a report in JUnit format, as the suite writes it.
func readReport(file string) (outcomes, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseReport(f)
}

// parseReport returns the outcomes of all specs that were selected. A report without any is an
// error.
func parseReport(r io.Reader) (outcomes, error) {
	var report struct {
		Cases []struct {
			Name    string   `xml:"name,attr"`
			Status  string   `xml:"status,attr"`
			Failure *message `xml:"failure"`
			Error   *message `xml:"error"`
			Skipped *message `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.NewDecoder(r).Decode(&report); err != nil {
		return nil, err
	}
	found := outcomes{}
	for _, c := range report.Cases {
		name, isSpec := strings.CutPrefix(c.Name, "[It] ")
		switch {
		case !isSpec && (c.Failure != nil || c.Error != nil):
			return nil, fmt.Errorf("%s: %s", c.Name, reasonOf(c.Failure, c.Error))
		case !isSpec:
		case c.Failure != nil || c.Error != nil:
			found[name] = outcome{failed, reasonOf(c.Failure, c.Error)}
		case c.Status == passed:
			found[name] = outcome{state: passed}
		case c.Skipped != nil:
			// The reason distinguishes a spec that skips itself from a spec that was not selected.
			if _, reason, own := strings.Cut(c.Skipped.Message, " - "); own {
				found[name] = outcome{skipped, firstLine(reason)}
			}
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no spec was run")
	}
	return found, nil
}

// reasonOf returns the first line of the first message.
func reasonOf(messages ...*message) string {
	for _, m := range messages {
		if m != nil {
			return firstLine(cmp.Or(strings.TrimPrefix(strings.TrimSpace(m.Text), "[FAILED] "), m.Message))
		}
	}
	return ""
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.ReplaceAll(line, "\t", " ")
}

// names returns the specs with a state, sorted.
func (o outcomes) names(state string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if o[name].state == state {
			names = append(names, name)
		}
	}
	return names
}

// rerun adds the outcomes of a second run of the failed specs: a spec that passed is flaky.
func (o outcomes) rerun(again outcomes) {
	for name, second := range again {
		if first := o[name]; first.state == failed && second.state == passed {
			o[name] = outcome{flaky, first.reason}
		}
	}
}

// count describes how many specs have each state.
func (o outcomes) count() string {
	var parts []string
	for _, state := range []string{passed, flaky, failed, skipped} {
		if n := len(o.names(state)); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}

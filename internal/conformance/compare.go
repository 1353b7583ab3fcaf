// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// results are the outcomes of all runs by agent.
type results map[string][]outcomes

// worst returns the worst state of a spec in the runs of an agent, and its reason. A spec that was
// not run has no state.
func (r results) worst(agent, spec string) outcome {
	order := []string{"", passed, skipped, flaky, failed}
	var worst outcome
	for _, run := range r[agent] {
		if o := run[spec]; slices.Index(order, o.state) > slices.Index(order, worst.state) {
			worst = o
		}
	}
	return worst
}

// specs returns the names of all specs of all runs, sorted.
func (r results) specs() []string {
	all := map[string]bool{}
	for _, runs := range r {
		for _, run := range runs {
			for name := range run {
				all[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// difference is a spec with different outcomes.
type difference struct {
	spec             string
	kubelet, keelson outcome
}

// differences returns the specs whose worst outcomes differ, and the specs that are neither passed
// nor skipped. With one agent these are all specs that did not pass.
func (r results) differences() []difference {
	var all []difference
	for _, spec := range r.specs() {
		d := difference{spec, r.worst(kubelet, spec), r.worst(keelson, spec)}
		bad := func(o outcome) bool { return o.state == failed || o.state == flaky }
		unequal := len(r) > 1 && d.kubelet.state != d.keelson.state
		if unequal || bad(d.kubelet) || bad(d.keelson) {
			all = append(all, d)
		}
	}
	return all
}

// faults returns the specs that fail with the node agent and do not fail with the kubelet.
func (r results) faults() []difference {
	return slices.DeleteFunc(r.differences(), func(d difference) bool {
		return d.keelson.state != failed || d.kubelet.state == failed
	})
}

// summary is a table with a row for each run.
func (r results) summary() string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%-10s %4s %7s %7s %7s %7s %7s\n", "agent", "run", "specs", passed, flaky, failed, skipped)
	for _, agent := range slices.Backward(slices.Sorted(maps.Keys(r))) {
		for i, run := range r[agent] {
			fmt.Fprintf(&text, "%-10s %4d %7d %7d %7d %7d %7d\n", agent, i+1, len(run),
				len(run.names(passed)), len(run.names(flaky)), len(run.names(failed)), len(run.names(skipped)))
		}
	}
	return text.String()
}

// describe names each spec with its outcomes and the reason of the node agent, or else of the kubelet.
func describe(all []difference) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%-8s %-8s\n", kubelet, keelson)
	for _, d := range all {
		reason := d.keelson.reason
		if d.keelson.state == passed || reason == "" {
			reason = d.kubelet.reason
		}
		fmt.Fprintf(&text, "%-8s %-8s %s\n%18s%s\n", orNone(d.kubelet.state), orNone(d.keelson.state), d.spec, "", reason)
	}
	return text.String()
}

func orNone(state string) string {
	if state == "" {
		return "–"
	}
	return state
}

// writeOutcomes writes a line for each spec: its name, and the state in each run of each agent.
func writeOutcomes(file string, r results) error {
	var text strings.Builder
	text.WriteString("spec")
	agents := slices.Sorted(maps.Keys(r))
	for _, agent := range agents {
		for i := range r[agent] {
			fmt.Fprintf(&text, "\t%s %d", agent, i+1)
		}
	}
	text.WriteString("\n")
	for _, spec := range r.specs() {
		text.WriteString(spec)
		for _, agent := range agents {
			for _, run := range r[agent] {
				fmt.Fprintf(&text, "\t%s", orNone(run[spec].state))
			}
		}
		text.WriteString("\n")
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}

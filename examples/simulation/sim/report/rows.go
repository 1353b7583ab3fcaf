// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Row is a figure of several runs.
type Row struct {
	Group, Name string
	// Unit is "%", "s" for seconds, or empty.
	Unit string
	// Values has a value per run; NaN: the run has no such figure.
	Values []float64
}

// figure is a row of a single run.
type figure struct {
	group, name, unit string
	value             float64
}

// Rows returns the figures of runs, in the order of the page. A figure that no run has is left out,
// and so is a time that is 0 in all runs.
func Rows(runs ...*sim.Report) []Row {
	var rows []Row
	index := map[string]int{}
	for k, run := range runs {
		for _, f := range figures(run) {
			key := f.group + "\x00" + f.name
			i, known := index[key]
			if !known {
				i = len(rows)
				index[key] = i
				rows = append(rows, Row{f.group, f.name, f.unit, absent(len(runs))})
			}
			rows[i].Values[k] = f.value
		}
	}
	return grouped(slices.DeleteFunc(rows, func(r Row) bool {
		return r.Unit == "s" && !slices.ContainsFunc(r.Values, func(x float64) bool { return x != 0 && !math.IsNaN(x) })
	}))
}

// grouped puts rows of the same group together: a later run may have added rows.
func grouped(rows []Row) (out []Row) {
	seen := map[string]bool{}
	for _, first := range rows {
		if seen[first.Group] {
			continue
		}
		seen[first.Group] = true
		for _, r := range rows {
			if r.Group == first.Group {
				out = append(out, r)
			}
		}
	}
	return out
}

func absent(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

// distributions returns the samples of a run, with their groups.
func distributions(r *sim.Report) []struct {
	group, name, unit string
	d                 *sim.Distribution
} {
	return []struct {
		group, name, unit string
		d                 *sim.Distribution
	}{
		{"Wait", "wait for the start", "s", &r.Wait},
		{"Wait", "wait for the binding", "s", &r.BindLatency},
		{"Start", "pull", "s", &r.Pull},
		{"Start", "create", "s", &r.Create},
		{"Start", "start to ready", "s", &r.Ready},
		{"Completion", "job completion time", "s", &r.Completion},
		{"Completion", "slowdown", "", &r.Slowdown},
		{"Scheduler", "decision time (real)", "s", &r.Decision},
	}
}

// figures returns the figures of a run.
func figures(r *sim.Report) []figure {
	var out []figure
	add := func(group, name, unit string, value float64) { out = append(out, figure{group, name, unit, value}) }
	for _, x := range r.Results {
		add("Results", x.Name, x.Unit, x.Value)
	}
	for _, x := range []struct {
		name string
		n    int
	}{
		{"submitted", r.Submitted}, {"succeeded", r.Succeeded}, {"failed", r.Failed}, {"given up", r.Dropped}, {"unfinished", r.Unfinished},
	} {
		add("Pods", x.name, "", float64(x.n))
	}
	add("Time", "makespan", "s", r.Makespan.Seconds())
	add("Time", "end of the run", "s", r.Horizon.Seconds())
	for _, u := range r.Usage {
		add("Use of the cluster", "allocated "+u.Resource, "%", u.Allocation)
		add("Use of the cluster", "utilised "+u.Resource, "%", u.Utilisation)
	}
	for _, d := range distributions(r) {
		if d.d.N == 0 {
			continue
		}
		add(d.group, d.name+", mean", d.unit, d.d.Mean)
		add(d.group, d.name+", median", d.unit, d.d.Of(50))
		add(d.group, d.name+", 99th percentile", d.unit, d.d.Of(99))
		add(d.group, d.name+", maximum", d.unit, d.d.Max)
	}
	add("Scheduler", "cycles", "", float64(r.Cycles))
	if len(r.Users) > 0 {
		add("Fairness", "users", "", float64(len(r.Users)))
		add("Fairness", "Jain's index of 1/slowdown", "", r.Jain)
	}
	add("Disturbance", "pods preempted", "", float64(r.Preempted))
	add("Disturbance", "pods evicted in all", "", float64(r.Evicted))
	add("Disturbance", "lost work in core hours", "", r.LostCPU/3600)
	if r.LostGPU > 0 {
		add("Disturbance", "lost work in GPU hours", "", r.LostGPU/3600)
	}
	add("Disturbance", "lost nodes", "", float64(r.LostNodes))
	return out
}

// WriteText writes the figures as a table for a terminal, with a column for each run.
func WriteText(w io.Writer, runs ...*sim.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, name := range names(runs) {
		fmt.Fprintf(t, "\t%s", name)
	}
	fmt.Fprint(t, "\t\n")
	for _, row := range Rows(runs...) {
		fmt.Fprint(t, row.Name)
		for _, value := range row.Values {
			fmt.Fprintf(t, "\t%s", format(value, row.Unit))
		}
		fmt.Fprint(t, "\t\n")
	}
	return t.Flush()
}

// names returns a different name for each run.
func names(runs []*sim.Report) []string {
	out := make([]string, len(runs))
	times := map[string]int{}
	for i, r := range runs {
		out[i] = r.Name
		if out[i] == "" {
			out[i] = "run"
		}
		if times[out[i]]++; times[out[i]] > 1 {
			out[i] = fmt.Sprintf("%s (%d)", out[i], times[out[i]])
		}
	}
	return out
}

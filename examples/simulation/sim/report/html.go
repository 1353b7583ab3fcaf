// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// maxRuns is the number of runs that colours and dashes tell apart.
const maxRuns = 6

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// The content of the page.
type (
	pageData struct {
		Title  string
		Runs   []pageRun
		Groups []pageGroup
		Charts []pageChart
		Split  template.HTML
		Parts  []string
		Users  []pageUsers
	}
	pageRun struct {
		Index int
		Name  string
		Facts [][2]string
	}
	pageGroup struct {
		Name string
		Rows []pageRow
	}
	pageRow struct {
		Name  string
		Cells []pageCell
	}
	pageCell  struct{ Value, Change string }
	pageUsers struct {
		Run   string
		Users []sim.User
		More  int
	}
	pageChart struct {
		Title, About string
		SVG          template.HTML
		Head         []string
		Rows         [][]string
	}
)

// WriteHTML writes the page of up to six runs.
func WriteHTML(w io.Writer, runs ...*sim.Report) error {
	switch {
	case len(runs) == 0:
		return errors.New("report: a page needs a run")
	case len(runs) > maxRuns:
		return fmt.Errorf("report: a page has at most %d runs, not %d", maxRuns, len(runs))
	}
	called := names(runs)
	data := pageData{Title: strings.Join(called, " · "), Parts: splitParts[:]}
	for i, r := range runs {
		data.Runs = append(data.Runs, pageRun{i, called[i], facts(r)})
		if u := slowest(r); len(u.Users) > 1 {
			u.Run = called[i]
			data.Users = append(data.Users, u)
		}
	}
	for _, row := range Rows(runs...) {
		if len(data.Groups) == 0 || data.Groups[len(data.Groups)-1].Name != row.Group {
			data.Groups = append(data.Groups, pageGroup{Name: row.Group})
		}
		group := &data.Groups[len(data.Groups)-1]
		cells := make([]pageCell, len(row.Values))
		for i, value := range row.Values {
			cells[i].Value = format(value, row.Unit)
			if i > 0 {
				cells[i].Change = difference(row.Values[0], value, row.Unit)
			}
		}
		group.Rows = append(group.Rows, pageRow{row.Name, cells})
	}
	for _, c := range slices.Concat(overTime(runs, called), curves(runs, called)) {
		data.Charts = append(data.Charts, c.page())
	}
	var split [][]part
	for _, r := range runs {
		split = append(split, startSplit(r))
	}
	data.Split = bars("split", "Mean time from submission to readiness", called, split)
	return page.Execute(w, data)
}

// facts are the head of a run.
func facts(r *sim.Report) [][2]string {
	or := func(text string) string {
		if text == "" {
			return "not stated"
		}
		return text
	}
	return [][2]string{
		{"Scheduler", or(r.Profile)}, {"Seed", strconv.FormatUint(r.Seed, 10)}, {"Nodes", strconv.Itoa(r.Nodes)},
		{"Workload", or(r.Origin)}, {"Backend", or(r.Backend)}, {"Model of durations", or(r.Model)}, {"keelson", or(r.Version)},
	}
}

// shownUsers is the number of users in the table of a run.
const shownUsers = 10

// slowest returns the users with the greatest slowdown.
func slowest(r *sim.Report) pageUsers {
	users := slices.SortedStableFunc(slices.Values(r.Users), func(a, b sim.User) int {
		switch {
		case a.Slowdown > b.Slowdown:
			return -1
		case a.Slowdown < b.Slowdown:
			return 1
		}
		return 0
	})
	n := min(shownUsers, len(users))
	return pageUsers{Users: users[:n], More: len(users) - n}
}

var splitParts = [...]string{"in the queue", "pull", "create", "until ready"}

// startSplit returns the mean parts of the start of a pod.
func startSplit(r *sim.Report) []part {
	return []part{
		{splitParts[0], r.BindLatency.Mean}, {splitParts[1], r.Pull.Mean}, {splitParts[2], r.Create.Mean}, {splitParts[3], r.Ready.Mean},
	}
}

// overTime returns a chart for each Series. Utilisation is left out if it equals the allocation, and
// so is a Series that is always 0.
func overTime(runs []*sim.Report, called []string) (out []*chart) {
	var order []string
	lines := map[string][]line{}
	units := map[string]string{}
	end := 0.0
	for k, r := range runs {
		for _, s := range r.Series {
			if _, known := units[s.Name]; !known {
				order = append(order, s.Name)
				units[s.Name] = s.Unit
			}
			points := make([]point, len(s.Values))
			for i, value := range s.Values {
				points[i] = point{float64(i) * s.Step.Seconds(), value}
				end = max(end, points[i].x)
			}
			lines[s.Name] = append(lines[s.Name], line{called[k], k, points})
		}
	}
	for _, name := range order {
		allocated := lines["allocated "+strings.TrimPrefix(name, "utilised ")]
		if equal(lines[name], allocated) && strings.HasPrefix(name, "utilised ") || zero(lines[name]) {
			continue
		}
		high := 0.0
		for _, l := range lines[name] {
			for _, p := range l.points {
				high = max(high, p.y)
			}
		}
		if units[name] == "%" && high > 50 {
			high = max(high, 100)
		}
		out = append(out, &chart{
			id: fmt.Sprintf("t%d", len(out)), title: capital(name), about: inUnit(name, units[name]) + " over virtual time",
			xUnit: "s", yUnit: units[name], x: linear(0, end, "s"), y: linear(0, high, units[name]), lines: lines[name],
		})
	}
	return out
}

// curves returns a chart of the distribution function for each sample.
func curves(runs []*sim.Report, called []string) (out []*chart) {
	for i, d := range distributions(runs[0]) {
		c := &chart{
			id: fmt.Sprintf("d%d", i), title: capital(d.name),
			about: "share of the sample up to a value, in %; the scale of values is logarithmic", xUnit: d.unit, yUnit: "%",
		}
		high := 0.0
		for k, r := range runs {
			sample := distributions(r)[i].d
			var points []point
			for q, value := range sample.Quantiles {
				points = append(points, point{value, float64(q)})
			}
			high = max(high, sample.Max)
			if sample.N > 0 && sample.Max > 0 && (d.unit == "s" || sample.Max > 1) {
				c.lines = append(c.lines, line{called[k], k, points})
			}
		}
		if len(c.lines) > 0 {
			c.x, c.y = logarithmic(high, d.unit), linear(0, 100, "%")
			out = append(out, c)
		}
	}
	return out
}

func equal(a, b []line) bool {
	return slices.EqualFunc(a, b, func(x, y line) bool { return slices.Equal(x.points, y.points) })
}

func zero(lines []line) bool {
	return !slices.ContainsFunc(lines, func(l line) bool {
		return slices.ContainsFunc(l.points, func(p point) bool { return p.y != 0 })
	})
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func inUnit(name, unit string) string {
	if unit == "" {
		return name
	}
	return name + " in " + unit
}

// tableRows is the number of rows of the table of a chart.
const tableRows = 11

// page returns the chart with a table of a few of its points.
func (c *chart) page() pageChart {
	out := pageChart{Title: c.title, About: c.about, SVG: c.svg(), Head: []string{"virtual time"}}
	distribution := c.yUnit == "%" && c.x.log
	if distribution {
		out.Head[0] = "percentile"
	}
	longest := 0
	for i, l := range c.lines {
		out.Head = append(out.Head, l.name)
		if len(l.points) > len(c.lines[longest].points) {
			longest = i
		}
	}
	n := len(c.lines[longest].points)
	for r := range min(tableRows, n) {
		i := r * (n - 1) / max(1, min(tableRows, n)-1)
		first := c.lines[longest].points[i]
		row := []string{duration(first.x)}
		if distribution {
			row[0] = strconv.Itoa(i)
		}
		for _, l := range c.lines {
			row = append(row, c.cell(l, first, i, distribution))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// cell returns a curve's value beside a point of the longest curve.
func (c *chart) cell(l line, beside point, i int, distribution bool) string {
	if distribution {
		return format(l.points[i].x, c.xUnit)
	}
	at := slices.IndexFunc(l.points, func(p point) bool { return p.x >= beside.x })
	if at < 0 {
		return "–"
	}
	return format(l.points[at].y, c.yUnit)
}

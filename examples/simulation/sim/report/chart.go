// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"html/template"
	"strconv"
	"strings"
)

// The geometry of a plot.
const (
	chartWidth, chartHeight              = 560, 250
	chartLeft, chartRight                = 58, 14
	chartTop, chartBottom                = 10, 30
	plotWidth                            = chartWidth - chartLeft - chartRight
	plotHeight                           = chartHeight - chartTop - chartBottom
	barHeight, barGap, barLeft, barRight = 22, 10, 150, 70
)

type point struct{ x, y float64 }

// line is a curve of a run. run is the index of the run, which decides colour and dashes.
type line struct {
	name   string
	run    int
	points []point
}

// chart is a plot with a table of its values.
type chart struct {
	id, title    string
	about        string // the axes, in words
	xUnit, yUnit string
	x, y         *scale
	lines        []line
}

// svg draws the chart.
func (c *chart) svg() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc>`,
		chartWidth, chartHeight, c.id, c.id, c.id, html.EscapeString(c.title), c.id, html.EscapeString(c.describe()))
	for _, t := range c.y.ticks {
		y := c.top(t.value)
		fmt.Fprintf(&b, `<path class="grid" d="M%d %sH%d"/><text class="y" x="%d" y="%s">%s</text>`,
			chartLeft, pixel(y), chartWidth-chartRight, chartLeft-6, pixel(y+4), html.EscapeString(t.text))
	}
	last := -100.0
	for _, t := range c.x.ticks {
		x := c.left(t.value)
		fmt.Fprintf(&b, `<path class="grid" d="M%s %dV%d"/>`, pixel(x), chartTop, chartHeight-chartBottom)
		if x-last >= 44 {
			fmt.Fprintf(&b, `<text class="x" x="%s" y="%d">%s</text>`, pixel(x), chartHeight-chartBottom+16, html.EscapeString(t.text))
			last = x
		}
	}
	for _, l := range c.lines {
		fmt.Fprintf(&b, `<path class="line r%d" d="%s"/>`, l.run, c.path(l.points))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

func (c *chart) left(x float64) float64 { return chartLeft + plotWidth*c.x.at(x) }
func (c *chart) top(y float64) float64  { return chartTop + plotHeight*(1-c.y.at(y)) }

// path draws points. A point in the middle of a level part is left out.
func (c *chart) path(points []point) string {
	var b strings.Builder
	for i, p := range points {
		if i > 0 && i+1 < len(points) && points[i-1].y == p.y && points[i+1].y == p.y {
			continue
		}
		command := "L"
		if i == 0 {
			command = "M"
		}
		b.WriteString(command + pixel(c.left(p.x)) + " " + pixel(c.top(p.y)))
	}
	return b.String()
}

// describe returns the curves in words, for screen readers.
func (c *chart) describe() string {
	text := c.about + "."
	for _, l := range c.lines {
		if len(l.points) == 0 {
			continue
		}
		low, high := l.points[0].y, l.points[0].y
		for _, p := range l.points {
			low, high = min(low, p.y), max(high, p.y)
		}
		text += fmt.Sprintf(" %s: from %s to %s, at the end %s.", l.name, format(low, c.yUnit), format(high, c.yUnit), format(l.points[len(l.points)-1].y, c.yUnit))
	}
	return text
}

// pixel rounds a coordinate to a tenth.
func pixel(x float64) string { return strconv.FormatFloat(float64(int(x*10+0.5))/10, 'f', -1, 64) }

// part is a piece of a bar.
type part struct {
	name  string
	value float64
}

// bars draws a bar of parts for each run, in seconds.
func bars(id, title string, called []string, runs [][]part) template.HTML {
	longest := 0.0
	for _, parts := range runs {
		sum := 0.0
		for _, p := range parts {
			sum += p.value
		}
		longest = max(longest, sum)
	}
	if longest == 0 {
		return ""
	}
	const width = 760
	height := len(runs)*(barHeight+barGap) + barGap
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-labelledby="%s-t"><title id="%s-t">%s</title>`, width, height, id, id, html.EscapeString(title))
	for k, parts := range runs {
		y := barGap + k*(barHeight+barGap)
		fmt.Fprintf(&b, `<text class="y" x="%d" y="%d">%s</text>`, barLeft-8, y+15, html.EscapeString(clipped(called[k])))
		x, sum := float64(barLeft), 0.0
		for i, p := range parts {
			w := p.value / longest * (width - barLeft - barRight)
			sum += p.value
			if w > 0 {
				fmt.Fprintf(&b, `<rect class="p%d" x="%s" y="%d" width="%s" height="%d"><title>%s</title></rect>`,
					i, pixel(x), y, pixel(w), barHeight, html.EscapeString(p.name+": "+duration(p.value)))
			}
			x += w
		}
		fmt.Fprintf(&b, `<text class="v" x="%s" y="%d">%s</text>`, pixel(x+6), y+15, html.EscapeString(duration(sum)))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// clipped shortens a name for a plot.
func clipped(name string) string {
	if r := []rune(name); len(r) > 22 {
		return string(r[:21]) + "…"
	}
	return name
}

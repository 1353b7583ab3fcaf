// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
	"github.com/keelson-dev/keelson/examples/simulation/sim/report"
	"github.com/keelson-dev/keelson/examples/simulation/sim/workload"
)

// simulate runs a busy cluster with gangs, preemption and lost nodes.
func simulate(t testing.TB, name string, profile sim.Profile) (*sim.Report, []byte) {
	var nodes []*v1.Node
	for i := range 6 {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		node.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
		nodes = append(nodes, node)
	}
	var shapes []*sim.Shape
	for i, cpu := range []string{"1", "2", "4"} {
		priority := int32(i / 2)
		pod := &v1.Pod{Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "main", Image: "app:" + cpu}}}}
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}
		pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{InitialDelaySeconds: 3}
		shape, err := sim.NewShape(pod, sim.GPURequest{})
		require.NoError(t, err)
		shapes = append(shapes, shape)
	}
	var journal bytes.Buffer
	s, err := sim.New(sim.Options{
		Name: name, Origin: "Poisson <arrivals>", Nodes: nodes, Profile: profile, Seed: 3, Journal: &journal,
		Workload: workload.Poisson{Seed: 3, Jobs: 300, Every: 20 * time.Second, Mean: 5 * time.Minute, Shapes: shapes, Users: 12},
		Model: sim.Model{
			Source: "made up", Bandwidth: 100 << 20, Create: 700 * time.Millisecond, Stop: time.Second,
			ImageSizes: map[string]int64{"app:1": 1 << 30, "app:2": 2 << 30},
		},
		Faults:      []sim.Fault{{Node: "node-1", At: 20 * time.Minute, For: 30 * time.Minute}},
		Controllers: []sim.Controller{&sim.Jobs{}, &sim.NodeLifecycle{}},
		Gauges:      []sim.Gauge{kube.Stranded(v1.ResourceCPU, shapes[2])},
	})
	require.NoError(t, err)
	r, err := s.Run(t.Context())
	require.NoError(t, err)
	return r, journal.Bytes()
}

// TestPage: equal journals give equal pages, which are well formed, load nothing, and have the head of
// each run.
func TestPage(t *testing.T) {
	pages := make([]bytes.Buffer, 2)
	for i := range pages {
		var runs []*sim.Report
		for _, p := range []sim.Profile{kube.Profile(), kube.MostAllocatedProfile()} {
			_, journal := simulate(t, p.Name, p)
			r, err := report.Read(bytes.NewReader(journal), "j")
			require.NoError(t, err)
			runs = append(runs, r)
		}
		require.NoError(t, report.WriteHTML(&pages[i], runs...))
	}
	assert.True(t, bytes.Equal(pages[0].Bytes(), pages[1].Bytes()))
	text := pages[0].String()
	for _, want := range []string{
		"kube-most-allocated", "Poisson &lt;arrivals&gt;", "made up", "timers", "<dt>Seed</dt><dd>3</dd>", "Stranded cpu", "Utilised cpu", "Jain",
		"points", "Values", "role=\"img\"", "Users with the greatest slowdown", "From submission to readiness",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "NaN")
	assert.NotContains(t, text, "decision time")
	assert.NotRegexp(t, regexp.MustCompile(`(?i)<script|https?://|\bsrc=|@import|url\(`), text)
	decoder := xml.NewDecoder(strings.NewReader(text))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
	}
	if file := os.Getenv("REPORT_HTML"); file != "" { // to look at the page
		require.NoError(t, os.WriteFile(file, pages[0].Bytes(), 0o644))
	}
}

// TestReportAgreesWithJournal computes figures from the events of the journal alone.
func TestReportAgreesWithJournal(t *testing.T) {
	live, journal := simulate(t, "run", kube.Profile())
	r, err := report.Read(bytes.NewReader(journal), "j")
	require.NoError(t, err)
	r.Decision = live.Decision
	require.Equal(t, live, r)
	require.NotZero(t, r.Preempted)
	require.NotZero(t, r.LostNodes)

	type pod struct {
		cpu            float64
		submitted      float64
		bound, counted bool
	}
	pods := map[string]*pod{}
	var waits []float64
	var used, capacity, all, last float64 // core seconds
	down, lost := 0.0, false
	cpu := map[string]float64{}
	for _, text := range strings.Split(strings.TrimSpace(string(journal)), "\n") {
		var line struct {
			T     *float64
			Event string
			Pod   string
			Node  any
			CPU   float64
		}
		require.NoError(t, json.Unmarshal([]byte(text), &line), text)
		if line.T == nil {
			if name, ok := line.Node.(string); ok {
				cpu[name] = line.CPU / 1000
				all += line.CPU / 1000
			}
			continue
		}
		for _, p := range pods {
			if p.bound {
				used += p.cpu * (*line.T - last)
			}
		}
		capacity += (all - down) * (*line.T - last)
		last = *line.T
		p := pods[line.Pod]
		switch line.Event {
		case "submitted":
			pods[line.Pod] = &pod{cpu: line.CPU / 1000, submitted: last, counted: strings.Contains(line.Pod, "-retry-")}
		case "bound":
			p.bound = true
		case "started":
			if !p.counted {
				p.counted = true
				waits = append(waits, last-p.submitted)
			}
		case "ended":
			p.bound = false
		case "node-lost":
			down, lost = cpu["node-1"], true
		case "node-back":
			down = 0
		}
	}
	require.True(t, lost)
	assert.InDelta(t, 100*used/capacity, r.Usage[0].Allocation, 1e-6)
	slices.Sort(waits)
	require.Equal(t, len(waits), r.Wait.N)
	assert.InDelta(t, waits[int(math.Ceil(0.5*float64(len(waits))))-1], r.Wait.Of(50), 1e-9)
	assert.InDelta(t, waits[len(waits)-1], r.Wait.Max, 1e-9)
}

func TestTables(t *testing.T) {
	a, journal := simulate(t, "a", kube.Profile())
	b, _ := simulate(t, "a", kube.MostAllocatedProfile())
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, report.WriteCSV(dir, a, b))
	for file, want := range map[string]string{
		"summary.csv": "group,figure,unit,a,a (2)\nPods,submitted,", "series.csv": "run,series,unit,seconds,value\na,allocated cpu,%,0,",
		"distributions.csv": "a (2),job completion time,s,100,", "users.csv": "a,user-0,",
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		assert.Contains(t, string(text), want)
	}
	var pods, text bytes.Buffer
	require.NoError(t, report.WritePods(&pods, bytes.NewReader(journal), "j"))
	assert.Equal(t, a.Submitted+1, strings.Count(pods.String(), "\n"))
	assert.Equal(t, a.Succeeded, strings.Count(pods.String(), ",succeeded,"))
	assert.Equal(t, a.Failed, strings.Count(pods.String(), ",evicted,"))
	require.NoError(t, report.WriteText(&text, a, b))
	assert.Contains(t, text.String(), "makespan")
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "x.jsonl: the journal does not end with a report",
		`{"run":"a"}` + "\n":               "the journal does not end with a report",
		`{"run":"a"}` + "\n{\"report\":7}": "x.jsonl:2: json:",
	} {
		_, err := report.Read(strings.NewReader(text), "x.jsonl")
		assert.ErrorContains(t, err, want)
	}
	assert.ErrorContains(t, report.WritePods(io.Discard, strings.NewReader(`{"t":"x"}`), "x.jsonl"), "x.jsonl:1: json:")
	assert.ErrorContains(t, report.WriteHTML(io.Discard), "needs a run")
	assert.ErrorContains(t, report.WriteHTML(io.Discard, make([]*sim.Report, 7)...), "at most 6 runs")
}

func Example() {
	run := &sim.Report{Name: "mine", Submitted: 3, Succeeded: 3, Makespan: 2 * time.Minute}
	for _, row := range report.Rows(run) {
		if row.Name == "makespan" {
			fmt.Println(row.Group, row.Name, row.Values[0], row.Unit)
		}
	}
	// Output: Time makespan 120 s
}

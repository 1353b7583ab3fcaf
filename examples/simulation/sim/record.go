// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"time"
)

// maxPoints is the largest number of points of a Series. When it is reached, every second point is
// removed and the step is doubled.
const maxPoints = 512

// resources of the sums, in order.
const (
	sumCPU = iota
	sumMemory
	sumGPU
	sumCount
)

var sumNames = [sumCount]string{"cpu", "memory", "gpu"}

type sums [sumCount]float64

// recorder collects the numbers of a Report.
type recorder struct {
	s      *Sim
	report Report

	bound, running, capacity sums // now
	allocatedTime, runTime   sums // integrals of the shares
	capacityTime             sums
	pendingPods, runningPods int

	wait, bind, pull, create, ready, completion, slowdown, decision []float64

	users  map[string]*mean
	first  time.Duration // submission
	last   time.Duration // end
	step   time.Duration
	sample time.Duration // next point
	series []Series
	shown  []int // resources with a Series
}

type mean struct {
	sum float64
	n   int
}

func newRecorder(s *Sim) *recorder {
	r := &recorder{s: s, users: map[string]*mean{}, first: Never, step: time.Second}
	for _, n := range s.snapshot.nodes {
		r.count(&r.capacity, n, 1)
	}
	for i := range sumNames {
		if r.capacity[i] > 0 {
			r.shown = append(r.shown, i)
		}
	}
	for _, kind := range []string{"allocated ", "utilised "} {
		for _, i := range r.shown {
			r.series = append(r.series, Series{Name: kind + sumNames[i], Unit: "%"})
		}
	}
	r.series = append(r.series, Series{Name: "pending pods"}, Series{Name: "running pods"})
	for _, g := range s.opts.Gauges {
		r.series = append(r.series, Series{Name: g.Name, Unit: g.Unit})
	}
	return r
}

// count adds the capacity of a node.
func (r *recorder) count(to *sums, n *Node, sign float64) {
	to[sumCPU] += sign * float64(n.Allocatable.CPU)
	to[sumMemory] += sign * float64(n.Allocatable.Memory)
	to[sumGPU] += sign * float64(1000*len(n.GPUs))
}

// add adds the requests of a pod.
func (r *recorder) add(to *sums, p *Pod, sign float64) {
	to[sumCPU] += sign * float64(p.Shape.Requests.CPU)
	to[sumMemory] += sign * float64(p.Shape.Requests.Memory)
	to[sumGPU] += sign * float64(p.Shape.GPU.Total())
}

// pass integrates up to an instant, and takes points.
func (r *recorder) pass(to time.Duration) {
	dt := (to - r.s.now).Seconds()
	for i := range sumCount {
		r.allocatedTime[i] += dt * r.bound[i]
		r.runTime[i] += dt * r.running[i]
		r.capacityTime[i] += dt * r.capacity[i]
	}
	if r.sample >= to {
		return
	}
	point := r.point()
	for r.sample < to {
		for i := range r.series {
			r.series[i].Values = append(r.series[i].Values, point[i])
		}
		r.sample += r.step
		if len(r.series[0].Values) >= maxPoints {
			r.halve()
		}
	}
}

// point returns the present value of each Series.
func (r *recorder) point() []float64 {
	point := make([]float64, 0, len(r.series))
	for _, of := range []*sums{&r.bound, &r.running} {
		for _, i := range r.shown {
			point = append(point, share(of[i], r.capacity[i]))
		}
	}
	point = append(point, float64(r.pendingPods), float64(r.runningPods))
	for _, g := range r.s.opts.Gauges {
		point = append(point, g.Value(r.s.snapshot))
	}
	return point
}

// halve removes every second point.
func (r *recorder) halve() {
	for i := range r.series {
		kept := r.series[i].Values[:0]
		for k := 0; k < len(r.series[i].Values); k += 2 {
			kept = append(kept, r.series[i].Values[k])
		}
		r.series[i].Values = kept
	}
	r.step *= 2
	r.sample = time.Duration(len(r.series[0].Values)) * r.step
}

// share returns a percentage.
func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}

func (r *recorder) decided(took time.Duration) { r.decision = append(r.decision, took.Seconds()) }

func (r *recorder) preempted(*Pod) { r.report.Preempted++ }

// event counts an event.
func (r *recorder) event(e Event) {
	p := e.Pod
	switch e.Kind {
	case Submitted:
		r.first = min(r.first, e.At)
		r.report.Submitted++
		r.pendingPods++
	case Bound:
		r.pendingPods--
		r.add(&r.bound, p, 1)
		r.bind = append(r.bind, (e.At - p.Submitted).Seconds())
	case Pulled:
		r.pull = append(r.pull, (e.At - p.Bound).Seconds())
	case ReadyNow:
		r.ready = append(r.ready, (e.At - p.Started).Seconds())
	case Evicting:
		r.report.Evicted++
	case Dropped:
		r.pendingPods--
		r.report.Dropped++
	case NodeLost:
		r.report.LostNodes++
		r.count(&r.capacity, e.Node, -1)
	case NodeBack:
		r.count(&r.capacity, e.Node, 1)
	}
}

// start counts a pod whose containers start.
func (r *recorder) start(p *Pod) {
	r.create = append(r.create, (p.Started - p.Pulled).Seconds())
	if !p.running {
		p.running = true
		r.runningPods++
		r.add(&r.running, p, 1)
	}
	if p.counted || p.first > 0 {
		return
	}
	p.counted = true
	if g := p.Gang; g == nil {
		r.wait = append(r.wait, (p.Started - p.Submitted).Seconds())
	} else if g.started++; g.started == g.Min {
		r.wait = append(r.wait, (p.Started - p.Submitted).Seconds())
	}
}

// interrupt counts a pod whose containers end with their node.
func (r *recorder) interrupt(p *Pod) {
	if p.running {
		r.lose(p)
		r.stop(p)
	}
}

func (r *recorder) stop(p *Pod) {
	p.running = false
	r.runningPods--
	r.add(&r.running, p, -1)
}

// lose counts the work of a pod that ends before its time.
func (r *recorder) lose(p *Pod) {
	if p.Work > 0 {
		worked := (r.s.now - p.Started).Seconds()
		r.report.LostCPU += worked * float64(p.Shape.Requests.CPU) / 1000
		r.report.LostGPU += worked * float64(p.Shape.GPU.Total()) / 1000
	}
}

// end counts a bound pod that ends, before it leaves its node.
func (r *recorder) end(p *Pod) {
	r.last = r.s.now
	r.add(&r.bound, p, -1)
	if p.running {
		if p.evicting {
			r.lose(p)
		}
		r.stop(p)
	}
	if p.evicting {
		r.report.Failed++
		return
	}
	r.report.Succeeded++
	if g := p.Gang; g != nil {
		if g.ended++; g.ended != g.Size {
			return
		}
	}
	took := p.Ended - p.firstSubmit()
	r.completion = append(r.completion, took.Seconds())
	if p.Work > 0 {
		slowdown := max(1, float64(took)/float64(max(p.Work, 10*time.Second)))
		r.slowdown = append(r.slowdown, slowdown)
		u := r.users[p.User]
		if u == nil {
			u = &mean{}
			r.users[p.User] = u
		}
		u.sum += slowdown
		u.n++
	}
}

// finish returns the Report.
func (r *recorder) finish() *Report {
	out := r.report
	s := r.s
	out.Name, out.Profile, out.Backend = s.opts.Name, s.scheduler.profile.Name, s.backend.Name()
	out.Model, out.Seed, out.Nodes = s.opts.Model.Source, s.opts.Seed, len(s.snapshot.nodes)
	out.Version, out.Origin = version, s.opts.Origin
	if s.opts.Results != nil {
		out.Results = s.opts.Results()
	}
	out.Unfinished = out.Submitted - out.Succeeded - out.Failed - out.Dropped
	out.Horizon, out.Cycles = s.now, len(r.decision)
	if r.last > r.first {
		out.Makespan = r.last - r.first
	}
	for i, name := range sumNames {
		if r.capacityTime[i] > 0 {
			out.Usage = append(out.Usage, Usage{name, share(r.allocatedTime[i], r.capacityTime[i]), share(r.runTime[i], r.capacityTime[i])})
		}
	}
	inverse := make([]float64, 0, len(r.users))
	for _, user := range slices.Sorted(maps.Keys(r.users)) {
		of := r.users[user]
		inverse = append(inverse, float64(of.n)/of.sum)
		out.Users = append(out.Users, User{user, of.n, of.sum / float64(of.n)})
	}
	out.Jain = jain(inverse)
	for _, d := range []struct {
		to   *Distribution
		from []float64
	}{
		{&out.Wait, r.wait}, {&out.BindLatency, r.bind}, {&out.Pull, r.pull}, {&out.Create, r.create}, {&out.Ready, r.ready},
		{&out.Completion, r.completion}, {&out.Slowdown, r.slowdown}, {&out.Decision, r.decision},
	} {
		*d.to = distribution(slices.Clone(d.from))
	}
	for _, series := range r.series {
		series.Step, series.Values = r.step, slices.Clone(series.Values)
		out.Series = append(out.Series, series)
	}
	return &out
}

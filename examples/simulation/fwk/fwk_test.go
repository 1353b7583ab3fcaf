// SPDX-License-Identifier: Apache-2.0

package fwk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/keelson-dev/keelson/examples/simulation/fwk"
	"github.com/keelson-dev/keelson/examples/simulation/sim"
	"github.com/keelson-dev/keelson/examples/simulation/sim/kube"
)

// named is the base of the plug-ins of the tests.
type named string

func (n named) Name() string { return string(n) }

// config returns a configuration for a plug-in that make makes.
func config(build func(h framework.Handle) framework.Plugin, without ...string) fwk.Plugin {
	return fwk.Plugin{Without: without, New: func(_ context.Context, _ apiruntime.Object, h framework.Handle) (framework.Plugin, error) {
		return build(h), nil
	}}
}

// run places pods of the shape on nodes, and returns the events. change may change the options.
func run(t *testing.T, scheduler *fwk.Scheduler, nodes int, work sim.Arrivals, change func(*sim.Options)) (events []sim.Event) {
	t.Helper()
	o := sim.Options{Workload: work, Profile: scheduler.Profile()}
	for i := range nodes {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{"number": fmt.Sprint(i)}}}
		node.Status.Allocatable = v1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi")}
		o.Nodes = append(o.Nodes, node)
	}
	if change != nil {
		change(&o)
	}
	s, err := sim.New(o)
	require.NoError(t, err)
	for e, more := s.Step(); more; e, more = s.Step() {
		events = append(events, e)
	}
	require.NoError(t, s.Err())
	return events
}

// shape returns the shape of a pod with a container.
func shape(t *testing.T, change func(*v1.Pod)) *sim.Shape {
	t.Helper()
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}}}
	if change != nil {
		change(pod)
	}
	s, err := sim.NewShape(pod, sim.GPURequest{})
	require.NoError(t, err)
	return s
}

// placements returns the bound pods with their nodes, in order.
func placements(events []sim.Event) (out []string) {
	for _, e := range events {
		if e.Kind == sim.Bound {
			out = append(out, e.Pod.Name+" on "+e.Node.Name)
		}
	}
	return out
}

func build(t *testing.T, plugins ...fwk.Plugin) *fwk.Scheduler {
	t.Helper()
	s, err := fwk.New(t.Context(), fwk.Options{Plugins: plugins})
	require.NoError(t, err)
	return s
}

// note is a state of a cycle.
type note string

func (n note) Clone() framework.StateData { return n }

// tracer is at all extension points, and notes its calls. It permits two nodes and prefers the second.
type tracer struct {
	named
	h     framework.Handle
	calls []string
}

func (p *tracer) note(format string, args ...any) {
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
}

func (p *tracer) PreFilter(_ context.Context, s framework.CycleState, pod *v1.Pod, nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	p.note("PreFilter %s/%s %d", pod.Namespace, pod.Name, len(nodes))
	s.Write("key", note("kept"))
	return &framework.PreFilterResult{NodeNames: sets.New("node-1", "node-2", "node-9")}, nil
}
func (p *tracer) PreFilterExtensions() framework.PreFilterExtensions { return nil }
func (p *tracer) Filter(_ context.Context, _ framework.CycleState, _ *v1.Pod, n framework.NodeInfo) *framework.Status {
	p.note("Filter %s", n.Node().Name)
	return nil
}
func (p *tracer) PreScore(_ context.Context, _ framework.CycleState, _ *v1.Pod, nodes []framework.NodeInfo) *framework.Status {
	p.note("PreScore %d", len(nodes))
	return nil
}
func (p *tracer) Score(_ context.Context, _ framework.CycleState, _ *v1.Pod, n framework.NodeInfo) (int64, *framework.Status) {
	p.note("Score %s", n.Node().Name)
	return map[string]int64{"node-1": 1000, "node-2": 3000}[n.Node().Name], nil
}
func (p *tracer) ScoreExtensions() framework.ScoreExtensions { return p }
func (p *tracer) NormalizeScore(_ context.Context, _ framework.CycleState, _ *v1.Pod, scores framework.NodeScoreList) *framework.Status {
	p.note("NormalizeScore %v", scores)
	for i := range scores {
		scores[i].Score /= 100
	}
	return nil
}
func (p *tracer) Reserve(_ context.Context, s framework.CycleState, pod *v1.Pod, node string) *framework.Status {
	kept, err := s.Read("key")
	p.note("Reserve %s %s %v %v", pod.Spec.NodeName, node, kept, err)
	return nil
}
func (p *tracer) Unreserve(context.Context, framework.CycleState, *v1.Pod, string) {
	p.note("Unreserve")
}
func (p *tracer) Permit(_ context.Context, _ framework.CycleState, _ *v1.Pod, node string) (*framework.Status, time.Duration) {
	infos, err := p.h.SnapshotSharedLister().NodeInfos().List()
	p.note("Permit %s %d %v", node, len(infos), err)
	return nil, 0
}

// TestExtensionPoints: the calls of a cycle are those of kube-scheduler, with the state of the cycle.
func TestExtensionPoints(t *testing.T) {
	p := &tracer{named: "Tracer"}
	s := build(t, config(func(h framework.Handle) framework.Plugin { p.h = h; return p }))
	events := run(t, s, 4, sim.Arrivals{{Name: "p", Shape: shape(t, nil)}}, nil)
	require.Equal(t, []string{"p on node-2"}, placements(events))
	require.Equal(t, []string{
		"PreFilter default/p 4", "Filter node-1", "Filter node-2", "PreScore 2", "Score node-1", "Score node-2",
		"NormalizeScore [{node-1 1000} {node-2 3000}]", "Reserve node-2 node-2 kept <nil>", "Permit node-2 4 <nil>",
	}, p.calls)
	require.NoError(t, s.Err())
}

// skipper has nothing to do for any pod. Its Filter and Score must not be called.
type skipper struct{ named }

func (skipper) PreFilter(context.Context, framework.CycleState, *v1.Pod, []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	return nil, framework.NewStatus(framework.Skip)
}
func (skipper) PreFilterExtensions() framework.PreFilterExtensions { return nil }
func (skipper) Filter(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) *framework.Status {
	return framework.NewStatus(framework.Unschedulable, "called in spite of Skip")
}
func (skipper) PreScore(context.Context, framework.CycleState, *v1.Pod, []framework.NodeInfo) *framework.Status {
	return framework.NewStatus(framework.Skip)
}
func (skipper) Score(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) (int64, *framework.Status) {
	return 0, framework.AsStatus(errors.New("called in spite of Skip"))
}
func (skipper) ScoreExtensions() framework.ScoreExtensions { return nil }

func TestSkip(t *testing.T) {
	s := build(t, config(func(framework.Handle) framework.Plugin { return skipper{"Skipper"} }))
	events := run(t, s, 2, sim.Arrivals{{Name: "p", Shape: shape(t, nil)}}, nil)
	require.Equal(t, []string{"p on node-0"}, placements(events))
}

// failing returns an error at one of its points, for the first attempts.
type failing struct {
	named
	at   string
	left int
}

func (f *failing) status(at string) *framework.Status {
	if f.at != at || f.left == 0 {
		return nil
	}
	f.left--
	return framework.AsStatus(errors.New("broken"))
}
func (f *failing) PreFilter(context.Context, framework.CycleState, *v1.Pod, []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	return nil, f.status("PreFilter")
}
func (f *failing) PreFilterExtensions() framework.PreFilterExtensions { return nil }
func (f *failing) Filter(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) *framework.Status {
	return f.status("Filter")
}
func (f *failing) Score(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) (int64, *framework.Status) {
	if f.at == "range" && f.left > 0 {
		f.left--
		return 101, nil
	}
	return 0, f.status("Score")
}
func (f *failing) ScoreExtensions() framework.ScoreExtensions { return nil }

// TestErrors: an error ends the cycle, whichever node it is about, and the pod is tried again after a
// back-off.
func TestErrors(t *testing.T) {
	for _, at := range []string{"PreFilter", "Filter", "Score", "range"} {
		t.Run(at, func(t *testing.T) {
			s := build(t, config(func(framework.Handle) framework.Plugin { return &failing{"Failing", at, 1} }))
			events := run(t, s, 2, sim.Arrivals{{Name: "p", Shape: shape(t, nil)}}, nil)
			require.Equal(t, []string{"p on node-0"}, placements(events))
			bound := events[len(events)-1].Pod.Bound
			require.Equal(t, time.Second, bound, "the back-off")
		})
	}
}

// gang waits for a number of pods.
type gang struct {
	named
	h      framework.Handle
	size   int
	events []string
}

func (g *gang) Permit(_ context.Context, _ framework.CycleState, pod *v1.Pod, _ string) (*framework.Status, time.Duration) {
	waiting := 0
	g.h.IterateOverWaitingPods(func(framework.WaitingPod) { waiting++ })
	if waiting+1 < g.size {
		return framework.NewStatus(framework.Wait), 10 * time.Second
	}
	g.h.IterateOverWaitingPods(func(w framework.WaitingPod) {
		g.events = append(g.events, fmt.Sprint(w.GetPod().Name, w.GetPendingPlugins(), g.h.GetWaitingPod(w.GetPod().UID) != nil))
		w.Allow(g.Name())
	})
	return nil, 0
}
func (g *gang) Reserve(context.Context, framework.CycleState, *v1.Pod, string) *framework.Status {
	return nil
}
func (g *gang) Unreserve(_ context.Context, _ framework.CycleState, pod *v1.Pod, _ string) {
	g.events = append(g.events, "unreserve "+pod.Name)
	g.h.IterateOverWaitingPods(func(w framework.WaitingPod) { g.h.RejectWaitingPod(w.GetPod().UID) })
}

// TestWaitingPods: pods wait for Permit, are allowed by a later pod, and are rejected by Unreserve of
// another pod.
func TestWaitingPods(t *testing.T) {
	for _, test := range []struct {
		name      string
		pods      int
		placed    []string
		events    []string
		firstWait time.Duration
	}{
		{"complete", 3, []string{"c on node-0", "a on node-0", "b on node-0"}, []string{"a[Gang] true", "b[Gang] true"}, 2 * time.Second},
		{"short of a pod", 2, nil, []string{"unreserve a", "unreserve b"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := &gang{named: "Gang", size: 3}
			s := build(t, config(func(h framework.Handle) framework.Plugin { g.h = h; return g }))
			work := sim.Arrivals{}
			for i := range test.pods {
				work = append(work, sim.Arrival{At: time.Duration(i) * time.Second, Name: string(rune('a' + i)), Shape: shape(t, nil)})
			}
			events := run(t, s, 1, work, func(o *sim.Options) { o.Until = 11 * time.Second })
			require.ElementsMatch(t, test.placed, placements(events))
			require.Equal(t, test.events, g.events[:len(test.events)])
			require.NoError(t, s.Err())
		})
	}
}

// evictor deletes a pod of the first node for a pod that does not fit.
type evictor struct {
	named
	h framework.Handle
}

func (e *evictor) PostFilter(ctx context.Context, _ framework.CycleState, pod *v1.Pod, statuses framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	nodes, err := statuses.NodesForStatusCode(e.h.SnapshotSharedLister().NodeInfos(), framework.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return nil, framework.NewStatus(framework.Unschedulable)
	}
	victim := nodes[0].GetPods()[0].GetPod()
	if err := e.h.ClientSet().CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{}); err != nil {
		return nil, framework.AsStatus(err)
	}
	return &framework.PostFilterResult{NominatingInfo: &framework.NominatingInfo{NominatedNodeName: nodes[0].Node().Name, NominatingMode: framework.ModeOverride}}, nil
}

// single permits a pod on each node.
type single struct{ named }

func (single) Filter(_ context.Context, _ framework.CycleState, _ *v1.Pod, n framework.NodeInfo) *framework.Status {
	if len(n.GetPods()) > 0 {
		return framework.NewStatus(framework.Unschedulable, "taken")
	}
	return nil
}

// TestPreemption: a deletion by PostFilter preempts, and so does kube.Preemption with the filters of
// plug-ins.
func TestPreemption(t *testing.T) {
	for _, test := range []string{"the plug-in's", "package kube's"} {
		t.Run(test, func(t *testing.T) {
			plugins := []fwk.Plugin{config(func(framework.Handle) framework.Plugin { return single{"Single"} })}
			if test == "the plug-in's" {
				plugins = append(plugins, config(func(h framework.Handle) framework.Plugin { return &evictor{"Evictor", h} }))
			}
			s := build(t, plugins...)
			high := shape(t, func(p *v1.Pod) { p.Spec.Priority = new(int32(10)) })
			low := shape(t, func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(5)) })
			events := run(t, s, 1, sim.Arrivals{{Name: "low", Shape: low}, {Name: "high", Shape: high, At: time.Second}}, func(o *sim.Options) {
				o.Model.Stop = 5 * time.Second
				o.Until = time.Minute
				if test != "the plug-in's" {
					o.Profile.PostFilter = []sim.PostFilter{kube.Preemption{}}
				}
			})
			require.Equal(t, []string{"low on node-0", "high on node-0"}, placements(events))
			for _, e := range events {
				if e.Kind == sim.Bound && e.Pod.Name == "high" {
					require.Equal(t, 6*time.Second, e.At)
				}
			}
			require.NoError(t, s.Err())
		})
	}
}

// hinted refuses all pods, and registers for the ends of pods.
type hinted struct {
	named
	asked *[]string
}

func (hinted) Filter(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) *framework.Status {
	return framework.NewStatus(framework.Unschedulable, "never")
}
func (h hinted) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{{
		Event: framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Delete},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, before, after any) (framework.QueueingHint, error) {
			*h.asked = append(*h.asked, fmt.Sprint(before.(*v1.Pod).Name, " ", after))
			return framework.QueueSkip, nil
		},
	}}, nil
}

// onlyFor refuses other pods than those with a name.
type onlyFor struct {
	hinted
	name string
}

func (o onlyFor) Filter(_ context.Context, _ framework.CycleState, pod *v1.Pod, _ framework.NodeInfo) *framework.Status {
	if pod.Name == o.name {
		return nil
	}
	return framework.NewStatus(framework.Unschedulable, "another pod")
}

// TestHints: a refused pod is tried again after an event for which the hint says so.
func TestHints(t *testing.T) {
	var asked []string
	s := build(t, config(func(framework.Handle) framework.Plugin { return onlyFor{hinted{"Only", &asked}, "ends"} }))
	events := run(t, s, 1, sim.Arrivals{
		{Name: "ends", Shape: shape(t, nil), Duration: 10 * time.Second}, {Name: "waits", Shape: shape(t, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })},
	}, func(o *sim.Options) { o.Until = time.Minute })
	require.Equal(t, []string{"ends <nil>"}, asked)
	refusals := 0
	for _, e := range events {
		if e.Kind == sim.Refused {
			refusals++
		}
	}
	require.Equal(t, 1, refusals, "the hint said no")
}

// curious makes a call that is not simulated.
type curious struct {
	named
	h    framework.Handle
	call func(framework.Handle)
}

func (c curious) Filter(context.Context, framework.CycleState, *v1.Pod, framework.NodeInfo) *framework.Status {
	c.call(c.h)
	return nil
}

type binder struct{ named }

func (binder) Bind(context.Context, framework.CycleState, *v1.Pod, string) *framework.Status {
	return nil
}

// TestRefused: what is not simulated is refused by name.
func TestRefused(t *testing.T) {
	for name, call := range map[string]func(framework.Handle){
		"Handle.Activate":        func(h framework.Handle) { h.Activate(klog.Background(), nil) },
		"Handle.AddNominatedPod": func(h framework.Handle) { h.AddNominatedPod(klog.Background(), nil, nil) },
		"StartMutations":         func(h framework.Handle) { _ = h.MutableSnapshotSharedLister().StartMutations() },
		"ClientSet: delete nodes": func(h framework.Handle) {
			_ = h.ClientSet().CoreV1().Nodes().Delete(t.Context(), "a", metav1.DeleteOptions{})
		},
		"ClientSet: delete pods, out": func(h framework.Handle) {
			_ = h.ClientSet().CoreV1().Pods("x").Delete(t.Context(), "a", metav1.DeleteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := build(t, config(func(h framework.Handle) framework.Plugin { return curious{"Curious", h, call} }))
			events := run(t, s, 1, sim.Arrivals{{Name: "p", Shape: shape(t, nil)}}, func(o *sim.Options) { o.GiveUp = true })
			require.Empty(t, placements(events))
			require.ErrorIs(t, s.Err(), fwk.ErrNotSimulated)
			require.ErrorContains(t, s.Err(), name)
		})
	}
	bind := config(func(framework.Handle) framework.Plugin { return binder{"Binder"} })
	_, err := fwk.New(t.Context(), fwk.Options{Plugins: []fwk.Plugin{bind}})
	require.ErrorIs(t, err, fwk.ErrNotSimulated)
	require.ErrorContains(t, err, "Binder")
	require.ErrorContains(t, err, "extension point Bind")
	bind.Without = []string{"Bind"}
	_, err = fwk.New(t.Context(), fwk.Options{Plugins: []fwk.Plugin{bind}})
	require.NoError(t, err)
}

// TestOptions: New names the invalid field.
func TestOptions(t *testing.T) {
	good := config(func(framework.Handle) framework.Plugin { return single{"Single"} })
	for want, o := range map[string]fwk.Options{
		"Options.Plugins: none":                {},
		"Options.Plugins[0]: New: nil":         {Plugins: []fwk.Plugin{{}}},
		"Options.Plugins[0]: Weight: negative": {Plugins: []fwk.Plugin{{New: good.New, Weight: -1}}},
		`a second plug-in is named "Single"`:   {Plugins: []fwk.Plugin{good, good}},
		"Options.Objects[0]: pods and nodes":   {Plugins: []fwk.Plugin{good}, Objects: []apiruntime.Object{&v1.Node{}}},
	} {
		_, err := fwk.New(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
}

// reader reads API objects with the client set and with listers.
type reader struct {
	named
	h    framework.Handle
	seen []string
}

func (r *reader) Filter(ctx context.Context, _ framework.CycleState, pod *v1.Pod, n framework.NodeInfo) *framework.Status {
	pods, err := r.h.SharedInformerFactory().Core().V1().Pods().Lister().Pods("default").Get("first")
	listed, listErr := r.h.ClientSet().CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	service, serviceErr := r.h.SharedInformerFactory().Core().V1().Services().Lister().Services("default").Get("web")
	if pod.Name == "second" && err == nil && listErr == nil && serviceErr == nil {
		r.seen = append(r.seen, fmt.Sprint(pods.Spec.NodeName, " ", len(listed.Items), " ", service.Name))
	}
	return nil
}

func TestObjects(t *testing.T) {
	r := &reader{named: "Reader"}
	s, err := fwk.New(t.Context(), fwk.Options{
		Plugins: []fwk.Plugin{config(func(h framework.Handle) framework.Plugin { r.h = h; return r })},
		Objects: []apiruntime.Object{&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}},
	})
	require.NoError(t, err)
	run(t, s, 1, sim.Arrivals{{Name: "first", Shape: shape(t, nil)}, {Name: "second", Shape: shape(t, nil)}}, nil)
	require.Equal(t, []string{"node-0 1 web"}, r.seen)
}

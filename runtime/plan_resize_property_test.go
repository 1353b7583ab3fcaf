// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/runtime"
)

// ledger has the resources of the instances of a random pod. nil: no resizes.
type ledger map[runtime.ContainerID]given

type given struct {
	resources v1.ResourceRequirements
	unsure    bool
}

// amounts is a small set, so that amounts are often equal. It has several forms of an empty amount.
var amounts = func() (out []v1.ResourceRequirements) {
	for _, n := range [][4]int64{{}, {1, 1, 1, 1}, {1, 2, 1, 2}, {2, 2, 2, 2}, {1, 0, 1, 0}, {0, 2, 0, 1}, {2, 3, 1, 1}, {1, 1, 2, 3}} {
		r := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
		for i, list := range []v1.ResourceList{r.Requests, r.Limits} {
			if n[i] != 0 {
				list[v1.ResourceCPU] = *resource.NewMilliQuantity(n[i]*100, resource.DecimalSI)
			}
			if n[2+i] != 0 {
				list[v1.ResourceMemory] = *resource.NewQuantity(n[2+i]<<20, resource.BinarySI)
			}
		}
		out = append(out, r)
	}
	return append(out, v1.ResourceRequirements{})
}()

// resize turns r into a run of a pod that is resized, with records for the
// instances that were there from the start.
func (d dice) resize(r *randomRun, st *runtime.PodStatus) {
	if d.oneIn(8) {
		r.pod.Spec.Resources = new(pick(d, amounts...))
	}
	if d.oneIn(16) {
		r.pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	}
	for _, list := range [][]v1.Container{r.pod.Spec.InitContainers, r.pod.Spec.Containers} {
		for i := range list {
			d.resizePolicy(&list[i])
		}
	}
	r.model.ledger = d.ledger(st, r.pod)
}

func (d dice) resizePolicy(c *v1.Container) {
	c.Resources = pick(d, amounts...)
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "other"} {
		if d.oneIn(2) {
			c.ResizePolicy = append(c.ResizePolicy, v1.ContainerResizePolicy{
				ResourceName: name, RestartPolicy: pick(d, v1.RestartContainer, v1.NotRequired),
			})
		}
	}
}

func (d dice) ledger(st *runtime.PodStatus, pod *v1.Pod) ledger {
	out := ledger{}
	if st == nil {
		return out
	}
	for i := range st.Containers {
		record := given{resources: pick(d, amounts...), unsure: d.oneIn(8)}
		if ref, ok := runtime.Find(pod, st.Containers[i].Name); ok && d.oneIn(2) {
			record.resources = naiveWants(pod, ref.Container(pod))
		}
		out[st.Containers[i].ID] = record
	}
	return out
}

// actuated is PlanInput.Actuated.
func (m *model) actuated(name string) (v1.ResourceRequirements, bool) {
	record, ok := m.ledger[m.goesBy(name).ID]
	return record.resources, ok && !record.unsure
}

func (m *model) goesBy(name string) *runtime.ContainerStatus {
	if ref, _ := runtime.Find(m.pod, name); ref.Group == runtime.GroupInit {
		return m.status.Active(name)
	}
	return m.status.Latest(name)
}

// naiveWants returns the wanted resources of a container with all defaults.
func naiveWants(pod *v1.Pod, c *v1.Container) v1.ResourceRequirements {
	out := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
		if _, ok := c.Resources.Requests[name]; !ok {
			request = limit
		}
		if whole := pod.Spec.Resources; whole != nil && limit.IsZero() {
			limit = whole.Limits[name]
		}
		out.Requests[name], out.Limits[name] = request, limit
	}
	return out
}

// naiveResize is one step of a plan.
type naiveResize struct {
	id    runtime.ContainerID
	name  v1.ResourceName
	grows bool
	ref   runtime.Ref
}

// fit decides about one running container.
func (n *naive) fit(c *v1.Container, st *runtime.ContainerStatus) (restart bool, steps []naiveResize) {
	if n.Actuated == nil || n.Pod.Annotations["kubernetes.io/config.source"] == "file" {
		return false, nil
	}
	has, sure := n.Actuated(c.Name)
	wants := naiveWants(n.Pod, c)
	ref, _ := runtime.Find(n.Pod, c.Name)
	for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		byRequest, byLimit := compare(wants.Requests, has.Requests, name), compare(wants.Limits, has.Limits, name)
		if wanted, had := wants.Limits[name], has.Limits[name]; wanted.IsZero() != had.IsZero() {
			byLimit = -byLimit // no limit is the highest
		}
		grows := cmp.Or(byLimit, byRequest) >= 0
		change := byRequest != 0 || byLimit != 0
		restarts := slices.Contains(c.ResizePolicy, v1.ContainerResizePolicy{ResourceName: name, RestartPolicy: v1.RestartContainer})
		switch {
		case change && restarts:
			restart = true
		case !restarts && (change || !sure):
			steps = append(steps, naiveResize{st.ID, name, grows, ref})
		}
	}
	if restart {
		return true, nil
	}
	return false, steps
}

func compare(a, b v1.ResourceList, name v1.ResourceName) int {
	x, y := a[name], b[name]
	return x.Cmp(y)
}

// inOrder puts steps in the order of the contract, bucket by bucket.
func inOrder(steps []naiveResize) (out []naiveResize) {
	for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		for _, grows := range []bool{false, true} {
			for _, group := range []runtime.Group{runtime.GroupInit, runtime.GroupRegular} {
				for i := range 10 {
					for _, s := range steps {
						if s.name == name && s.grows == grows && s.ref.Group == group && s.ref.Index == i {
							out = append(out, s)
						}
					}
				}
			}
		}
	}
	return out
}

// keepsResizeRules checks the resizes of one plan.
func (r *randomRun) keepsResizeRules(plan runtime.Actions) error {
	if len(plan.Resize) > 0 && (plan.KillPod || r.model.ledger == nil) {
		return fmt.Errorf("resizes in a pod that is killed or not to be resized")
	}
	has := map[string]v1.ResourceRequirements{}
	for _, step := range plan.Resize {
		st := r.model.goesBy(step.Name)
		c := step.Ref.Container(r.pod)
		switch {
		case st == nil || st.ID != step.ID || st.State != runtime.StateRunning || c.Name != step.Name:
			return fmt.Errorf("%s is resized and does not run", step.Name)
		case slices.ContainsFunc(plan.Kill, func(k runtime.Kill) bool { return k.ID == step.ID }):
			return fmt.Errorf("%s is resized and killed", step.Name)
		case slices.ContainsFunc(plan.Start, func(s runtime.Start) bool { return s.Name == step.Name }):
			return fmt.Errorf("%s is resized and started", step.Name)
		case step.Cause == "":
			return fmt.Errorf("%s is resized for no reason", step.Name)
		}
		before, again := has[step.Name]
		if !again {
			before = r.model.ledger[step.ID].resources
		}
		if !sameAmounts(before, step.From) {
			return fmt.Errorf("%s has %v, not %v", step.Name, before, step.From)
		}
		wants := naiveWants(r.pod, c)
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			next := step.From
			if name == step.Resource {
				next = wants
			}
			if compare(next.Requests, step.To.Requests, name) != 0 || compare(next.Limits, step.To.Limits, name) != 0 {
				return fmt.Errorf("%s of %s goes to %v", name, step.Name, step.To)
			}
		}
		has[step.Name] = step.To
	}
	return nil
}

func sameAmounts(a, b v1.ResourceRequirements) bool {
	return compare(a.Requests, b.Requests, v1.ResourceCPU) == 0 && compare(a.Requests, b.Requests, v1.ResourceMemory) == 0 &&
		compare(a.Limits, b.Limits, v1.ResourceCPU) == 0 && compare(a.Limits, b.Limits, v1.ResourceMemory) == 0
}

// resizedAtRest checks that running containers have their wanted resources, unless a resize is not
// possible.
func (r *randomRun) resizedAtRest() error {
	if r.model.ledger == nil || r.pod.Annotations != nil {
		return nil
	}
	for _, list := range [][]v1.Container{r.pod.Spec.Containers, r.pod.Spec.InitContainers} {
		for i := range list {
			c, st := &list[i], r.model.goesBy(list[i].Name)
			if st == nil || st.State != runtime.StateRunning {
				continue
			}
			if ref, _ := runtime.Find(r.pod, c.Name); ref.Group == runtime.GroupInit && !up(c, st, r.probes) {
				continue // it is waited for
			}
			record := r.model.ledger[st.ID]
			if !sameAmounts(record.resources, naiveWants(r.pod, c)) {
				return fmt.Errorf("at rest with %s having %v", c.Name, record.resources)
			}
		}
	}
	return nil
}

// describe prints the recorded resources.
func (l ledger) describe(st *runtime.PodStatus) string {
	if l == nil {
		return "\n\tnothing is resized"
	}
	out := ""
	for i := range st.Containers {
		out += fmt.Sprintf("\n\t%s has %s", st.Containers[i].ID, showGiven(l[st.Containers[i].ID]))
	}
	return out
}

func showGiven(g given) string {
	return fmt.Sprintf("cpu %s/%s memory %s/%s unsure=%s", g.resources.Requests.Cpu(), g.resources.Limits.Cpu(),
		g.resources.Requests.Memory(), g.resources.Limits.Memory(), strconv.FormatBool(g.unsure))
}

// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/admission"
	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/fake"
)

// Annotations of a pod that script its containers. With the name of a container and a dot before the
// last part, such as simulation.keelson.dev/web.runs, an annotation is about that container. Without,
// it is about all containers except init containers.
const (
	// AnnotationRuns is how long a container runs after each start, such as 30s. It is "forever" by
	// default with the restart policy Always, and 100ms otherwise. Init containers end at once, and
	// sidecars run on.
	AnnotationRuns = prefix + "runs"
	// AnnotationExitCode is the exit code of a container at the end of its time.
	AnnotationExitCode = prefix + "exit-code"
	// AnnotationReadyAfter is the time from the start of a container until its probes succeed, or
	// "never". The container needs a probe.
	AnnotationReadyAfter = prefix + "ready-after"
	// AnnotationCrashes is how often a container exits right after its start, with code 1, before it
	// runs as the other annotations say.
	AnnotationCrashes = prefix + "crashes"
	// AnnotationStopsAfter is the time from SIGTERM to the end of a container, or "never": then the
	// container is killed after its grace period.
	AnnotationStopsAfter = prefix + "stops-after"
)

const prefix = "simulation.keelson.dev/"

// jobRuns is how long a container of a pod that ends by itself runs by default.
const jobRuns = 100 * time.Millisecond

// behave returns the script of a container. Annotations with errors have refused the pod before.
func behave(pod *v1.Pod, spec runtime.ContainerSpec) fake.Script {
	script, _ := scriptOf(pod, spec.Container, spec.Group, spec.RestartCount)
	return script
}

func scriptOf(pod *v1.Pod, c *v1.Container, group runtime.Group, restarts int32) (fake.Script, error) {
	r := reader{pod: pod, container: c.Name, own: group != runtime.GroupRegular}
	standard := fake.Never
	switch {
	case group == runtime.GroupInit && !podfacts.IsSidecar(c):
		standard = fake.AtOnce
	case group == runtime.GroupRegular && pod.Spec.RestartPolicy != v1.RestartPolicyAlways:
		standard = jobRuns
	}
	s := fake.Script{
		ExitAfter: r.duration(AnnotationRuns, "forever", standard), ExitCode: int32(r.number(AnnotationExitCode, 255)),
		ReadyAfter: r.duration(AnnotationReadyAfter, "never", 0), TermAfter: r.duration(AnnotationStopsAfter, "never", 0),
	}
	if s.ExitAfter == fake.Never {
		s.ExitAfter = 0
	}
	if int(restarts) < r.number(AnnotationCrashes, 1<<20) {
		s = fake.Exit(fake.AtOnce, 1)
	}
	if r.err == nil && r.said(AnnotationReadyAfter) && c.ReadinessProbe == nil && c.StartupProbe == nil && c.LivenessProbe == nil {
		r.err = fmt.Errorf("annotation %s: container %s has no probe", AnnotationReadyAfter, c.Name)
	}
	return s, r.err
}

// reader reads the annotations about a container, and keeps the first error.
type reader struct {
	pod       *v1.Pod
	container string
	own       bool // only annotations with the container's name are about the container
	err       error
}

// text returns the value of an annotation and its key.
func (r *reader) text(key string) (value, of string) {
	named := prefix + r.container + "." + key[len(prefix):]
	if value, ok := r.pod.Annotations[named]; ok || r.own {
		return value, named
	}
	return r.pod.Annotations[key], key
}

func (r *reader) said(key string) bool {
	value, _ := r.text(key)
	return value != ""
}

// duration returns the value of an annotation. endless is the word for a time without an end.
func (r *reader) duration(key, endless string, standard time.Duration) time.Duration {
	value, of := r.text(key)
	switch value {
	case "":
		return standard
	case endless:
		return fake.Never
	}
	d, err := time.ParseDuration(value)
	if (err != nil || d < 0) && r.err == nil {
		r.err = fmt.Errorf("annotation %s: %q: want a duration such as 30s, or %s", of, value, endless)
	}
	if key == AnnotationRuns {
		d = max(d, fake.AtOnce)
	}
	return d
}

func (r *reader) number(key string, most int) int {
	value, of := r.text(key)
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	if (err != nil || n < 0 || n > most) && r.err == nil {
		r.err = fmt.Errorf("annotation %s: %q: want a number from 0 to %d", of, value, most)
	}
	return n
}

// admit refuses a pod with an annotation that no script can honour.
func admit(pod *v1.Pod) []admission.Failure {
	refuse := func(all []v1.Container, group runtime.Group) []admission.Failure {
		for i := range all {
			if _, err := scriptOf(pod, &all[i], group, 0); err != nil {
				return []admission.Failure{{Reason: "SimulationScript", Message: err.Error()}}
			}
		}
		return nil
	}
	if failures := refuse(pod.Spec.InitContainers, runtime.GroupInit); failures != nil {
		return failures
	}
	return refuse(pod.Spec.Containers, runtime.GroupRegular)
}

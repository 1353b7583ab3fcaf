// SPDX-License-Identifier: Apache-2.0

// Package simkube reads traces of SimKube, version 2: a MessagePack file with the objects that were
// applied to a cluster, and the lifecycles of their pods.
//
//	trace, err := simkube.Read(file, "trace.sktrace")
//	options.Workload = trace.Pods
//
// Each replica of an object is a pod with the template of the object, from the instant of the
// application on. The n-th pod of an object lives as long as its n-th recorded pod, again from the
// first pod on after the last. A pod without a recorded end runs on.
//
// # Not read
//
// Deletions and smaller numbers of replicas end no pod: they are counted in Trace.Ignored, as are
// objects without a known pod template. Known are pods, Deployments, ReplicaSets, StatefulSets and
// Jobs, and the kinds of config.trackedObjects with a podSpecTemplatePath.
package simkube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Trace is the workload of a trace.
type Trace struct {
	// Pods are in order of time. The user is the namespace.
	Pods sim.Arrivals
	// Ignored is the number of changes that the simulation does not follow.
	Ignored int
}

// owner is an object with pods.
type owner struct {
	shape *sim.Shape
	pods  int
}

// importer turns a decoded file into a Trace.
type importer struct {
	trace      *Trace
	lifecycles map[string][]time.Duration // by kind and name; 0: no end
	tracked    any
	owners     map[string]*owner
	first      int64 // epoch second of the first event
}

// Read reads a trace. An error names the byte or the field. name is for error messages.
func Read(r io.Reader, name string) (*Trace, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	in := &reader{data: data}
	file, err := in.value()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if version := field(file, "version"); version != int64(2) {
		return nil, fmt.Errorf("%s: version: %v is not 2", name, version)
	}
	i := &importer{trace: &Trace{}, lifecycles: map[string][]time.Duration{}, tracked: field(file, "config", "trackedObjects"), owners: map[string]*owner{}}
	if err := i.readLifecycles(field(file, "pod_lifecycles")); err != nil {
		return nil, fmt.Errorf("%s: pod_lifecycles: %w", name, err)
	}
	events, ok := field(file, "events").([]any)
	if !ok {
		return nil, fmt.Errorf("%s: events: missing", name)
	}
	last := int64(0)
	for n, e := range events {
		ts, ok := field(e, "ts").(int64)
		if n == 0 {
			i.first, last = ts, ts
		}
		if !ok || ts < last {
			return nil, fmt.Errorf("%s: events[%d].ts: %v is not a second after the event before", name, n, field(e, "ts"))
		}
		last = ts
		if err := i.event(ts, e); err != nil {
			return nil, fmt.Errorf("%s: events[%d].%w", name, n, err)
		}
	}
	return i.trace, nil
}

// readLifecycles reads the lives of pods by owner. The hashes of templates do not count.
func (i *importer) readLifecycles(v any) error {
	entries, _ := v.([]pair)
	for n, e := range entries {
		key, ok := e.key.([]any)
		if !ok || len(key) != 2 {
			return fmt.Errorf("key %d: want the kind and the name of an object", n)
		}
		of := fmt.Sprint(key[0], " ", key[1])
		hashes, _ := e.value.([]pair)
		for _, hash := range hashes {
			lives, _ := hash.value.([]any)
			for k, life := range lives {
				d, err := lifetime(life)
				if err != nil {
					return fmt.Errorf("%s: life %d: %w", of, k, err)
				}
				i.lifecycles[of] = append(i.lifecycles[of], d)
			}
		}
	}
	return nil
}

// lifetime returns the duration of a life; 0: without an end.
func lifetime(v any) (time.Duration, error) {
	if _, runs := field(v, "Running").(int64); runs {
		return 0, nil
	}
	times, ok := field(v, "Finished").([]any)
	if !ok || len(times) != 2 {
		return 0, fmt.Errorf("%v: want Running or Finished with two times", plain(v))
	}
	start, ok1 := times[0].(int64)
	end, ok2 := times[1].(int64)
	if !ok1 || !ok2 || end < start {
		return 0, fmt.Errorf("Finished: %v: want a start and a later end", times)
	}
	return max(time.Second, time.Duration(end-start)*time.Second), nil
}

// event adds the pods of an event.
func (i *importer) event(ts int64, e any) error {
	applied, _ := field(e, "applied_objs").([]any)
	for n, object := range applied {
		if err := i.apply(ts, object); err != nil {
			return fmt.Errorf("applied_objs[%d]: %w", n, err)
		}
	}
	deleted, _ := field(e, "deleted_objs").([]any)
	i.trace.Ignored += len(deleted)
	return nil
}

// apply adds the pods that an object has more than before.
func (i *importer) apply(ts int64, object any) error {
	version, _ := field(object, "apiVersion").(string)
	kind, _ := field(object, "kind").(string)
	name, _ := field(object, "metadata", "name").(string)
	namespace, _ := field(object, "metadata", "namespace").(string)
	if version == "" || kind == "" || name == "" {
		return fmt.Errorf("apiVersion, kind or metadata.name: missing")
	}
	gvk := version + "." + kind
	of := gvk + " " + namespace + "/" + name
	path, count := i.template(gvk)
	if path == nil {
		i.trace.Ignored++
		return nil
	}
	want := int64(1)
	if v := field(object, "spec", count); count != "" && v != nil {
		var ok bool
		if want, ok = v.(int64); !ok || want < 0 || want > 1_000_000 {
			return fmt.Errorf("%s: spec.%s: %v is not a number of pods", of, count, v)
		}
	}
	o := i.owners[of]
	if o == nil {
		o = &owner{}
		i.owners[of] = o
	}
	var err error
	if o.shape, err = shapeOf(field(object, path...)); err != nil {
		return fmt.Errorf("%s: %s: %w", of, cmp.Or(strings.Join(path, "."), "pod"), err)
	}
	if int(want) < o.pods {
		i.trace.Ignored++
	}
	for ; o.pods < int(want); o.pods++ {
		a := sim.Arrival{At: time.Duration(ts-i.first) * time.Second, Name: fmt.Sprintf("%s-%d", name, o.pods), Shape: o.shape, User: namespace}
		if lives := i.lifecycles[of]; len(lives) > 0 {
			a.Duration = lives[o.pods%len(lives)]
		}
		i.trace.Pods = append(i.trace.Pods, a)
	}
	return nil
}

// template returns the path of the pod template of a kind, nil for an unknown kind, and the field of
// the spec with the number of pods.
func (i *importer) template(gvk string) (path []string, count string) {
	switch gvk {
	case "v1.Pod":
		return []string{}, ""
	case "apps/v1.Deployment", "apps/v1.ReplicaSet", "apps/v1.StatefulSet":
		return []string{"spec", "template"}, "replicas"
	case "batch/v1.Job":
		return []string{"spec", "template"}, "completions"
	}
	entry := field(i.tracked, gvk)
	text, _ := field(entry, "podSpecTemplatePath").(string)
	if list, ok := field(entry, "podSpecTemplatePaths").([]any); ok && len(list) == 1 {
		text, _ = list[0].(string)
	}
	if text = strings.Trim(text, "/"); text == "" {
		return nil, ""
	}
	return strings.Split(text, "/"), "replicas"
}

// shapeOf reads a pod or a pod template.
func shapeOf(v any) (*sim.Shape, error) {
	if v == nil {
		return nil, fmt.Errorf("missing")
	}
	text, err := json.Marshal(plain(v))
	if err != nil {
		return nil, err
	}
	pod := &v1.Pod{}
	if err := json.Unmarshal(text, pod); err != nil {
		return nil, err
	}
	if len(pod.Spec.Containers) == 0 {
		return nil, fmt.Errorf("spec.containers: missing")
	}
	return sim.NewShape(pod, sim.GPURequest{})
}

// SPDX-License-Identifier: Apache-2.0

package openb

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// maxPods is the number of pods that a node of the experiment accepts.
const maxPods = 1001

// Pod is a line of a pod list.
type Pod struct {
	Name  string
	Shape *sim.Shape
	QoS   string
	// Phase is the last phase in the trace.
	Phase string
	// Created, Scheduled and Deleted count from the origin of the trace. Scheduled and Deleted are
	// negative if the pod was never scheduled or deleted.
	Created, Scheduled, Deleted time.Duration
}

// table is a CSV file with a header.
type table struct {
	name    string
	csv     *csv.Reader
	columns map[string]int
	record  []string
}

// openTable reads the header. required are the columns that must be there.
func openTable(r io.Reader, name string, required ...string) (*table, error) {
	t := &table{name: name, csv: csv.NewReader(r), columns: map[string]int{}}
	t.csv.ReuseRecord = true
	t.csv.FieldsPerRecord = -1
	header, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:1: the file is empty; want a header with %s", name, strings.Join(required, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i, column := range header {
		t.columns[strings.TrimSpace(strings.TrimPrefix(column, "\ufeff"))] = i
	}
	for _, column := range required {
		if _, has := t.columns[column]; !has {
			return nil, fmt.Errorf("%s:1: the header has no column %q", name, column)
		}
	}
	return t, nil
}

// next reads a line; false at the end of the file.
func (t *table) next() (bool, error) {
	record, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", t.name, err)
	}
	t.record = record
	return true, nil
}

// text returns a field of the present line, "" for a missing column or field.
func (t *table) text(column string) string {
	i, has := t.columns[column]
	if !has || i >= len(t.record) {
		return ""
	}
	return strings.TrimSpace(t.record[i])
}

// errorf returns an error about a column of the present line.
func (t *table) errorf(column, format string, args ...any) error {
	line, _ := t.csv.FieldPos(0)
	return fmt.Errorf("%s:%d: column %s: %s", t.name, line, column, fmt.Sprintf(format, args...))
}

// number returns a field that is not negative; empty is the value of missing.
func (t *table) number(column string, missing int64) (int64, error) {
	text := t.text(column)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, errFloat := strconv.ParseFloat(text, 64) // such as 16.0
		if errFloat != nil || f != float64(int64(f)) {
			return 0, t.errorf(column, "%q is not a whole number", text)
		}
		n = int64(f)
	}
	if n < 0 {
		return 0, t.errorf(column, "%d is negative", n)
	}
	return n, nil
}

// numbers reads several columns.
func (t *table) numbers(columns map[string]*int64) error {
	var errs []error
	for column, to := range columns {
		n, err := t.number(column, *to)
		errs = append(errs, err)
		*to = n
	}
	return errors.Join(errs...)
}

// ReadNodes reads a node list. name is for error messages, which have the form "name:line: …".
func ReadNodes(r io.Reader, name string) ([]*v1.Node, error) {
	t, err := openTable(r, name, "sn", "cpu_milli", "memory_mib", "gpu")
	if err != nil {
		return nil, err
	}
	var nodes []*v1.Node
	seen := map[string]bool{}
	for {
		more, err := t.next()
		if err != nil || !more {
			return nodes, err
		}
		var cpu, memory, gpus int64
		if err := t.numbers(map[string]*int64{"cpu_milli": &cpu, "memory_mib": &memory, "gpu": &gpus}); err != nil {
			return nil, err
		}
		sn := t.text("sn")
		switch {
		case sn == "":
			return nil, t.errorf("sn", "a node needs a name")
		case seen[sn]:
			return nil, t.errorf("sn", "%q is the name of an earlier node", sn)
		case gpus > 1024:
			return nil, t.errorf("gpu", "%d GPUs in a node", gpus)
		}
		seen[sn] = true
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: sn, Labels: map[string]string{v1.LabelHostname: sn}}}
		if model := t.text("model"); model != "" {
			node.Labels[sim.LabelGPUModel] = model
		}
		node.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
			v1.ResourcePods:   *resource.NewQuantity(maxPods, resource.DecimalSI),
			sim.LabelGPUs:     *resource.NewQuantity(gpus, resource.DecimalSI),
		}
		nodes = append(nodes, node)
	}
}

// ReadPods reads a pod list. Only the columns name, cpu_milli, memory_mib, num_gpu and gpu_milli are
// required. Pods with equal requests share a Shape. name is for error messages.
func ReadPods(r io.Reader, name string) ([]Pod, error) {
	t, err := openTable(r, name, "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return nil, err
	}
	var pods []Pod
	shapes := shapes{}
	for {
		more, err := t.next()
		if err != nil || !more {
			return pods, err
		}
		pod, err := t.pod(shapes)
		if err != nil {
			return nil, err
		}
		pods = append(pods, pod)
	}
}

// shapeKey are the requests of a pod.
type shapeKey struct {
	cpu, memory, count, milli int64
	models                    string
}

// shapes are the shapes made so far.
type shapes map[shapeKey]*sim.Shape

// pod reads the present line.
func (t *table) pod(known shapes) (Pod, error) {
	key := shapeKey{models: t.text("gpu_spec")}
	deleted, scheduled, created := int64(-1), int64(-1), int64(0)
	err := t.numbers(map[string]*int64{
		"cpu_milli": &key.cpu, "memory_mib": &key.memory, "num_gpu": &key.count, "gpu_milli": &key.milli,
		"creation_time": &created, "deletion_time": &deleted, "scheduled_time": &scheduled,
	})
	if err != nil {
		return Pod{}, err
	}
	p := Pod{
		Name: t.text("name"), QoS: t.text("qos"), Phase: t.text("pod_phase"),
		Created: seconds(created), Scheduled: seconds(scheduled), Deleted: seconds(deleted),
	}
	if p.Name == "" {
		return Pod{}, t.errorf("name", "a pod needs a name")
	}
	key.milli = min(key.milli, 1000)
	if key.count == 0 {
		key.milli = 0
	}
	if key.count > 1 && key.milli < 1000 {
		return Pod{}, t.errorf("gpu_milli", "%d thousandths of each of %d GPUs: only a single GPU is shared", key.milli, key.count)
	}
	if key.count == 1 && key.milli == 0 {
		return Pod{}, t.errorf("gpu_milli", "a pod with a GPU needs a share of the GPU")
	}
	shape, err := known.of(key)
	if err != nil {
		return Pod{}, t.errorf("num_gpu", "%v", err)
	}
	p.Shape = shape
	return p, nil
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// of returns the shape of a request.
func (s shapes) of(key shapeKey) (*sim.Shape, error) {
	if shape := s[key]; shape != nil {
		return shape, nil
	}
	gpu := sim.GPURequest{Count: int(key.count), Milli: key.milli}
	if key.models != "" {
		gpu.Models = strings.Split(key.models, "|")
	}
	template := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "main", Image: "openb"}}}}
	template.Spec.Containers[0].Resources.Requests = v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(key.cpu, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(key.memory<<20, resource.BinarySI),
	}
	shape, err := sim.NewShape(template, gpu)
	if err == nil {
		s[key] = shape
	}
	return shape, err
}

// SPDX-License-Identifier: Apache-2.0

// Package philly reads the job log of the public trace of Microsoft's GPU clusters "Philly" (2017):
// an array of jobs in JSON, cluster_job_log.
//
//	trace, err := philly.Read(file, "cluster_job_log")
//	options.Workload = trace.Workload(philly.Options{CPUPerGPU: 4})
//
// The trace is in the repository msr-fiddle/philly-traces, and is not a part of this package.
//
// A job needs all of its GPUs at once, for the sum of the durations of its attempts. The GPUs on
// several machines are a gang of equal pods: two machines with 4 and 8 GPUs are three pods with 4
// GPUs. The log has neither CPU nor memory.
package philly

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/examples/simulation/sim"
)

// Trace is a job log.
type Trace struct {
	// Jobs are in order of submission.
	Jobs []Job
	// Skipped is the number of jobs left out: they never ran, or had no GPU, or did not end.
	Skipped int
}

// Job is a job that ran.
type Job struct {
	ID, User, VirtualCluster string
	// Status is Pass, Killed or Failed.
	Status string
	// Submitted counts from the first submission in the log.
	Submitted time.Duration
	// Duration is the sum of all attempts.
	Duration time.Duration
	// Pods pods have GPUs GPUs each.
	Pods, GPUs int
}

// Options describe facts that the log lacks.
type Options struct {
	// CPUPerGPU and MemoryPerGPU are the requests of a pod for each of its GPUs. Default to no request.
	CPUPerGPU    int
	MemoryPerGPU int64 // bytes
}

// record is a job in the file.
type record struct {
	Status    string `json:"status"`
	VC        string `json:"vc"`
	JobID     string `json:"jobid"`
	User      string `json:"user"`
	Submitted stamp  `json:"submitted_time"`
	Attempts  []struct {
		Start  stamp `json:"start_time"`
		End    stamp `json:"end_time"`
		Detail []struct {
			GPUs []string `json:"gpus"`
		} `json:"detail"`
	} `json:"attempts"`
}

// stamp is a time of the log, without a zone. The zero stamp is missing.
type stamp struct{ time.Time }

// UnmarshalJSON reads a time, null or "None".
func (s *stamp) UnmarshalJSON(text []byte) error {
	var value *string
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	if value == nil || *value == "None" || *value == "" {
		return nil
	}
	at, err := time.Parse(time.DateTime, *value)
	if err != nil {
		return fmt.Errorf("%q is not a time like 2017-10-09 07:02:32", *value)
	}
	s.Time = at
	return nil
}

// Read reads a job log. An error names the line of the job and the field. name is for error messages.
func Read(r io.Reader, name string) (*Trace, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
		return nil, fmt.Errorf("%s:1: want an array of jobs", name)
	}
	trace := &Trace{}
	var times []time.Time
	number, counted := 1, 0 // line numbers are counted from the last job on
	for decoder.More() {
		begin := int(decoder.InputOffset())
		number += bytes.Count(text[counted:begin], []byte("\n"))
		counted = begin
		at := number
		for i := begin; i < len(text) && text[i] != '{'; i++ {
			if text[i] == '\n' {
				at++
			}
		}
		var rec record
		if err := decoder.Decode(&rec); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, at, err)
		}
		job, ran, err := rec.job()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s:%d: job %q: %w", name, at, rec.JobID, err)
		case !ran:
			trace.Skipped++
		default:
			trace.Jobs = append(trace.Jobs, job)
			times = append(times, rec.Submitted.Time)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("%s:%d: the array of jobs does not end: %w", name, 1+bytes.Count(text, []byte("\n")), err)
	}
	trace.sort(times)
	return trace, nil
}

// sort brings the jobs in the order of submission, and counts from the first submission.
func (t *Trace) sort(times []time.Time) {
	if len(times) == 0 {
		return
	}
	first := slices.MinFunc(times, time.Time.Compare)
	for i := range t.Jobs {
		t.Jobs[i].Submitted = times[i].Sub(first)
	}
	slices.SortStableFunc(t.Jobs, func(a, b Job) int { return cmp.Compare(a.Submitted, b.Submitted) })
}

// job checks a record and returns its job. The result is false if the job is left out.
func (r *record) job() (Job, bool, error) {
	job := Job{ID: r.JobID, User: r.User, VirtualCluster: r.VC, Status: r.Status}
	switch {
	case r.JobID == "":
		return job, false, fmt.Errorf("jobid: missing")
	case !slices.Contains([]string{"Pass", "Killed", "Failed"}, r.Status):
		return job, false, fmt.Errorf("status: %q is not Pass, Killed or Failed", r.Status)
	case r.Submitted.IsZero():
		return job, false, fmt.Errorf("submitted_time: missing")
	}
	total, size := 0, 0
	for i, a := range r.Attempts {
		if a.Start.IsZero() || a.End.IsZero() {
			continue
		}
		if a.End.Before(a.Start.Time) {
			return job, false, fmt.Errorf("attempts[%d].end_time: before start_time", i)
		}
		job.Duration += a.End.Sub(a.Start.Time)
		if total > 0 {
			continue // the GPUs of the first attempt count
		}
		for _, machine := range a.Detail {
			total += len(machine.GPUs)
			size = divisor(size, len(machine.GPUs))
		}
	}
	if total == 0 || job.Duration == 0 {
		return job, false, nil
	}
	job.Pods, job.GPUs = total/size, size
	return job, true, nil
}

// divisor returns the greatest common divisor. The divisor of 0 and n is n.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Workload returns the jobs as arrivals. The user of a job is its user in the log.
func (t *Trace) Workload(o Options) (sim.Arrivals, error) {
	shapes := map[int]*sim.Shape{}
	arrivals := make(sim.Arrivals, len(t.Jobs))
	for i, j := range t.Jobs {
		shape := shapes[j.GPUs]
		if shape == nil {
			template := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "main", Image: "philly"}}}}
			template.Spec.Containers[0].Resources.Requests = v1.ResourceList{
				v1.ResourceCPU:    *resource.NewQuantity(int64(o.CPUPerGPU*j.GPUs), resource.DecimalSI),
				v1.ResourceMemory: *resource.NewQuantity(o.MemoryPerGPU*int64(j.GPUs), resource.BinarySI),
			}
			var err error
			if shape, err = sim.NewShape(template, sim.GPURequest{Count: j.GPUs, Milli: 1000}); err != nil {
				return nil, fmt.Errorf("job %q: %w", j.ID, err)
			}
			shapes[j.GPUs] = shape
		}
		arrivals[i] = sim.Arrival{At: j.Submitted, Name: j.ID, Shape: shape, Pods: j.Pods, Duration: j.Duration, User: j.User}
	}
	return arrivals, nil
}

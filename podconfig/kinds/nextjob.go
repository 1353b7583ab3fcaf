// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/retry"
)

// JobRecord is the state of a Job. Its JSON is stored.
type JobRecord struct {
	// Started is the start of the Job, zero before and while the Job is suspended.
	Started time.Time `json:"started,omitzero"`
	// Number is the number of the next pod.
	Number int32 `json:"number,omitempty"`
	// Pods are the pods that run or are kept for their logs, in the order of their numbers.
	Pods []JobPod `json:"pods,omitempty"`
	// Succeeded and Failed count the pods that have ended.
	Succeeded int32 `json:"succeeded,omitempty"`
	Failed    int32 `json:"failed,omitempty"`
	// Streak is the number of failures since the last success, and LastFailure the end of the last
	// failed pod.
	Streak      int32     `json:"streak,omitempty"`
	LastFailure time.Time `json:"lastFailure,omitzero"`
	// Indexes are the indexes that have succeeded, sorted.
	Indexes []int32 `json:"indexes,omitempty"`
	// Result is JobComplete or JobFailed for a finished Job, with the words of Kubernetes for the
	// reason.
	Result   JobResult `json:"result,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Message  string    `json:"message,omitempty"`
	Finished time.Time `json:"finished,omitzero"`
}

// JobResult is the result of a Job.
type JobResult string

// Results of a Job.
const (
	JobComplete JobResult = "Complete"
	JobFailed   JobResult = "Failed"
)

// JobPod is a pod of a Job.
type JobPod struct {
	Number int32 `json:"number"`
	// Index is the index of a pod of an Indexed Job.
	Index int32 `json:"index,omitempty"`
	// Phase is Succeeded or Failed for a pod that has ended, and then Finished is the time of the
	// end. Other phases count as running.
	Phase    v1.PodPhase `json:"phase,omitempty"`
	Finished time.Time   `json:"finished,omitzero"`
	// Restarts is the number of restarts of the pod's containers.
	Restarts int32 `json:"restarts,omitempty"`
	// Counted means that the end of the pod is part of the record's counts.
	Counted bool `json:"counted,omitempty"`
}

func (p JobPod) ended() bool { return p.Phase == v1.PodSucceeded || p.Phase == v1.PodFailed }

// Pauses between a failure and the next pod, as in Kubernetes 1.36.
const (
	firstJobPause = 10 * time.Second
	lastJobPause  = 10 * time.Minute
)

// keptPods is the number of ended pods that a Job keeps for their logs.
const keptPods = 10

// NextJob returns the record of a Job after the changes of its pods' phases, with the pods that have to
// run at now. again is the time of the next call without a change, zero for never. NextJob is a pure
// function: it does not change the slices of r.
func NextJob(s *JobSpec, r JobRecord, now time.Time) (next JobRecord, again time.Time) {
	r.Pods, r.Indexes = slices.Clone(r.Pods), slices.Clone(r.Indexes)
	r.count(s, now)
	if r.Result == "" && s.Suspend {
		r.stop()
		r.Started = time.Time{}
		return r, time.Time{}
	}
	if r.Result == "" && r.Started.IsZero() {
		r.Started = now
	}
	if r.Result == "" {
		r.judge(s, now)
	}
	if r.Result != "" {
		r.stop()
		return r.expire(s, now)
	}
	if s.DeadlineSeconds > 0 {
		again = r.Started.Add(time.Duration(s.DeadlineSeconds) * time.Second)
	}
	if ready := r.fill(s, now); !ready.IsZero() && (again.IsZero() || ready.Before(again)) {
		again = ready
	}
	r.trim()
	return r, again
}

// count adds the pods that have ended since the last call to the counts.
func (r *JobRecord) count(s *JobSpec, now time.Time) {
	for i := range r.Pods {
		p := &r.Pods[i]
		if p.Counted || !p.ended() {
			continue
		}
		p.Counted = true
		if p.Finished.IsZero() || p.Finished.After(now) {
			p.Finished = now
		}
		if p.Phase == v1.PodFailed {
			r.Failed++
			r.Streak++
			if p.Finished.After(r.LastFailure) {
				r.LastFailure = p.Finished
			}
			continue
		}
		r.Streak = 0
		if at, have := slices.BinarySearch(r.Indexes, p.Index); s.Indexed && !have {
			r.Indexes = slices.Insert(r.Indexes, at, p.Index)
		} else if s.Indexed {
			continue // a second success of an index
		}
		r.Succeeded++
	}
}

// judge sets the result of the Job, if the Job is complete or has failed.
func (r *JobRecord) judge(s *JobSpec, now time.Time) {
	restarts := int32(0)
	for _, p := range r.Pods {
		if !p.ended() {
			restarts += p.Restarts
		}
	}
	deadline := r.Started.Add(time.Duration(s.DeadlineSeconds) * time.Second)
	switch {
	case s.Completions != nil && r.Succeeded >= *s.Completions, s.Completions == nil && r.Succeeded > 0 && r.active() == 0:
		r.Result, r.Reason, r.Message = JobComplete, "CompletionsReached", fmt.Sprintf("%d pods have succeeded", r.Succeeded)
	case r.Failed > s.BackoffLimit, restarts > 0 && restarts >= max(s.BackoffLimit, 1):
		r.Result, r.Reason, r.Message = JobFailed, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
	case s.DeadlineSeconds > 0 && !now.Before(deadline):
		r.Result, r.Reason, r.Message = JobFailed, "DeadlineExceeded", "Job was active longer than specified deadline"
	default:
		return
	}
	r.Finished = now
}

// stop leaves out the pods that run.
func (r *JobRecord) stop() {
	r.Pods = slices.DeleteFunc(r.Pods, func(p JobPod) bool { return !p.ended() })
}

// expire removes the pods of a finished Job when its time is over.
func (r *JobRecord) expire(s *JobSpec, now time.Time) (JobRecord, time.Time) {
	r.trim()
	if s.TTLSeconds == nil || len(r.Pods) == 0 {
		return *r, time.Time{}
	}
	if end := r.Finished.Add(time.Duration(*s.TTLSeconds) * time.Second); now.Before(end) {
		return *r, end
	}
	r.Pods = nil
	return *r, time.Time{}
}

// fill adds or removes pods, and returns the time until which new pods wait after a failure.
func (r *JobRecord) fill(s *JobSpec, now time.Time) (ready time.Time) {
	active := r.active()
	want := s.Parallelism
	switch {
	case s.Completions != nil:
		want = min(want, *s.Completions-r.Succeeded)
	case r.Succeeded > 0:
		want = min(want, active)
	}
	for i := len(r.Pods) - 1; i >= 0 && active > want; i-- {
		if !r.Pods[i].ended() {
			r.Pods = slices.Delete(r.Pods, i, i+1)
			active--
		}
	}
	if active >= want {
		return time.Time{}
	}
	if r.Streak > 0 {
		if ready = r.LastFailure.Add(retry.Backoff(int(r.Streak), firstJobPause, lastJobPause, 0)); now.Before(ready) {
			return ready
		}
	}
	for ; active < want; active++ {
		p := JobPod{Number: r.Number}
		if s.Indexed {
			p.Index = r.freeIndex()
		}
		r.Number++
		r.Pods = append(r.Pods, p)
	}
	return time.Time{}
}

func (r *JobRecord) active() int32 {
	return int32(len(r.Pods) - countOf(r.Pods, JobPod.ended))
}

// freeIndex returns the lowest index that has neither succeeded nor a running pod.
func (r *JobRecord) freeIndex() int32 {
	for i := int32(0); ; i++ {
		_, done := slices.BinarySearch(r.Indexes, i)
		if !done && !slices.ContainsFunc(r.Pods, func(p JobPod) bool { return !p.ended() && p.Index == i }) {
			return i
		}
	}
}

// trim forgets the oldest of more than keptPods ended pods.
func (r *JobRecord) trim() {
	r.Pods = keepLast(r.Pods, keptPods, JobPod.ended)
}

func countOf[T any](list []T, is func(T) bool) (n int) {
	for _, element := range list {
		if is(element) {
			n++
		}
	}
	return n
}

// keepLast removes the first of more than n elements for which is returns true.
func keepLast[T any](list []T, n int, is func(T) bool) []T {
	extra := countOf(list, is) - n
	return slices.DeleteFunc(list, func(element T) bool {
		if extra <= 0 || !is(element) {
			return false
		}
		extra--
		return true
	})
}

// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"slices"
	"time"
)

// CronRecord is the state of a CronJob. Its JSON is stored.
type CronRecord struct {
	// Created is the time at which the CronJob was first seen.
	Created time.Time `json:"created,omitzero"`
	// LastSchedule is the time of the schedule of the last Job.
	LastSchedule time.Time `json:"lastSchedule,omitzero"`
	// LastMissed is the last missed time of the schedule, so that each missed time is reported
	// once.
	LastMissed time.Time `json:"lastMissed,omitzero"`
	// Waits is the time of a Job that waits for the end of another Job (ConcurrencyForbid).
	Waits time.Time `json:"waits,omitzero"`
	// Jobs are the Jobs that run or are kept, the oldest first.
	Jobs []CronChild `json:"jobs,omitempty"`
}

// CronChild is a Job of a CronJob.
type CronChild struct {
	Scheduled time.Time `json:"scheduled"`
	// Job is the template at the time of the start, with the name of this Job.
	Job    *Job      `json:"job"`
	Record JobRecord `json:"record"`
}

// CronEvent is an event of a CronJob, with the words of Kubernetes.
type CronEvent struct {
	Reason, Message string
	Warning         bool
}

// manyMissed is the number of missed times above which Kubernetes warns.
const manyMissed = 100

// NextCron returns the record of a CronJob at now, with the Jobs that have to exist. again is the time
// of the next call without a change of the Jobs, zero for never. NextCron is a pure function: it does
// not change the slices of r.
//
// As in Kubernetes 1.36, only the last of several missed times is run.
func NextCron(c *CronJob, r CronRecord, now time.Time) (next CronRecord, events []CronEvent, again time.Time) {
	r.Jobs = slices.Clone(r.Jobs)
	if r.Created.IsZero() {
		r.Created = now
	}
	r.forget(c)
	schedule, err := ParseSchedule(c.Spec.Schedule)
	zone, zoneErr := location(c.Spec.TimeZone)
	if err != nil || zoneErr != nil || c.Spec.Suspend {
		return r, nil, time.Time{} // an Expander has refused other schedules and time zones
	}
	now = now.In(zone)
	due, missed := lastDue(schedule, r.earliest(c, now).In(zone), now)
	again = schedule.Next(now)
	if again.IsZero() {
		events = append(events, CronEvent{Reason: "InvalidSchedule", Message: "the schedule has no next time", Warning: true})
	}
	if missed > manyMissed {
		events = append(events, CronEvent{Reason: "TooManyMissedTimes", Warning: true,
			Message: "more than 100 start times were missed; the last of them counts"})
	}
	if due.IsZero() {
		return r, events, again
	}
	if d := c.Spec.StartingDeadlineSeconds; d != nil && now.After(due.Add(time.Duration(*d)*time.Second)) {
		if !r.LastMissed.Equal(due) {
			r.LastMissed = due
			events = append(events, CronEvent{Reason: "MissSchedule", Warning: true,
				Message: "missed scheduled time to start a job: " + due.Format(time.RFC1123Z)})
		}
		return r, events, again
	}
	if c.Spec.Concurrency == ConcurrencyForbid && slices.ContainsFunc(r.Jobs, CronChild.runs) {
		if !r.Waits.Equal(due) {
			r.Waits = due
			events = append(events, CronEvent{Reason: "JobAlreadyActive", Message: "not starting a job because the job before runs and concurrency is Forbid"})
		}
		return r, events, again
	}
	if c.Spec.Concurrency == ConcurrencyReplace {
		r.Jobs = slices.DeleteFunc(r.Jobs, CronChild.runs)
	}
	child := c.child(due)
	r.Jobs = append(r.Jobs, child)
	r.LastSchedule, r.Waits = due, time.Time{}
	events = append(events, CronEvent{Reason: "SuccessfulCreate", Message: "created job " + child.Job.Name})
	return r, events, again
}

// earliest returns the time after which times of the schedule count.
func (r *CronRecord) earliest(c *CronJob, now time.Time) time.Time {
	from := r.Created
	if r.LastSchedule.After(from) {
		from = r.LastSchedule
	}
	if d := c.Spec.StartingDeadlineSeconds; d != nil {
		if cut := now.Add(-time.Duration(*d) * time.Second); cut.After(from) {
			from = cut.Add(-time.Nanosecond)
		}
	}
	return from
}

// lastDue returns the last scheduled time after from and not after now, or zero. count is the number of
// these times, exact up to manyMissed.
func lastDue(s Schedule, from, now time.Time) (due time.Time, count int) {
	for t := s.Next(from); !t.IsZero() && !t.After(now); t = s.Next(t) {
		due = t
		if count++; count <= manyMissed {
			continue
		}
		// Look back over growing times instead of each of a million times since a clock of 1970.
		for back := time.Hour; ; back *= 4 {
			near := now.Add(-back)
			if !near.After(t) {
				break
			}
			if last := s.Next(near); !last.IsZero() && !last.After(now) {
				t = last
				due = last
				break
			}
		}
	}
	return due, count
}

// child returns the Job of a time of the schedule. The name is Kubernetes' name for the time, so
// that a time has at most one Job.
func (c *CronJob) child(due time.Time) CronChild {
	job := *c.Job
	job.Name = fmt.Sprintf("%s-%d", c.Name, due.Unix()/60)
	return CronChild{Scheduled: due, Job: &job}
}

func (j CronChild) runs() bool { return j.Record.Result == "" }

// forget removes the oldest finished Jobs above the numbers to keep.
func (r *CronRecord) forget(c *CronJob) {
	for result, keep := range map[JobResult]int32{JobComplete: c.Spec.KeepSucceeded, JobFailed: c.Spec.KeepFailed} {
		r.Jobs = keepLast(r.Jobs, int(keep), func(j CronChild) bool { return j.Record.Result == result })
	}
}

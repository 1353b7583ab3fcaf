// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CronJob is a CronJob of a manifest. Its JSON is carried from an Expander to a Controller.
type CronJob struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Spec      CronSpec `json:"spec"`
	// Job is the Job of the template, with the name of the CronJob.
	Job *Job `json:"job"`
}

// CronSpec has the fields of a CronJob's spec that NextCron reads, with the defaults of batch/v1.
type CronSpec struct {
	// Schedule is checked by ParseSchedule.
	Schedule string `json:"schedule"`
	// TimeZone is the name of a time zone. "" is the time zone of the node.
	TimeZone string `json:"timeZone,omitempty"`
	// StartingDeadlineSeconds is the largest delay of a start. Nil is no limit.
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// Concurrency is ConcurrencyAllow, ConcurrencyForbid or ConcurrencyReplace.
	Concurrency Concurrency `json:"concurrency"`
	// Suspend starts no Job.
	Suspend bool `json:"suspend,omitempty"`
	// KeepSucceeded and KeepFailed are the numbers of finished Jobs that keep their pods.
	KeepSucceeded int32 `json:"keepSucceeded"`
	KeepFailed    int32 `json:"keepFailed"`
}

// Concurrency is the policy for a Job that still runs at the time of the next Job.
type Concurrency string

// The values of Concurrency.
const (
	ConcurrencyAllow   Concurrency = "Allow"
	ConcurrencyForbid  Concurrency = "Forbid"
	ConcurrencyReplace Concurrency = "Replace"
)

// cronSpec is the spec of a CronJob as in a manifest.
type cronSpec struct {
	Schedule          string  `json:"schedule"`
	TimeZone          *string `json:"timeZone"`
	StartingDeadline  *int64  `json:"startingDeadlineSeconds"`
	ConcurrencyPolicy string  `json:"concurrencyPolicy"`
	Suspend           bool    `json:"suspend"`
	KeepSucceeded     *int32  `json:"successfulJobsHistoryLimit"`
	KeepFailed        *int32  `json:"failedJobsHistoryLimit"`
	JobTemplate       struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     jobSpec           `json:"spec"`
	} `json:"jobTemplate"`
}

func (e *expansion) addCronJob() {
	var c object[cronSpec]
	if !e.decode(&c) || !e.name(&c.Metadata, maxCronName) {
		return
	}
	s, field, text := &c.Spec, "", ""
	spec := CronSpec{Schedule: s.Schedule, StartingDeadlineSeconds: s.StartingDeadline, Suspend: s.Suspend,
		Concurrency: Concurrency(s.ConcurrencyPolicy), KeepSucceeded: 3, KeepFailed: 1}
	spec.Concurrency = cmp.Or(spec.Concurrency, ConcurrencyAllow)
	for _, history := range []struct{ from, to *int32 }{{s.KeepSucceeded, &spec.KeepSucceeded}, {s.KeepFailed, &spec.KeepFailed}} {
		if history.from != nil {
			*history.to = max(*history.from, 0)
		}
	}
	if s.TimeZone != nil {
		spec.TimeZone = *s.TimeZone
		if _, err := location(spec.TimeZone); err != nil || spec.TimeZone == "" {
			field, text = "spec.timeZone", "unknown time zone on this node: want a name such as Europe/Berlin, and the tzdata package"
		}
	}
	if _, err := ParseSchedule(s.Schedule); err != nil {
		field, text = "spec.schedule", err.Error()
	}
	switch {
	case !slices.Contains([]Concurrency{ConcurrencyAllow, ConcurrencyForbid, ConcurrencyReplace}, spec.Concurrency):
		field, text = "spec.concurrencyPolicy", "want Allow, Forbid or Replace"
	case s.StartingDeadline != nil && *s.StartingDeadline < 0:
		field, text = "spec.startingDeadlineSeconds", "must not be negative"
	}
	if field != "" {
		e.refuse(field, text)
		return
	}
	meta := metav1.ObjectMeta{Namespace: c.Metadata.Namespace, Name: c.Metadata.Name}
	job := e.job(&meta, &s.JobTemplate.Spec, "spec.jobTemplate.spec", []string{"spec", "jobTemplate"})
	if job != nil {
		e.set.CronJobs = append(e.set.CronJobs, &CronJob{Namespace: meta.Namespace, Name: meta.Name, Spec: spec, Job: job})
	}
}

// location returns a time zone of the node.
func location(name string) (*time.Location, error) {
	if name == "" {
		return time.Local, nil
	}
	return time.LoadLocation(name)
}

// Schedule says when the Jobs of a CronJob start.
type Schedule interface {
	// Next returns the first scheduled time after t, in the time zone of t. The result is zero if the
	// schedule has no time within five years.
	Next(t time.Time) time.Time
}

// ParseSchedule parses a schedule of five fields, or "@hourly", "@every 2h" and the like.
func ParseSchedule(text string) (Schedule, error) {
	switch {
	case text == "":
		return nil, fmt.Errorf("Required value: for example %q", "*/10 * * * *")
	case len(text) > maxSchedule:
		return nil, fmt.Errorf("longer than %d characters", maxSchedule)
	case strings.Contains(text, "TZ"):
		return nil, fmt.Errorf("no TZ in a schedule: use the field timeZone")
	}
	s, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("want five fields such as %q: %w", "*/10 * * * *", err)
	}
	return s, nil
}

// maxSchedule limits the length of a schedule.
const maxSchedule = 256

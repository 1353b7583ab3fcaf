// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig/kinds"
)

func cronJob(schedule string, change func(*kinds.CronSpec)) *kinds.CronJob {
	c := &kinds.CronJob{Namespace: "default", Name: "c", Job: &kinds.Job{Namespace: "default", Name: "c"},
		Spec: kinds.CronSpec{Schedule: schedule, Concurrency: kinds.ConcurrencyAllow, KeepSucceeded: 3, KeepFailed: 1}}
	if change != nil {
		change(&c.Spec)
	}
	c.Spec.TimeZone = "UTC"
	return c
}

func names(r kinds.CronRecord) (all []string) {
	for _, j := range r.Jobs {
		all = append(all, j.Job.Name+string(j.Record.Result))
	}
	return all
}

func reasons(events []kinds.CronEvent) (all []string) {
	for _, e := range events {
		all = append(all, e.Reason)
	}
	return all
}

func TestNextCron(t *testing.T) {
	hourly := "0 * * * *"
	seconds := func(n int64) func(*kinds.CronSpec) { return func(s *kinds.CronSpec) { s.StartingDeadlineSeconds = &n } }
	policy := func(p kinds.Concurrency) func(*kinds.CronSpec) { return func(s *kinds.CronSpec) { s.Concurrency = p } }
	running := kinds.CronChild{Scheduled: noon, Job: &kinds.Job{Name: "before"}}
	tests := []struct {
		name   string
		cron   *kinds.CronJob
		record kinds.CronRecord
		now    time.Time
		jobs   []string
		events []string
		again  time.Time
	}{
		{"not yet", cronJob(hourly, nil), kinds.CronRecord{}, noon.Add(time.Minute), nil, nil, noon.Add(time.Hour)},
		{"created at the time", cronJob(hourly, nil), kinds.CronRecord{}, noon, nil, nil, noon.Add(time.Hour)},
		{"due", cronJob(hourly, nil), kinds.CronRecord{Created: noon.Add(-time.Minute)}, noon, []string{"c-29671920"}, []string{"SuccessfulCreate"}, noon.Add(time.Hour)},
		{"once", cronJob(hourly, nil), kinds.CronRecord{Created: noon.Add(-time.Minute), LastSchedule: noon}, noon.Add(time.Second), nil, nil, noon.Add(time.Hour)},
		{"the last of some missed", cronJob(hourly, nil), kinds.CronRecord{Created: noon.Add(-5 * time.Hour)}, noon.Add(time.Minute), []string{"c-29671920"}, []string{"SuccessfulCreate"}, noon.Add(time.Hour)},
		{"the last of many missed", cronJob(hourly, nil), kinds.CronRecord{Created: noon.AddDate(-1, 0, 0)}, noon, []string{"c-29671920"}, []string{"TooManyMissedTimes", "SuccessfulCreate"}, noon.Add(time.Hour)},
		{"clock from 1970", cronJob("* * * * *", nil), kinds.CronRecord{Created: time.Unix(100, 0)}, noon, []string{"c-29671920"}, []string{"TooManyMissedTimes", "SuccessfulCreate"}, noon.Add(time.Minute)},
		{"every", cronJob("@every 2h", nil), kinds.CronRecord{Created: noon.Add(-5 * time.Hour)}, noon, []string{"c-29671860"}, []string{"SuccessfulCreate"}, noon.Add(2 * time.Hour)},
		{"31 February", cronJob("0 0 31 2 *", nil), kinds.CronRecord{Created: noon}, noon.Add(time.Hour), nil, []string{"InvalidSchedule"}, time.Time{}},
		{"too late", cronJob(hourly, seconds(10)), kinds.CronRecord{Created: noon.Add(-time.Hour)}, noon.Add(11 * time.Second), nil, nil, noon.Add(time.Hour)},
		{"not too late", cronJob(hourly, seconds(10)), kinds.CronRecord{Created: noon.Add(-time.Hour)}, noon.Add(10 * time.Second), []string{"c-29671920"}, []string{"SuccessfulCreate"}, noon.Add(time.Hour)},
		{"suspended", cronJob(hourly, func(s *kinds.CronSpec) { s.Suspend = true }), kinds.CronRecord{Created: noon.Add(-time.Hour)}, noon, nil, nil, time.Time{}},
		{"allowed beside another", cronJob(hourly, policy(kinds.ConcurrencyAllow)), kinds.CronRecord{Created: noon.Add(-time.Hour), Jobs: []kinds.CronChild{running}}, noon,
			[]string{"before", "c-29671920"}, []string{"SuccessfulCreate"}, noon.Add(time.Hour)},
		{"forbidden beside another", cronJob(hourly, policy(kinds.ConcurrencyForbid)), kinds.CronRecord{Created: noon.Add(-time.Hour), Jobs: []kinds.CronChild{running}}, noon,
			[]string{"before"}, []string{"JobAlreadyActive"}, noon.Add(time.Hour)},
		{"in the place of another", cronJob(hourly, policy(kinds.ConcurrencyReplace)), kinds.CronRecord{Created: noon.Add(-time.Hour), Jobs: []kinds.CronChild{running}}, noon,
			[]string{"c-29671920"}, []string{"SuccessfulCreate"}, noon.Add(time.Hour)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, events, again := kinds.NextCron(tt.cron, tt.record, tt.now)
			assert.Equal(t, tt.jobs, names(r))
			assert.Equal(t, tt.events, reasons(events))
			assert.True(t, tt.again.Equal(again), "again at %s", again)
			if len(tt.jobs) > 0 {
				same, events, _ := kinds.NextCron(tt.cron, r, tt.now.Add(time.Second))
				assert.Equal(t, r, same, "no second Job for the same time")
				assert.Empty(t, events)
			}
		})
	}
}

// A Job that was forbidden starts when the Job before it has ended.
func TestForbiddenJobStartsLater(t *testing.T) {
	c := cronJob("0 * * * *", func(s *kinds.CronSpec) { s.Concurrency = kinds.ConcurrencyForbid })
	r, _, _ := kinds.NextCron(c, kinds.CronRecord{Created: noon.Add(-time.Minute)}, noon)
	r, _, _ = kinds.NextCron(c, r, noon.Add(time.Hour))
	require.Equal(t, []string{"c-29671920"}, names(r))
	r.Jobs[0].Record.Result = kinds.JobComplete
	r, _, _ = kinds.NextCron(c, r, noon.Add(70*time.Minute))
	assert.Equal(t, []string{"c-29671920Complete", "c-29671980"}, names(r))
}

func TestFinishedJobsAreForgotten(t *testing.T) {
	c := cronJob("0 * * * *", func(s *kinds.CronSpec) { s.KeepSucceeded, s.KeepFailed = 1, 0 })
	r := kinds.CronRecord{Created: noon}
	for _, result := range []kinds.JobResult{kinds.JobComplete, kinds.JobFailed, kinds.JobComplete, ""} {
		r.Jobs = append(r.Jobs, kinds.CronChild{Job: &kinds.Job{Name: "j"}, Record: kinds.JobRecord{Result: result}})
	}
	r, _, _ = kinds.NextCron(c, r, noon)
	assert.Equal(t, []string{"jComplete", "j"}, names(r))
}

// A local time that summer time skips has no Job on that day, and a time that comes twice has two, as in Kubernetes.
func TestSummerTime(t *testing.T) {
	c := cronJob("30 2 * * *", nil)
	c.Spec.TimeZone = "Europe/Berlin"
	count := func(day time.Time) (n int) {
		r := kinds.CronRecord{Created: day, LastSchedule: day}
		for at := day; at.Before(day.Add(23 * time.Hour)); at = at.Add(time.Minute) {
			var events []kinds.CronEvent
			r, events, _ = kinds.NextCron(c, r, at)
			n += len(events)
		}
		return n
	}
	if _, err := time.LoadLocation("Europe/Berlin"); err != nil {
		t.Skip("no time zones here: ", err)
	}
	assert.Equal(t, 0, count(time.Date(2026, 3, 28, 23, 30, 0, 0, time.UTC)), "2:30 is skipped")
	assert.Equal(t, 2, count(time.Date(2026, 10, 24, 22, 30, 0, 0, time.UTC)), "2:30 comes twice")
	assert.Equal(t, 1, count(time.Date(2026, 6, 24, 22, 30, 0, 0, time.UTC)))
}

// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// decide carries out NextJob and NextCron for all Jobs and CronJobs of the manifests, stores the records,
// and returns the pods that have to exist. If the records cannot be stored, the earlier records and pods
// stay.
func (k *keeper) decide() (pods []*v1.Pod) {
	now := time.Now().Round(0) // the wall clock, which may be set
	k.again = time.Time{}
	k.mu.Lock()
	set := k.mu.set
	k.mu.Unlock()
	state := recordsOf{Jobs: map[string]savedJob{}, Crons: map[string]CronRecord{}}
	var results []func()
	for _, job := range set.Jobs {
		key := job.Namespace + "/" + job.Name
		had := k.records.state.Jobs[key]
		if had.Template != job.Pod.UID {
			had = savedJob{Template: job.Pod.UID} // another template is another Job
		}
		saved := savedJob{Template: job.Pod.UID, Record: k.next(job, had.Record, now)}
		state.Jobs[key] = saved
		results = append(results, k.result(job, had.Record, saved.Record))
	}
	for _, cron := range set.CronJobs {
		key := cron.Namespace + "/" + cron.Name
		record, events := k.nextCron(cron, k.records.state.Crons[key], now)
		state.Crons[key] = record
		results = append(results, events...)
	}
	if err := k.records.save(state); err != nil {
		k.controller.Logger.Error("records of Jobs not stored; they are stored again in 10 s", zap.Error(err))
		k.wake(now.Add(saveRetry))
	} else {
		for _, tell := range results {
			tell()
		}
	}
	for _, job := range set.Jobs {
		pods = append(pods, podsOf(job, k.records.state.Jobs[job.Namespace+"/"+job.Name].Record)...)
	}
	for _, cron := range set.CronJobs {
		for _, child := range k.records.state.Crons[cron.Namespace+"/"+cron.Name].Jobs {
			pods = append(pods, podsOf(child.Job, child.Record)...)
		}
	}
	return pods
}

// wake makes Run call step at a time.
func (k *keeper) wake(at time.Time) {
	if !at.IsZero() && (k.again.IsZero() || at.Before(k.again)) {
		k.again = at
	}
}

// next returns the next record of a Job.
func (k *keeper) next(job *Job, r JobRecord, now time.Time) JobRecord {
	c := k.controller
	c.mu.Lock()
	pods := make([]JobPod, len(r.Pods))
	for i, p := range r.Pods {
		if f, ok := c.mu.facts[podUID(job, p.Number)]; ok && !p.ended() {
			p.Phase, p.Restarts, p.Finished = f.phase, f.again, f.ended.Round(0)
		}
		pods[i] = p
	}
	c.mu.Unlock()
	r.Pods = pods
	r, again := NextJob(&job.Spec, r, now)
	k.wake(again)
	return r
}

// result returns the report of a Job that has finished.
func (k *keeper) result(job *Job, before, now JobRecord) func() {
	return func() {
		if before.Result != "" || now.Result == "" {
			return
		}
		kind, reason := v1.EventTypeNormal, "Completed"
		if now.Result == JobFailed {
			kind, reason = v1.EventTypeWarning, now.Reason
		}
		k.controller.Logger.Info("job finished", zap.String("namespace", job.Namespace), zap.String("job", job.Name),
			zap.String("result", string(now.Result)), zap.String("reason", now.Reason), zap.String("message", now.Message))
		if len(now.Pods) > 0 {
			k.controller.Event(podOf(job, now.Pods[len(now.Pods)-1]), kind, reason, now.Message)
		}
	}
}

// nextCron returns the next record of a CronJob, and the reports of its events.
func (k *keeper) nextCron(cron *CronJob, r CronRecord, now time.Time) (CronRecord, []func()) {
	var reports []func()
	for pass := range 2 { // the result of a Job may let the next start, whose pods are decided about then
		jobs := make([]CronChild, len(r.Jobs))
		for i, child := range r.Jobs {
			had := child.Record
			child.Record = k.next(child.Job, had, now)
			reports = append(reports, k.result(child.Job, had, child.Record))
			jobs[i] = child
		}
		r.Jobs = jobs
		if pass > 0 {
			break
		}
		if !k.clockIsSane(r, now) {
			k.wake(now.Add(saveRetry))
			break
		}
		next, events, again := NextCron(cron, r, now)
		r = next
		if !again.IsZero() {
			if again = again.Add(cronLag); again.After(now.Add(clockCheck)) {
				again = now.Add(clockCheck)
			}
			k.wake(again)
		}
		for _, e := range events {
			reports = append(reports, func() {
				k.controller.Logger.Info("cronjob", zap.String("namespace", cron.Namespace), zap.String("cronjob", cron.Name),
					zap.String("reason", e.Reason), zap.String("message", e.Message))
			})
		}
	}
	return r, reports
}

// cronLag is the time after a time of a schedule at which its Job is started, as in Kubernetes.
const cronLag = 100 * time.Millisecond

// clockIsSane reports whether the clock can be right.
func (k *keeper) clockIsSane(r CronRecord, now time.Time) bool {
	return !now.Before(k.controller.Earliest) && !now.Before(r.Created) && !now.Before(r.LastSchedule)
}

// podsOf returns the pods of a Job that have to exist. An ended pod keeps its phase, so that the
// node does not run the pod again.
func podsOf(job *Job, r JobRecord) (pods []*v1.Pod) {
	for _, p := range r.Pods {
		pods = append(pods, podOf(job, p))
	}
	return pods
}

// podOf returns a pod of a Job.
func podOf(job *Job, p JobPod) *v1.Pod {
	pod := job.Pod.DeepCopy()
	suffix := strings.TrimPrefix(pod.Name, pod.Labels[LabelJobName])
	pod.Name = fmt.Sprintf("%s-%d%s", job.Name, p.Number, suffix)
	pod.UID = podUID(job, p.Number)
	pod.Labels[LabelJobName], pod.Labels["job-name"] = job.Name, job.Name
	if p.ended() {
		pod.Status.Phase = p.Phase
	}
	if !job.Spec.Indexed {
		return pod
	}
	index := strconv.Itoa(int(p.Index))
	const indexName = "batch.kubernetes.io/job-completion-index"
	pod.Labels[indexName] = index
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[indexName] = index
	pod.Spec.Hostname = cmp.Or(pod.Spec.Hostname, job.Name+"-"+index)
	for c := range podfacts.Containers(&pod.Spec) {
		c.Env = append(c.Env, v1.EnvVar{Name: "JOB_COMPLETION_INDEX", Value: index})
	}
	return pod
}

// podUID returns the UID of a pod of a Job.
func podUID(job *Job, number int32) types.UID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", job.Pod.UID, job.Name, number))
	return types.UID(hex.EncodeToString(sum[:16]))
}

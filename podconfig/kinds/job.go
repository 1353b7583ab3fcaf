// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/podconfig/manifest"
)

// Job is a Job of a manifest. Its JSON is stored in the records of a Controller.
type Job struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Spec      JobSpec `json:"spec"`
	// Pod is the pod of the template. The pods of the Job have the name of the Job and a number.
	Pod *v1.Pod `json:"pod"`
}

// JobSpec has the fields of a Job's spec that NextJob reads, with the defaults of batch/v1.
type JobSpec struct {
	// Parallelism is the largest number of pods that run at a time.
	Parallelism int32 `json:"parallelism"`
	// Completions is the number of pods that have to succeed. With nil, the success of any pod lets
	// the others end by themselves.
	Completions *int32 `json:"completions,omitempty"`
	// BackoffLimit is the number of failures that are accepted.
	BackoffLimit int32 `json:"backoffLimit"`
	// DeadlineSeconds limits the time of the Job. 0 is no limit.
	DeadlineSeconds int64 `json:"deadlineSeconds,omitempty"`
	// TTLSeconds is the time after which the pods of a finished Job are removed. Nil is never.
	TTLSeconds *int32 `json:"ttlSeconds,omitempty"`
	// Indexed gives each pod an index below Completions.
	Indexed bool `json:"indexed,omitempty"`
	// Suspend stops the pods.
	Suspend bool `json:"suspend,omitempty"`
}

// jobSpec is the spec of a Job as in a manifest.
type jobSpec struct {
	Parallelism    *int32             `json:"parallelism"`
	Completions    *int32             `json:"completions"`
	BackoffLimit   *int32             `json:"backoffLimit"`
	Deadline       *int64             `json:"activeDeadlineSeconds"`
	TTL            *int32             `json:"ttlSecondsAfterFinished"`
	CompletionMode string             `json:"completionMode"`
	Suspend        bool               `json:"suspend"`
	Template       v1.PodTemplateSpec `json:"template"`
	ManagedBy      string             `json:"managedBy"`
	ManualSelector bool               `json:"manualSelector"`

	Selector             json.RawMessage `json:"selector"`
	PodFailurePolicy     json.RawMessage `json:"podFailurePolicy"`
	SuccessPolicy        json.RawMessage `json:"successPolicy"`
	BackoffLimitPerIndex json.RawMessage `json:"backoffLimitPerIndex"`
	MaxFailedIndexes     json.RawMessage `json:"maxFailedIndexes"`
	PodReplacementPolicy string          `json:"podReplacementPolicy"`
}

// maxJobName leaves room for the number of a pod, and in a CronJob for the time.
const maxJobName, maxCronName = 63, 52

const managedByBuiltIn = "kubernetes.io/job-controller"

func (e *expansion) addJob() {
	var j object[jobSpec]
	if !e.decode(&j) || !e.name(&j.Metadata, maxJobName) {
		return
	}
	if job := e.job(&j.Metadata, &j.Spec, "spec", nil); job != nil {
		e.set.Jobs = append(e.set.Jobs, job)
	}
}

// job checks the spec of a Job at a path, and returns the Job.
func (e *expansion) job(meta *metav1.ObjectMeta, s *jobSpec, path string, above []string) *Job {
	atMost := func(p *int32, limit int32) bool { return p == nil || *p >= 0 && *p <= limit }
	field, text := "", ""
	switch policy := s.Template.Spec.RestartPolicy; {
	case policy != v1.RestartPolicyOnFailure && policy != v1.RestartPolicyNever:
		field, text = "template.spec.restartPolicy", "want OnFailure or Never in a Job"
	case !atMost(s.Parallelism, maxReplicas):
		field, text = "parallelism", "want 0 to 500 on a single node"
	case !atMost(s.Completions, maxCompletions):
		field, text = "completions", "want 0 to 10000 on a single node"
	case !atMost(s.BackoffLimit, maxCompletions):
		field, text = "backoffLimit", "want 0 to 10000"
	case s.Deadline != nil && *s.Deadline < 1:
		field, text = "activeDeadlineSeconds", "want a number above 0"
	case s.TTL != nil && *s.TTL < 0:
		field, text = "ttlSecondsAfterFinished", "must not be negative"
	case s.CompletionMode != "" && s.CompletionMode != "NonIndexed" && s.CompletionMode != "Indexed":
		field, text = "completionMode", "want NonIndexed or Indexed"
	case s.CompletionMode == "Indexed" && s.Completions == nil:
		field, text = "completions", "Required value: an Indexed Job has a number of completions"
	case s.ManagedBy != "" && s.ManagedBy != managedByBuiltIn:
		field, text = "managedBy", "no other controller runs here: remove it"
	case s.Selector != nil || s.ManualSelector:
		field, text = "selector", "the pods of a Job are known without a selector: remove it"
	case s.PodFailurePolicy != nil:
		field, text = "podFailurePolicy", "failures of this node are counted in backoffLimit only: remove it"
	case s.SuccessPolicy != nil:
		field, text = "successPolicy", "a Job of this node needs all completions: remove it"
	case s.BackoffLimitPerIndex != nil || s.MaxFailedIndexes != nil:
		field, text = "backoffLimitPerIndex", "failures of this node are counted in backoffLimit only: remove it"
	case s.PodReplacementPolicy == "TerminatingOrFailed", s.PodReplacementPolicy == "Failed", s.PodReplacementPolicy == "":
	default:
		field, text = "podReplacementPolicy", "want Failed"
	}
	if field != "" {
		e.refuse(path+"."+field, text)
		return nil
	}
	t := manifest.Template{
		Path: append(above, template...), Namespace: meta.Namespace, Name: meta.Name,
		Labels: map[string]string{LabelJobName: meta.Name, "job-name": meta.Name},
	}
	pod, problems := e.Decoder.Make(e.doc, t, e.origin)
	if len(problems) > 0 {
		e.problems = append(e.problems, problems...)
		return nil
	}
	return &Job{Namespace: meta.Namespace, Name: meta.Name, Spec: s.withDefaults(), Pod: pod}
}

const maxCompletions = 10_000

// LabelJobName is the label of a Job's pods with the name of the Job.
const LabelJobName = "batch.kubernetes.io/job-name"

func (s *jobSpec) withDefaults() JobSpec {
	spec := JobSpec{
		Parallelism: 1, Completions: s.Completions, BackoffLimit: 6, TTLSeconds: s.TTL,
		Indexed: s.CompletionMode == "Indexed", Suspend: s.Suspend,
	}
	if s.Parallelism != nil {
		spec.Parallelism = *s.Parallelism
	} else if s.Completions == nil {
		spec.Completions = new(int32(1))
	}
	if s.BackoffLimit != nil {
		spec.BackoffLimit = *s.BackoffLimit
	}
	if s.Deadline != nil {
		spec.DeadlineSeconds = *s.Deadline
	}
	return spec
}

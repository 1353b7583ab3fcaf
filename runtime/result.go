// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Reasons of failed steps. The texts are the API's waiting reasons, for
// v1.ContainerStateWaiting.Reason.
var (
	errCrashLoopBackOff      = errors.New("CrashLoopBackOff")
	errCreateContainerConfig = errors.New("CreateContainerConfigError")
	errCreateContainer       = errors.New("CreateContainerError")
	errRunContainer          = errors.New("RunContainerError")
	errPostStartHook         = errors.New("PostStartHookError")
	errKillContainer         = errors.New("KillContainerError")
	errRemoveContainer       = errors.New("RemoveContainerError")
	errConfigPodSandbox      = errors.New("ConfigPodSandboxError")
	errCreatePodSandbox      = errors.New("CreatePodSandboxError")
	errKillPodSandbox        = errors.New("KillPodSandboxError")
)

// StepAction is the action of a step, in the kubelet's words.
type StepAction string

// The actions of SyncPod and KillPod.
const (
	StartContainer   StepAction = "StartContainer"
	KillContainer    StepAction = "KillContainer"
	removeContainer  StepAction = "RemoveContainer"
	createPodSandbox StepAction = "CreatePodSandbox"
	killPodSandbox   StepAction = "KillPodSandbox"
)

// StepError is the failure of a step. errors.Is finds both the reason, one of the err variables
// above, and the cause.
type StepError struct {
	Action StepAction
	Target string // container name, sandbox ID, or namespace/name of the pod
	Reason error
	Cause  error
	// RetryAt is set for a step that only has to wait: an earlier try is pointless. Result.RetryAt
	// returns the time of the next call in every case.
	RetryAt time.Time
}

func (e *StepError) Error() string {
	return fmt.Sprintf("%s %s: %v: %v", e.Action, e.Target, e.Reason, e.Cause)
}

// Unwrap returns the reason and the cause.
func (e *StepError) Unwrap() []error { return []error{e.Reason, e.Cause} }

// Step is a completed or failed action of SyncPod or KillPod.
type Step struct {
	Action StepAction
	Target string
	Err    *StepError // nil: success
}

// Result is the outcome of SyncPod or KillPod.
type Result struct {
	Plans []Actions // the plans of SyncPod, in order; empty for KillPod
	// ResizeWaits is Actions.ResizeWaits at the end: a resize waits for sidecars.
	ResizeWaits bool
	// Steps are the executed steps, in the order of their ends. If SyncPod tried a container
	// several times, only the last try is listed, unless an earlier try got further.
	Steps []Step
	// Status is the pod as read after the last step. Without a step, Status is the pod as read at
	// first. Status is nil if the pod could not be read.
	Status *PodStatus

	err   error     // the error that ended the call early, or made Status unreadable
	left  bool      // work is left that neither failed nor has to wait
	again time.Time // time of the next call, if a step failed or work is left; else zero
}

// Err joins the errors of all failed steps; nil if no step failed. If ctx ended, the error is the
// cause of ctx, and steps in progress do not count as failures.
func (r Result) Err() error {
	errs := []error{r.err}
	for i := range r.Steps {
		if e := r.Steps[i].Err; e != nil {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

// RetryAt returns the time of the next call of SyncPod or KillPod, if nothing changes before. The
// time is the earliest time at which a waiting step may be tried. After a failed step, the time is
// the end of the Manager's back-off for the pod: 1 s after the first failed call, doubled up to 10
// s. If work is left without a failed step, the time is 1 s after the call. again is false if no
// call is needed until the pod or its spec changes. If Err is not nil, again is true.
func (r Result) RetryAt() (at time.Time, again bool) {
	at = r.again
	for i := range r.Steps {
		if e := r.Steps[i].Err; e != nil && !e.RetryAt.IsZero() && (at.IsZero() || e.RetryAt.Before(at)) {
			at = e.RetryAt
		}
	}
	return at, !at.IsZero()
}

// Failed reports whether a step failed. A step that only waits for a known time (StepError.RetryAt)
// did not fail.
func (r Result) Failed() bool {
	for i := range r.Steps {
		if e := r.Steps[i].Err; e != nil && e.RetryAt.IsZero() {
			return true
		}
	}
	return r.err != nil
}

// onlyHooksFailed reports whether postStart hooks are the only failed steps. Their containers were
// started, so the reasons of earlier failures do not apply any more.
func (r Result) onlyHooksFailed() bool {
	return r.err == nil && !slices.ContainsFunc(r.Steps, func(s Step) bool {
		return s.Err != nil && s.Err.RetryAt.IsZero() && s.Err.Reason != errPostStartHook
	})
}

// Changed reports whether a step had an effect.
func (r Result) Changed() bool {
	for i := range r.Steps {
		if r.Steps[i].Err == nil {
			return true
		}
	}
	return false
}

// StartFailures has the last failed start of each container of a pod, until a start succeeds. The
// waiting reasons of the pod's status come from StartFailures. The zero value is ready for use.
// StartFailures has no lock.
type StartFailures map[string]v1.ContainerStateWaiting

// Apply records the outcome of every start in steps.
func (f *StartFailures) Apply(steps []Step) {
	for i := range steps {
		s := &steps[i]
		switch {
		case s.Action != StartContainer:
		case s.Err == nil:
			delete(*f, s.Target)
		default:
			if *f == nil {
				*f = StartFailures{}
			}
			(*f)[s.Target] = v1.ContainerStateWaiting{Reason: s.Err.Reason.Error(), Message: s.Err.Cause.Error()}
		}
	}
}

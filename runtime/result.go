// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Why a step failed. The texts are the API's waiting reasons, so that a status
// can show them as they are (v1.ContainerStateWaiting.Reason).
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

// StepAction is what a step tried, in the kubelet's words.
type StepAction string

// The actions of SyncPod and KillPod.
const (
	StartContainer   StepAction = "StartContainer"
	KillContainer    StepAction = "KillContainer"
	removeContainer  StepAction = "RemoveContainer"
	createPodSandbox StepAction = "CreatePodSandbox"
	killPodSandbox   StepAction = "KillPodSandbox"
)

// StepError is the failure of one step. errors.Is finds both its reason, one of
// the Err variables above, and its cause.
type StepError struct {
	Action StepAction
	Target string // container name, sandbox ID, or namespace/name of the pod
	Reason error
	Cause  error
	// RetryAt is set where trying again before then is pointless: a step that only has to
	// wait. Result.RetryAt says when to call again in any case.
	RetryAt time.Time
}

func (e *StepError) Error() string {
	return fmt.Sprintf("%s %s: %v: %v", e.Action, e.Target, e.Reason, e.Cause)
}

// Unwrap returns the reason and the cause.
func (e *StepError) Unwrap() []error { return []error{e.Reason, e.Cause} }

// Step is one thing that SyncPod or KillPod did.
type Step struct {
	Action StepAction
	Target string
	Err    *StepError // nil = done
}

// Result is what came of SyncPod or KillPod.
type Result struct {
	Plans []Actions // what was planned, one after the other; none by KillPod
	// ResizeWaits is Actions.ResizeWaits at the end: a resize waits for sidecars.
	ResizeWaits bool
	// Steps are what was done, in the order in which it ended. Of several tries of
	// one container in one call only the last is there, unless it got further.
	Steps []Step
	// Status is the pod as read after the last step, or as it was at first if
	// there was nothing to do. It is nil if it could not be read.
	Status *PodStatus

	err   error     // what ended the call early, or made Status unreadable
	left  bool      // something is left to do that neither failed nor has to wait
	again time.Time // when to call again since something failed or is left to do; zero: nothing
}

// Err joins everything that failed; nil if nothing did. It is ctx's cause if
// ctx ended: then steps that were under way are not counted as failures.
func (r Result) Err() error {
	errs := make([]error, 0, len(r.Steps)+1)
	for i := range r.Steps {
		if e := r.Steps[i].Err; e != nil {
			errs = append(errs, e)
		}
	}
	if r.err != nil {
		errs = append(errs, r.err)
	}
	return errors.Join(errs...)
}

// RetryAt returns when SyncPod or KillPod is to be called again, if nothing changes before:
// the earliest time at which a step that had to wait may be tried, or, where something
// failed or is left to do, the end of the Manager's back-off for the pod: 1 s after the
// first failed call, doubled up to 10 s. False: there is nothing to do until the pod or its
// spec changes. A Result with an Err always has a time.
func (r Result) RetryAt() (at time.Time, again bool) {
	at = r.again
	for i := range r.Steps {
		if e := r.Steps[i].Err; e != nil && !e.RetryAt.IsZero() && (at.IsZero() || e.RetryAt.Before(at)) {
			at = e.RetryAt
		}
	}
	return at, !at.IsZero()
}

// Failed reports whether anything went wrong other than that a step has to wait for a
// time that is known (StepError.RetryAt).
func (r Result) Failed() bool {
	for i := range r.Steps {
		if e := r.Steps[i].Err; e != nil && e.RetryAt.IsZero() {
			return true
		}
	}
	return r.err != nil
}

// Changed reports whether any step took effect.
func (r Result) Changed() bool {
	for i := range r.Steps {
		if r.Steps[i].Err == nil {
			return true
		}
	}
	return false
}

// StartFailures remembers, for one pod, why containers could not be started: a
// container's last failed start until one succeeds. It feeds the waiting
// reasons of the pod's status. The zero value is ready; it has no lock.
type StartFailures map[string]v1.ContainerStateWaiting

// Apply notes the outcome of every start among steps.
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

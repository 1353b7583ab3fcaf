// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Type is a kind of probe, or a set of kinds.
type Type uint8

// The kinds of probes. All is their set.
const (
	Liveness Type = 1 << iota
	Readiness
	Startup
	All = Liveness | Readiness | Startup
)

// order is the fixed order of the kinds; the position of a kind is its slot in arrays.
var order = [...]Type{Startup, Readiness, Liveness}

const (
	slotStartup = iota
	slotReadiness
	slotLiveness
	slots
)

// String returns the kubelet's word for a kind, or the words of a set joined by "|".
func (t Type) String() string {
	var words []string
	for _, one := range [...]struct {
		kind Type
		word string
	}{{Liveness, "Liveness"}, {Readiness, "Readiness"}, {Startup, "Startup"}} {
		if t&one.kind != 0 {
			words = append(words, one.word)
		}
	}
	if len(words) == 0 {
		return "None"
	}
	return strings.Join(words, "|")
}

// Result is the established result of a probe of one container instance, after as many attempts as
// its thresholds require.
type Result uint8

// The results. A container instance begins with Unknown for startup, Failure for readiness and
// Success for liveness.
const (
	Unknown Result = iota
	Success
	Failure
)

// String returns the result's name.
func (r Result) String() string {
	switch r {
	case Success:
		return "Success"
	case Failure:
		return "Failure"
	default:
		return "Unknown"
	}
}

// Verdict is the result of a single attempt.
type Verdict uint8

// The verdicts. VerdictNone belongs to an attempt that ended with an error. VerdictNone from a
// Handler without an error counts as VerdictFailure. VerdictWarning counts as success. Any
// undefined value counts as an error.
const (
	VerdictNone Verdict = iota
	VerdictSuccess
	VerdictWarning
	VerdictFailure
)

// String returns the verdict in the kubelet's lower-case words.
func (v Verdict) String() string {
	switch v {
	case VerdictSuccess:
		return "success"
	case VerdictWarning:
		return "warning"
	case VerdictFailure:
		return "failure"
	default:
		return "unknown"
	}
}

// Instance is one running container instance, from its start until its exit.
type Instance struct {
	// ID names the instance and is never used for another. ID equals
	// v1.ContainerStatus.ContainerID. An Instance without an ID is ignored.
	ID string
	// StartedAt is when the instance started; initial delays count from StartedAt. A time in the
	// future counts as now.
	StartedAt time.Time
	// PodIP is the pod's primary address. While PodIP is empty, network handlers have no verdict.
	PodIP string
	// Adopted reports that the instance ran before the agent started. If the initial delay of a
	// probe has passed, the first attempt comes at a random time within a period. Started and Ready
	// are taken over without an update.
	Adopted bool
	// Started and Ready are the last known values of an Adopted instance.
	Started, Ready bool
}

// Target is the subject of one attempt. All fields are shared and must not be written.
type Target struct {
	Pod       *v1.Pod
	Container *v1.Container
	Probe     *v1.Probe // the container's probe of kind Type
	Type      Type      // a single kind
	Instance  Instance
}

// Outcome is the result of a Handler call. Output is for people; output beyond MaxOutput is cut.
type Outcome struct {
	Verdict Verdict
	Output  string
}

// Update reports a changed result to a Sink.
type Update struct {
	PodUID types.UID
	Pod    types.NamespacedName
	// Container is the container's name, ID the ID of its instance.
	Container, ID string
	Type          Type // a single kind
	Result        Result
	// TerminationGracePeriodSeconds is set for a Failure of liveness or startup if the probe has
	// its own grace period (KEP-2238). It replaces the pod's grace period when the container is
	// killed for the failure.
	TerminationGracePeriodSeconds *int64
}

// Timing is when a probe happens and how long an attempt may take.
type Timing struct {
	InitialDelay, Period, Timeout time.Duration
}

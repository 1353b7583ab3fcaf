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

// order is the one in which the kinds are always treated; the position of a kind is its slot in arrays.
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

// Result is what a probe has established about one container instance, over as many attempts as its thresholds ask for.
type Result uint8

// The results. A container instance begins with Unknown for startup, Failure for readiness and Success for liveness.
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

// Verdict is what a single attempt says.
type Verdict uint8

// The verdicts. VerdictNone belongs to an attempt that ended with an error; a Handler that returns it without one
// counts as VerdictFailure. VerdictWarning counts as success.
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

// Instance is one running container instance: what a container is until it exits.
type Instance struct {
	// ID names the instance and is never used for another. It is what v1.ContainerStatus.ContainerID holds. An Instance
	// without one is ignored.
	ID string
	// StartedAt is when it began to run; initial delays count from then. One that is in the future counts as now.
	StartedAt time.Time
	// PodIP is the pod's primary address. While it is empty, handlers that need it have no verdict.
	PodIP string
	// Adopted says that the instance ran before this agent did. Its first probe comes at a random time within a period,
	// and what it is said to be (Started, Ready) is taken over silently.
	Adopted bool
	// Started and Ready are what was last known of an Adopted instance.
	Started, Ready bool
}

// Target is what one attempt is about. All of it is shared and must not be written.
type Target struct {
	Pod       *v1.Pod
	Container *v1.Container
	Probe     *v1.Probe // the container's probe of that Type
	Type      Type      // one kind
	Instance  Instance
}

// Outcome is what a Handler has to say. Output is for people; what is longer than MaxOutput is cut.
type Outcome struct {
	Verdict Verdict
	Output  string
}

// Update tells a Sink that a result is another one than it was.
type Update struct {
	PodUID types.UID
	Pod    types.NamespacedName
	// Container is the container's name, ID that of its instance.
	Container, ID string
	Type          Type // one kind
	Result        Result
	// TerminationGracePeriodSeconds comes with a Failure of liveness or startup: the probe's own (KEP-2238), nil if it
	// has none. It takes the place of the pod's when the container is killed for this failure.
	TerminationGracePeriodSeconds *int64
}

// Timing is when a probe happens and how long an attempt may take.
type Timing struct {
	InitialDelay, Period, Timeout time.Duration
}

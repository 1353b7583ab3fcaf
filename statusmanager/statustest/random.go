// SPDX-License-Identifier: Apache-2.0

package statustest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/statusmanager"
)

// RandomHostility draws a hostility: an error of any code, with or without a bogus delay, for all
// or some requests; errors without an API status; hanging or slow requests; conflicts and stale
// reads; lost replies; answers with no pod or another pod; mutating webhooks; second writers. The
// same state of rng gives the same hostility.
func RandomHostility(rng *rand.Rand) Hostility {
	draws := []func(*rand.Rand) Hostility{
		codeForEver, codeForEver, codeForEver, plainError, conflictAndStale, staleReads, lostReplies, wrongReply, webhook, webhook,
		secondWriter, secondWriter, hanging, hanging,
	}
	h := draws[rng.IntN(len(draws))](rng)
	if rng.IntN(4) == 0 { // and an error in addition
		other := codeForEver(rng)
		if h.Refuse == nil {
			h.Name, h.Refuse = h.Name+" and "+other.Name, other.Refuse
		}
	}
	return h
}

// struck draws the requests that fail: all, some kinds, or all but every n-th.
func struck(rng *rand.Rand) (name string, strikes func(statusmanager.Request, int) bool) {
	switch rng.IntN(5) {
	case 0:
		return "patches", func(r statusmanager.Request, _ int) bool { return r == statusmanager.RequestPatch }
	case 1:
		return "all but gets", func(r statusmanager.Request, _ int) bool { return r != statusmanager.RequestGet }
	case 2:
		every := 2 + rng.IntN(4)
		return fmt.Sprintf("all but one of %d", every), func(_ statusmanager.Request, n int) bool { return n%every != 0 }
	}
	return "all", func(statusmanager.Request, int) bool { return true }
}

func refusing(rng *rand.Rand, name string, err error) Hostility {
	which, strikes := struck(rng)
	return Hostility{Name: fmt.Sprintf("%s for %s", name, which), Refuse: func(r statusmanager.Request, n int) error {
		if strikes(r, n) {
			return err
		}
		return nil
	}}
}

// codeForEver is an answer with a code from 400 to 599, and with any delay.
func codeForEver(rng *rand.Rand) Hostility {
	code := 400 + rng.IntN(200)
	delays := []int32{0, 0, 1, 30, 1_000_000, math.MaxInt32, -1, math.MinInt32}
	delay := delays[rng.IntN(len(delays))]
	reasons := []metav1.StatusReason{"", metav1.StatusReasonTooManyRequests, metav1.StatusReasonServerTimeout, metav1.StatusReasonConflict}
	err := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reasons[rng.IntN(len(reasons))], Message: "hostile",
	}}
	if delay != 0 || rng.IntN(2) == 0 {
		err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: delay}
	}
	return refusing(rng, fmt.Sprintf("%d, retry after %d s", code, delay), err)
}

func plainError(rng *rand.Rand) Hostility {
	return refusing(rng, "an error that is no API status", errors.New("the bus is full"))
}

// hanging leaves all or some requests without an answer, or delays their answers.
func hanging(rng *rand.Rand) Hostility {
	which, strikes := struck(rng)
	delay := Forever
	if rng.IntN(3) == 0 {
		delay = time.Duration(rng.Int64N(int64(2 * statusmanager.RequestTimeout)))
	}
	return Hostility{Name: fmt.Sprintf("a delay of %s for %s", delay, which), Delay: func(r statusmanager.Request, n int) time.Duration {
		if strikes(r, n) {
			return delay
		}
		return 0
	}}
}

// conflictAndStale returns a conflict for every patch and deletion, and shows the pod of the first
// request in every GET.
func conflictAndStale(rng *rand.Rand) Hostility {
	h := Hostility{Name: "409 and stale reads", Reply: asFirst()}
	err := error(apierrors.NewConflict(v1.Resource("pods"), "pod", errors.New("modified")))
	if rng.IntN(2) == 0 {
		h.Name = "422 on metadata.uid and stale reads"
		err = apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "pod", field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), "other", "field is immutable"),
		})
	}
	h.Refuse = func(r statusmanager.Request, _ int) error {
		if r == statusmanager.RequestGet {
			return nil
		}
		return err
	}
	return h
}

func staleReads(*rand.Rand) Hostility {
	return Hostility{Name: "stale answers", Reply: asFirst()}
}

// asFirst shows the pod of the first request.
func asFirst() func(*v1.Pod, int) *v1.Pod {
	var first *v1.Pod
	return func(pod *v1.Pod, _ int) *v1.Pod {
		if first == nil {
			first = pod
		}
		return first
	}
}

func lostReplies(rng *rand.Rand) Hostility {
	err := ErrReplyLost
	if rng.IntN(2) == 0 {
		err = apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "patch", v1.Resource("pods"), "", "", 0, false)
	}
	_, strikes := struck(rng)
	return Hostility{Name: "replies are lost", Lose: func(r statusmanager.Request, n int) error {
		if strikes(r, n) {
			return err
		}
		return nil
	}}
}

// wrongReply answers with no pod, an empty pod, or another pod.
func wrongReply(rng *rand.Rand) Hostility {
	switch rng.IntN(3) {
	case 0:
		return Hostility{Name: "answers without a pod", Reply: func(*v1.Pod, int) *v1.Pod { return nil }}
	case 1:
		return Hostility{Name: "answers with an empty pod", Reply: func(*v1.Pod, int) *v1.Pod { return &v1.Pod{} }}
	}
	return Hostility{Name: "answers with another pod", Reply: func(pod *v1.Pod, n int) *v1.Pod {
		pod = pod.DeepCopy()
		pod.UID = "another"
		return pod
	}}
}

// webhook mutates the stored pod.
func webhook(rng *rand.Rand) Hostility {
	name, change := randomChange(rng)
	return Hostility{Name: "a webhook " + name, Mutate: change}
}

// secondWriter writes after each patch.
func secondWriter(rng *rand.Rand) Hostility {
	name, change := randomChange(rng)
	return Hostility{Name: "a second writer " + name, Meddle: change}
}

func randomChange(rng *rand.Rand) (name string, change func(before, after *v1.Pod, n int)) {
	flip := func(t v1.PodConditionType) func(_, after *v1.Pod, n int) {
		return func(_, after *v1.Pod, n int) {
			value := []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown}[n%3]
			for i := range after.Status.Conditions {
				if c := &after.Status.Conditions[i]; c.Type == t {
					c.Status = value
					return
				}
			}
			after.Status.Conditions = append(after.Status.Conditions, v1.PodCondition{Type: t, Status: value})
		}
	}
	switch rng.IntN(7) {
	case 0:
		return "that reverts the status", func(before, after *v1.Pod, _ int) { after.Status = *before.Status.DeepCopy() }
	case 1:
		return "that says something else each time", func(_, after *v1.Pod, n int) { after.Status.Reason = fmt.Sprintf("Reason%d", n) }
	case 2:
		return "that flips Ready", flip(v1.PodReady)
	case 3:
		return "that flips a readiness gate", flip(HostileGate)
	case 4:
		return "that doubles the conditions", func(_, after *v1.Pod, _ int) {
			for _, c := range after.Status.Conditions[:min(4, len(after.Status.Conditions))] {
				c.Status = v1.ConditionUnknown
				after.Status.Conditions = append(after.Status.Conditions, c)
			}
		}
	case 5:
		return "that drops the container statuses", func(_, after *v1.Pod, _ int) { after.Status.ContainerStatuses = nil }
	}
	return "that keeps every other status", func(before, after *v1.Pod, n int) {
		if n%2 == 0 {
			after.Status = *before.Status.DeepCopy()
		}
	}
}

// HostileGate is the readiness gate changed by random hostilities.
const HostileGate v1.PodConditionType = "statustest/gate"

// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime/fake"
)

// lived plays a script on a peaceful node, which has to be found right, and returns what happened.
func lived(t *testing.T, text string) (h History) {
	t.Helper()
	return livedOn(t, "", text)
}

// livedOn is lived on a node with these words.
func livedOn(t *testing.T, words, text string) (h History) {
	t.Helper()
	script, err := ParseScript(t.Name(), []byte("node peaceful "+words+"\n"+text))
	require.NoError(t, err)
	p := &player{script: script, root: t.TempDir(), assemble: ReferenceAgent}
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, p.play())
		h = p.node.History()
	})
	return h
}

// calls changes the calls of one kind for a container, the nth alone.
func calls(h *History, op fake.Op, container string, nth int, change func(e *fake.Entry)) {
	h.Calls = slices.Clone(h.Calls)
	for i := range h.Calls {
		if h.Calls[i].Op == op && h.Calls[i].Container == container {
			if nth--; nth == 0 {
				change(&h.Calls[i])
			}
		}
	}
}

func later(d time.Duration) func(*fake.Entry) {
	return func(e *fake.Entry) { e.At, e.DoneAt = e.At+d, e.DoneAt+d }
}

// A condition that the API server has shown otherwise for an instant has the later transition time there.
func TestFlippedConditions(t *testing.T) {
	ready := func(is v1.ConditionStatus, since int64) *v1.PodStatus {
		return &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: is, LastTransitionTime: metav1.Unix(since, 0)}}}
	}
	shown := func(uid types.UID, is v1.ConditionStatus, since int64) Stored {
		pod := &v1.Pod{Status: *ready(is, since)}
		pod.UID = uid
		return Stored{Pod: pod}
	}
	gated := shown("u", "True", 0)
	gated.Pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "a/gate"}}
	gated.Pod.Status.Conditions = append(gated.Pod.Status.Conditions, v1.PodCondition{Type: "a/gate", Status: "True", LastTransitionTime: metav1.Unix(0, 0)})
	for name, c := range map[string]struct {
		stored []Stored
		theirs *v1.PodStatus
		want   int64
	}{
		"a gate, at once":      {[]Stored{gated}, ready("False", 0), 0},
		"no gate, at once":     {[]Stored{shown("u", "False", 0)}, ready("False", 0), 1},
		"shown for an instant": {[]Stored{shown("u", "False", 1), shown("u", "True", 5), shown("u", "False", 5)}, ready("False", 5), 5},
		"never shown":          {[]Stored{shown("u", "False", 1), shown("u", "False", 5)}, ready("False", 5), 1},
		"shown before":         {[]Stored{shown("u", "True", 1), shown("u", "False", 1), shown("u", "False", 5)}, ready("False", 5), 1},
		"shown later":          {[]Stored{shown("u", "True", 7)}, ready("False", 5), 1},
		"of another pod":       {[]Stored{shown("v", "True", 5)}, ready("False", 5), 1},
		"another status":       {[]Stored{shown("u", "False", 1), shown("u", "True", 5)}, ready("True", 5), 1},
	} {
		t.Run(name, func(t *testing.T) {
			ours := ready("False", 1)
			flipped(c.stored, "u", c.theirs, ours)
			require.Equal(t, c.want, ours.Conditions[0].LastTransitionTime.Unix())
		})
	}
}

// What a peaceful node does out of time, without a cause or in another way than its pods call for is found.
func TestPeaceIsJudgedToTheSecond(t *testing.T) {
	crashes := "behave p/c exit=1s,code=1\napply p restart=OnFailure\nsleep 1m"
	never := "behave p/c exit=1s,code=1\napply p restart=Never\nsleep 1m"
	init := "behave p/i exit=4s\napply p init=i\nsleep 1m"
	removed := "apply p grace=7\nsleep 10s\nremove p\nsleep 1m"
	sick := "apply p live=c\nsleep 11s\nsick p/c\nsleep 1m"
	overdue := "apply p deadline=20\nsleep 1m"
	const create, stop = fake.OpCreateContainer, fake.OpStopContainer
	gone := func(e *fake.Entry) { e.Op = fake.OpList }
	for _, c := range []struct {
		name, script string
		tamper       func(h *History)
		want         string
	}{
		{"first creation late", init, func(h *History) { calls(h, create, "i", 1, later(5*time.Second)) }, "was due at 0.000s"},
		{"before init", init, func(h *History) { calls(h, create, "c", 1, later(-2*time.Second)) }, "is created before 4.000s"},
		{"late after init", init, func(h *History) { calls(h, create, "c", 1, later(5*time.Second)) }, "was due at 4.000s"},
		{"never after init", init, func(h *History) { calls(h, create, "c", 1, gone) }, "c is not created"},
		{"back-off cut", crashes, func(h *History) { calls(h, create, "c", 3, later(-time.Second)) }, "whose back-off is 10s"},
		{"back-off long", crashes, func(h *History) { calls(h, create, "c", 3, later(3*time.Second)) }, "whose back-off is only 10s"},
		{"not restarted", crashes, func(h *History) {
			for n := 5; n > 3; n-- {
				calls(h, create, "c", n, gone)
			}
		}, "is not created again"},
		{"count", crashes, func(h *History) { calls(h, create, "c", 3, func(e *fake.Entry) { e.Detail = "restart 1" }) }, "restart count 1 after 1"},
		{"restarted", never, func(h *History) {
			again := *oneCall(h, create, "c")
			again.ID, again.Detail = "again", "restart 1"
			later(5 * time.Second)(&again)
			h.Calls = append(slices.Clone(h.Calls), again)
		}, "is created again, which ended with 1"},
		{"grace period", removed, func(h *History) { calls(h, stop, "c", 1, func(e *fake.Entry) { e.Detail = "grace 6s" }) }, "grace period of 6s, not 7s"},
		{"stopped early", removed, func(h *History) { calls(h, stop, "c", 1, later(-time.Second)) }, "is stopped without a cause"},
		{"not stopped", removed, func(h *History) {
			calls(h, stop, "c", 1, gone)
			calls(h, fake.OpExited, "c", 1, gone)
		}, "is to be stopped, and is not"},
		{"probe missed", sick, func(h *History) { h.Probes = slices.Delete(slices.Clone(h.Probes), 1, 2) }, "was due at 5.000s"},
		{"probe early", sick, func(h *History) {
			h.Probes = slices.Clone(h.Probes)
			h.Probes[1].At -= time.Second
		}, "was due at 5.000s"},
		{"killed too soon", sick, func(h *History) {
			h.Probes = slices.Clone(h.Probes)
			h.Probes[3].Well = true
		}, "is stopped without a cause"},
		{"failure without effect", sick, func(h *History) {
			calls(h, stop, "c", 1, gone)
			calls(h, fake.OpExited, "c", 1, gone)
		}, "is to be stopped, and is not"},
		{"deadline", overdue, func(h *History) {
			calls(h, stop, "c", 1, later(-2*time.Second))
		}, "is stopped without a cause"},
		{"deadline missed", overdue, func(h *History) {
			calls(h, stop, "c", 1, gone)
			calls(h, fake.OpExited, "c", 1, gone)
		}, "is to be stopped, and is not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := lived(t, c.script)
			c.tamper(&h)
			require.ErrorContains(t, checkPeace(h, limits{}), c.want)
		})
	}
}

func oneCall(h *History, op fake.Op, container string) *fake.Entry {
	i := slices.IndexFunc(h.Calls, func(e fake.Entry) bool { return e.Op == op && e.Container == container })
	return &h.Calls[i]
}

// A status that does not say what the containers of a peaceful node call for is found.
func TestLookJudgesStatuses(t *testing.T) {
	for _, c := range []struct {
		name, script string
		tamper       func(s *v1.PodStatus)
		want         string
	}{
		{"phase", "apply p", func(s *v1.PodStatus) { s.Phase = v1.PodPending }, "the phase of a pod whose containers have run"},
		{"phase before init", "apply p init=i", func(s *v1.PodStatus) { s.Phase = v1.PodRunning }, "not initialized"},
		{"phase of a failed pod", "behave p/c exit=1s,code=1\napply p restart=Never", func(s *v1.PodStatus) { s.Phase = v1.PodSucceeded }, "the phase of a pod that is over"},
		{"phase after a deadline", "apply p deadline=20\nsleep 30s", func(s *v1.PodStatus) { s.Reason = "" }, "its deadline has passed"},
		{"state", "apply p", func(s *v1.PodStatus) {
			s.ContainerStatuses[0].State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		}, "c runs, and is published as"},
		{"started", "apply p startup=c", func(s *v1.PodStatus) { s.ContainerStatuses[0].Started = nil }, "as started"},
		{"ready", "behave p/c ill\napply p ready=c", func(s *v1.PodStatus) { s.ContainerStatuses[0].Ready = true }, "as ready: true"},
		{"last end", "behave p/c exit=1s,code=4\napply p", func(s *v1.PodStatus) { s.ContainerStatuses[0].LastTerminationState = v1.ContainerState{} }, "comes again"},
		{"end", "behave p/c exit=1s,code=4\napply p restart=Never main=c,d", func(s *v1.PodStatus) { s.ContainerStatuses[0].State.Terminated.ExitCode = 0 }, "has ended with 4 for good"},
		{"never created", "apply p init=i", func(s *v1.PodStatus) { s.ContainerStatuses[0].RestartCount = 1 }, "was never created"},
		{"class", "apply p cpu=100", func(s *v1.PodStatus) { s.QOSClass = v1.PodQOSBestEffort }, "QOS class"},
		{"address", "apply p", func(s *v1.PodStatus) { s.PodIP = "10.0.0.9" }, "its address"},
		{"generation", "apply p", func(s *v1.PodStatus) { s.ObservedGeneration = 7 }, "is published as observed"},
		{"begin", "apply p", func(s *v1.PodStatus) { s.StartTime.Time = s.StartTime.Add(3 * time.Second) }, "it began at"},
		{"image", "apply p v=2", func(s *v1.PodStatus) { s.ContainerStatuses[0].Image = "localhost/c:1" }, "is published with localhost/c:1"},
		{"reason before init", "apply p init=i", func(s *v1.PodStatus) { s.ContainerStatuses[0].State.Waiting.Reason = "ContainerCreating" }, "as waiting for reason"},
		{"reason of a back-off", "behave p/c exit=1s,code=4\napply p", func(s *v1.PodStatus) { s.ContainerStatuses[0].State.Waiting.Reason = "" }, "as waiting for reason"},
		{"a lacking key", "apply p env=extra\nsleep 20s", func(s *v1.PodStatus) { s.ContainerStatuses[0].State.Waiting.Reason = "ContainerCreating" }, "lacks a variable"},
		{"restart of all", "apply p restart=Never rule=c:1:all", func(s *v1.PodStatus) {
			s.Conditions = slices.DeleteFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.AllContainersRestarting })
		}, "condition AllContainersRestarting"},
		{"initialized", "apply p init=i", func(s *v1.PodStatus) {
			for i := range s.Conditions {
				if s.Conditions[i].Type == v1.PodInitialized {
					s.Conditions[i].Status = v1.ConditionTrue
				}
			}
		}, "condition Initialized"},
	} {
		t.Run(c.name, func(t *testing.T) {
			script, err := ParseScript(t.Name(), []byte("node peaceful\n"+c.script+"\nsleep 5s"))
			require.NoError(t, err)
			p := &player{script: script, root: t.TempDir(), assemble: ReferenceAgent}
			synctest.Test(t, func(t *testing.T) {
				require.NoError(t, p.play())
				peace, pod, now := newPeace(p.node.History(), limits{}), p.wanted[0], p.node.World.Now()
				status, truth := p.published(pod.UID).DeepCopy(), p.truth(pod.UID)
				judge := func() []error {
					return []error{
						peace.phaseIs(pod, status, now), peace.containersAre(pod, status, truth, now), peace.initializedIs(pod, status),
						observes(pod, status), fieldsFit(pod, status, truth), peace.shownIs(pod, status, time.Now()),
					}
				}
				c.tamper(status)
				for _, err := range judge() {
					if err != nil {
						require.ErrorContains(t, err, c.want)
						return
					}
				}
				t.Error("nothing is found")
			})
		})
	}
}

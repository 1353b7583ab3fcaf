// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podconditions"
	"github.com/keelson-dev/keelson/internal/podfacts"
)

// runs, ended and waits are container statuses.
func runs(name string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, ContainerID: "fake://" + name, Ready: true, Started: new(true),
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

func ended(name string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, ContainerID: "fake://" + name,
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}
}

func waits(name string, last ...v1.ContainerStatus) v1.ContainerStatus {
	s := v1.ContainerStatus{Name: name, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}}
	for _, l := range last {
		s.LastTerminationState = l.State
	}
	return s
}

func podWith(rp v1.RestartPolicy, inits []string, names ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}, Spec: v1.PodSpec{RestartPolicy: rp}}
	for _, name := range inits {
		name, isSidecar := strings.CutSuffix(name, "*")
		c := v1.Container{Name: name}
		if isSidecar {
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for _, name := range names {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name})
	}
	return pod
}

func cond(t v1.PodConditionType, s v1.ConditionStatus, at int64) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: s, LastTransitionTime: metav1.Unix(at, 0)}
}

const (
	yes, no = v1.ConditionTrue, v1.ConditionFalse
	theirs  = v1.PodConditionType("example.com/theirs")
)

func TestRestarts(t *testing.T) {
	const in, notIn = v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn
	on := func(op v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) v1.ContainerRestartRule {
		return v1.ContainerRestartRule{Action: v1.ContainerRestartRuleActionRestart, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}
	}
	for _, tt := range []struct {
		name  string
		rules []v1.ContainerRestartRule
		code  int32
		want  bool
	}{
		{"no rule", nil, 1, false},
		{"the second rule", []v1.ContainerRestartRule{on(in, 1), on(in, 2)}, 2, true},
		{"neither", []v1.ContainerRestartRule{on(in, 1), on(in, 2)}, 3, false},
		{"any other code", []v1.ContainerRestartRule{on(notIn, 1)}, 2, true},
		{"not that code", []v1.ContainerRestartRule{on(notIn, 1)}, 1, false},
		{"an operator of tomorrow", []v1.ContainerRestartRule{on("Odd", 1)}, 1, false},
		{"a rule about something else", []v1.ContainerRestartRule{{}}, 0, false},
	} {
		spec := &v1.PodSpec{Containers: []v1.Container{{Name: "a", RestartPolicy: new(v1.ContainerRestartPolicyNever), RestartPolicyRules: tt.rules}}}
		assert.Equal(t, tt.want, restarts(spec, "a", &v1.ContainerStateTerminated{ExitCode: tt.code}), tt.name)
	}
	assert.False(t, restarts(&v1.PodSpec{RestartPolicy: v1.RestartPolicyNever}, "a", &v1.ContainerStateTerminated{ExitCode: 1}), "a container that the spec does not have")
	onFailure := &v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, InitContainers: []v1.Container{{Name: "i"}}}
	assert.True(t, restarts(onFailure, "i", &v1.ContainerStateTerminated{Reason: "OOMKilled"}), "an init container killed for memory has failed")
}

func TestClampContainersOfEachList(t *testing.T) {
	pod := podWith(v1.RestartPolicyNever, []string{"i", "j"}, "a", "b")
	lists := func(make func(name string) v1.ContainerStatus) *v1.PodStatus {
		return &v1.PodStatus{
			Phase: v1.PodRunning, InitContainerStatuses: []v1.ContainerStatus{make("i"), make("j")},
			ContainerStatuses: []v1.ContainerStatus{make("a"), make("b"), make("gone")}, EphemeralContainerStatuses: []v1.ContainerStatus{make("x"), make("y")},
		}
	}
	over := func(name string) v1.ContainerStatus { return ended(name, 0) }
	for to, again := range map[string]func(string) v1.ContainerStatus{"running": runs, "waiting": func(n string) v1.ContainerStatus { return waits(n) }} {
		status := lists(again)
		var names []string
		for _, c := range clampContainers(&pod.Spec, lists(over), status) {
			names = append(names, c.Container)
			assert.Equal(t, clamp{Container: c.Container, From: "terminated", To: to}, c)
		}
		assert.Equal(t, []string{"a", "b", "gone", "i", "j", "x", "y"}, names)
	}
}

func TestStartsOver(t *testing.T) {
	for _, tt := range []struct {
		name   string
		phase  v1.PodPhase
		inits  []string
		mains  []v1.ContainerStatus
		expect bool
	}{
		{"to be run", v1.PodRunning, []string{"i"}, []v1.ContainerStatus{waits("a"), waits("b")}, true},
		{"no init", v1.PodRunning, nil, []v1.ContainerStatus{waits("a")}, false},
		{"the pod has ended", v1.PodFailed, []string{"i"}, []v1.ContainerStatus{waits("a")}, false},
		{"the second runs", v1.PodRunning, []string{"i"}, []v1.ContainerStatus{waits("a"), runs("b")}, false},
		{"the second is to be run", v1.PodRunning, []string{"i"}, []v1.ContainerStatus{ended("a", 0), waits("b")}, true},
		{"both are over", v1.PodRunning, []string{"i"}, []v1.ContainerStatus{ended("a", 0), ended("b", 0)}, false},
	} {
		pod := podWith(v1.RestartPolicyOnFailure, tt.inits, "a", "b")
		assert.Equal(t, tt.expect, startsOver(&pod.Spec, &v1.PodStatus{Phase: tt.phase}, &v1.PodStatus{ContainerStatuses: tt.mains}), tt.name)
	}
}

func TestPhaseThatIsNotTold(t *testing.T) {
	for old, want := range map[v1.PodPhase]v1.PodPhase{"": v1.PodPending, v1.PodRunning: v1.PodRunning, v1.PodFailed: v1.PodFailed} {
		s := &v1.PodStatus{Reason: "new"}
		assert.Empty(t, clampPhase(&v1.PodStatus{Phase: old, Reason: "old", Message: "m"}, s))
		assert.Equal(t, want, s.Phase)
		assert.Equal(t, map[bool]string{true: "new", false: "old"}[old == ""], s.Reason)
	}
}

// TestTerminateEachContainer: started containers of every list have ended.
func TestTerminateEachContainer(t *testing.T) {
	lost := func(name string) v1.ContainerStatus {
		s := v1.ContainerStatus{Name: name, ContainerID: "fake://" + name, Started: new(bool)}
		s.State.Terminated = &v1.ContainerStateTerminated{
			Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated",
			ExitCode: 137, ContainerID: "fake://" + name,
		}
		return s
	}
	status := &v1.PodStatus{
		InitContainerStatuses:      []v1.ContainerStatus{ended("i", 0), runs("proxy")},
		ContainerStatuses:          []v1.ContainerStatus{runs("a"), runs("b")},
		EphemeralContainerStatuses: []v1.ContainerStatus{waits("x"), runs("y"), runs("z")},
	}
	terminate(podWith(v1.RestartPolicyAlways, []string{"i", "proxy*"}, "a", "b"), status)
	assert.Equal(t, []v1.ContainerStatus{lost("a"), lost("b")}, status.ContainerStatuses)
	assert.Equal(t, lost("proxy"), status.InitContainerStatuses[1])
	assert.EqualValues(t, 0, status.InitContainerStatuses[0].State.Terminated.ExitCode)
	assert.Equal(t, []v1.ContainerStatus{waits("x"), lost("y"), lost("z")}, status.EphemeralContainerStatuses)
}

func TestInitializedByTheStatuses(t *testing.T) {
	unstarted := runs("proxy")
	unstarted.Started = new(bool)
	for _, tt := range []struct {
		name  string
		inits string
		init  []v1.ContainerStatus
		mains []v1.ContainerStatus
		want  bool
	}{
		{"no init containers", "", nil, nil, true},
		{"nothing is known", "i", nil, nil, false},
		{"the last has failed", "i", []v1.ContainerStatus{ended("i", 1)}, nil, false},
		{"the last has succeeded", "i", []v1.ContainerStatus{ended("i", 0)}, nil, true},
		{"it has succeeded before", "i", []v1.ContainerStatus{waits("i", ended("i", 0))}, nil, true},
		{"it has failed before", "i", []v1.ContainerStatus{waits("i", ended("i", 1))}, nil, false},
		{"the last of two is not done", "i j", []v1.ContainerStatus{ended("i", 0), waits("j")}, nil, false},
		{"the last of two is not told", "i j", []v1.ContainerStatus{ended("i", 0)}, nil, false},
		{"a sidecar starts", "proxy*", []v1.ContainerStatus{unstarted}, nil, false},
		{"a sidecar has started", "proxy*", []v1.ContainerStatus{runs("proxy")}, nil, true},
		{"an init container runs", "i", []v1.ContainerStatus{runs("i")}, nil, false},
		{"a sidecar starts again", "proxy*", []v1.ContainerStatus{waits("proxy", ended("proxy", 0))}, nil, true},
		{"the second container runs", "i", []v1.ContainerStatus{waits("i")}, []v1.ContainerStatus{waits("a"), runs("b")}, true},
		{"one has run", "i", []v1.ContainerStatus{waits("i")}, []v1.ContainerStatus{waits("a", ended("a", 1))}, true},
		{"one has ended", "i", []v1.ContainerStatus{waits("i")}, []v1.ContainerStatus{ended("a", 1)}, true},
	} {
		pod := podWith(v1.RestartPolicyAlways, strings.Fields(tt.inits), "a", "b")
		got := initialized(&pod.Spec, &v1.PodStatus{InitContainerStatuses: tt.init, ContainerStatuses: tt.mains})
		assert.Equal(t, tt.want, got, tt.name)
	}
	for want, list := range map[int][]v1.ContainerStatus{
		-1: nil, 0: {runs("i"), waits("j"), waits("k")}, 1: {waits("i"), waits("j", ended("j", 0)), waits("k")}, 2: {waits("i"), waits("j"), ended("k", 0)},
	} {
		assert.Equal(t, want, lastStartedInit(list))
	}
	assert.Zero(t, lastStartedInit([]v1.ContainerStatus{waits("i"), waits("j")}), "the first is to blame")
}

func TestNormalizeEachList(t *testing.T) {
	bad := "a\xff"
	full := func(name string) v1.ContainerStatus {
		s := waits(name)
		s.State.Waiting.Reason, s.State.Waiting.Message = bad, bad
		s.LastTerminationState.Terminated = &v1.ContainerStateTerminated{Message: strings.Repeat("x", 20_000), Reason: bad}
		return s
	}
	names := func(list []v1.ContainerStatus) (out string) {
		for _, s := range list {
			out += s.Name
		}
		return out
	}
	pod := podWith(v1.RestartPolicyAlways, []string{"c", "b", "a"}, "m")
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{}, {}}
	s := &v1.PodStatus{
		Conditions:                 []v1.PodCondition{{Type: v1.PodReady, Message: bad}, {Type: v1.PodReady}, {Type: "", Reason: bad}, {Type: theirs, Reason: bad}},
		ContainerStatuses:          []v1.ContainerStatus{full("m")},
		InitContainerStatuses:      []v1.ContainerStatus{full("z"), full("b"), full("y"), full("a"), full("c")},
		EphemeralContainerStatuses: []v1.ContainerStatus{full("e")},
	}
	Normalize(&pod.Spec, s)
	assert.Equal(t, "cbayz", names(s.InitContainerStatuses))
	require.Len(t, s.Conditions, 3)
	assert.Equal(t, "a\uFFFD", s.Conditions[1].Reason)
	assert.Equal(t, "a\uFFFD", s.Conditions[2].Reason)
	for _, c := range append(append(s.InitContainerStatuses, s.ContainerStatuses...), s.EphemeralContainerStatuses...) {
		assert.Equal(t, "a\uFFFD", c.State.Waiting.Reason)
		assert.Equal(t, "a\uFFFD", c.State.Waiting.Message)
		assert.Len(t, c.LastTerminationState.Terminated.Message, maxMessages/6, "a share of six containers")
	}
	one := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{full("m")}}
	Normalize(&podWith(v1.RestartPolicyAlways, nil, "m").Spec, one)
	assert.Len(t, one.ContainerStatuses[0].LastTerminationState.Terminated.Message, maxMessages)
}

// TestEqualBothWays: an owned or shared condition counts in either status.
func TestEqualBothWays(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b v1.PodCondition
		same bool
	}{
		{"reasons", v1.PodCondition{Type: v1.PodReady, Reason: "a"}, v1.PodCondition{Type: v1.PodReady, Reason: "b"}, false},
		{"messages", v1.PodCondition{Type: v1.PodReady, Message: "a"}, v1.PodCondition{Type: v1.PodReady, Message: "b"}, false},
		{"statuses", cond(v1.PodReady, yes, 0), cond(v1.PodReady, no, 0), false},
		{"times", cond(v1.PodReady, yes, 1), cond(v1.PodReady, yes, 2), true},
		{"shared", cond(v1.DisruptionTarget, yes, 0), cond(v1.DisruptionTarget, no, 0), false},
		{"theirs", cond(theirs, yes, 0), cond(theirs, no, 0), true},
		{"one is missing", cond(v1.PodReady, yes, 0), cond(theirs, yes, 0), false},
	} {
		a, b := &v1.PodStatus{Conditions: []v1.PodCondition{tt.a}}, &v1.PodStatus{Conditions: []v1.PodCondition{tt.b}}
		assert.Equal(t, tt.same, Equal(a, b), tt.name)
		assert.Equal(t, tt.same, Equal(b, a), tt.name)
	}
}

func TestDiffOfConditions(t *testing.T) {
	list := func(c ...v1.PodCondition) *v1.PodStatus { return &v1.PodStatus{Conditions: c} }
	types := func(patch []byte, err error) (out []string) {
		require.NoError(t, err)
		for _, t := range []v1.PodConditionType{v1.PodReady, v1.DisruptionTarget, theirs} {
			if strings.Contains(string(patch), `"type":"`+string(t)+`"`) {
				out = append(out, string(t))
			}
		}
		return out
	}
	before := list(cond(v1.PodReady, no, 1), cond(v1.DisruptionTarget, no, 1), cond(theirs, no, 1))
	after := list(cond(v1.PodReady, yes, 1), cond(v1.DisruptionTarget, yes, 1), cond(theirs, yes, 1))
	assert.Equal(t, []string{"Ready", "DisruptionTarget"}, types(diff(before, after, "u")))
	assert.Equal(t, []string{"Ready"}, types(diff(before, list(), "u")), "only ours are deleted")
	assert.Empty(t, types(diff(after, after, "u")))
	assert.Equal(t, []string{"Ready"}, types(diffAll(after.Conditions, after, false, "u")), "what is shared and known to be so stays")

	patch, err := diffAll(nil, &v1.PodStatus{Resources: &v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1")}}}, false, "u")
	require.NoError(t, err)
	assert.Contains(t, string(patch), `"limits":null`, "whatever the server has is taken back")
}

func TestConditionsKeepTheirTimes(t *testing.T) {
	at := metav1.Unix(5, 0)
	s := &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: yes, LastProbeTime: at, LastTransitionTime: at}}}
	setCondition(s, v1.PodCondition{Type: v1.PodReady, Status: yes, Reason: "new"})
	assert.Equal(t, v1.PodCondition{Type: v1.PodReady, Status: yes, Reason: "new", LastProbeTime: at, LastTransitionTime: at}, s.Conditions[0])
	setCondition(s, v1.PodCondition{Type: v1.PodReady, Status: no})
	assert.Equal(t, v1.PodCondition{Type: v1.PodReady, Status: no, LastProbeTime: at}, s.Conditions[0])

	now := metav1.Unix(9, 0)
	old := &v1.PodStatus{Conditions: []v1.PodCondition{cond(v1.PodReady, yes, 5), {Type: v1.PodScheduled, Status: yes}, cond(theirs, yes, 5), cond(v1.DisruptionTarget, yes, 5)}}
	s = &v1.PodStatus{Conditions: []v1.PodCondition{cond(v1.PodReady, yes, 7), cond(v1.PodScheduled, yes, 7), cond(theirs, yes, 7), cond(v1.DisruptionTarget, yes, 7)}}
	setTransitionTimes(old, s, now)
	for i, want := range []int64{5, 9, 7, 5} {
		assert.Equal(t, want, s.Conditions[i].LastTransitionTime.Unix(), s.Conditions[i].Type)
	}

	for _, tt := range []struct{ old, given, want *metav1.Time }{{nil, nil, &now}, {nil, &at, &at}, {&at, nil, &at}, {&at, &now, &at}} {
		s := &v1.PodStatus{StartTime: tt.given}
		setStartTime(&v1.PodStatus{StartTime: tt.old}, s, now)
		assert.Equal(t, tt.want.Unix(), s.StartTime.Unix())
	}
}

// TestConditionsHaveTheGenerationTheySpeakOf: a recomputed condition has the generation of its source.
func TestConditionsHaveTheGenerationTheySpeakOf(t *testing.T) {
	pod := podWith(v1.RestartPolicyAlways, nil, "a")
	pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: theirs}}
	s := &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.ContainersReady, Status: yes, ObservedGeneration: 3}, {Type: v1.PodReady, Status: yes}}}
	applyGates(pod, s, nil)
	assert.Equal(t, v1.PodCondition{Type: v1.PodReady, Status: no, ObservedGeneration: 3, Reason: podconditions.ReasonReadinessGatesNotReady,
		Message: podfacts.Condition(s.Conditions, v1.PodReady).Message}, *podfacts.Condition(s.Conditions, v1.PodReady))
	unknown := &v1.PodStatus{}
	applyGates(pod, unknown, nil)
	assert.Empty(t, unknown.Conditions, "Ready is not made of nothing")

	s = &v1.PodStatus{Phase: v1.PodFailed, ObservedGeneration: 8, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: yes, ObservedGeneration: 3}}}
	endReadiness(s)
	assert.EqualValues(t, 3, podfacts.Condition(s.Conditions, v1.PodReady).ObservedGeneration)
	assert.EqualValues(t, 8, podfacts.Condition(s.Conditions, v1.ContainersReady).ObservedGeneration)
}

// TestReadinessOfTheCaller counts if it says both conditions; else both are made of the container statuses.
func TestReadinessOfTheCaller(t *testing.T) {
	mine := func(kind v1.PodConditionType) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: no, Reason: "Mine"}
	}
	for name, tt := range map[string]struct {
		given []v1.PodCondition
		kept  bool
	}{
		"both":               {[]v1.PodCondition{mine(v1.ContainersReady), mine(v1.PodReady)}, true},
		"ContainersReady":    {[]v1.PodCondition{mine(v1.ContainersReady)}, false},
		"Ready":              {[]v1.PodCondition{mine(v1.PodReady)}, false},
		"neither":            {nil, false},
		"both, and one more": {[]v1.PodCondition{mine(theirs), mine(v1.PodReady), mine(v1.ContainersReady)}, true},
	} {
		s := &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{runs("a")}, Conditions: tt.given}
		completeConditions(podWith(v1.RestartPolicyAlways, nil, "a"), &v1.PodStatus{}, s, nil)
		for _, kind := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
			assert.Equal(t, tt.kept, podfacts.Condition(s.Conditions, kind).Reason == "Mine", "%s: %s", name, kind)
			assert.Equal(t, tt.kept, podfacts.Condition(s.Conditions, kind).Status == no, "%s: %s", name, kind)
		}
	}
}

// TestInitializedOfOddInits: an init container with its own restart policy other than Always is no sidecar. Without a
// rule that restarts all containers, nothing proves that a pod was initialized.
func TestInitializedOfOddInits(t *testing.T) {
	pod := podWith(v1.RestartPolicyAlways, []string{"i"}, "a")
	pod.Spec.InitContainers[0].RestartPolicy = new(v1.ContainerRestartPolicyOnFailure)
	going := runs("i")
	going.Ready = false
	s := &v1.PodStatus{Phase: v1.PodPending, InitContainerStatuses: []v1.ContainerStatus{going}, ContainerStatuses: []v1.ContainerStatus{waits("a")}}
	assert.Equal(t, no, initializedCondition(&pod.Spec, s).Status)
	s.Conditions = []v1.PodCondition{cond(v1.PodInitialized, yes, 1), cond(v1.AllContainersRestarting, yes, 1)}
	assert.Equal(t, no, initializedCondition(&pod.Spec, s).Status)
	pod.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyNever)
	pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
	assert.Equal(t, yes, initializedCondition(&pod.Spec, s).Status)
}

// TestMergeAtTheEnd: shared conditions come from the agent when the pod ends, if set there. Conditions of other writers
// never do.
func TestMergeAtTheEnd(t *testing.T) {
	api := &v1.PodStatus{Phase: v1.PodRunning, QOSClass: v1.PodQOSBurstable, Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, no, 1), cond(theirs, no, 1)}}
	for name, tt := range map[string]struct {
		ours   []v1.PodCondition
		mayRun bool
		want   v1.ConditionStatus // of DisruptionTarget
	}{
		"ours":                 {[]v1.PodCondition{cond(v1.DisruptionTarget, yes, 2), cond(theirs, yes, 2)}, false, yes},
		"not while it is held": {[]v1.PodCondition{cond(v1.DisruptionTarget, yes, 2), cond(theirs, yes, 2)}, true, no},
		"we do not say":        {[]v1.PodCondition{cond(theirs, yes, 2)}, false, no},
	} {
		got, held := merge(mergeInput{
			Pod: podWith(v1.RestartPolicyNever, nil, "a"), API: api, MayRun: tt.mayRun, Now: metav1.Unix(9, 0),
			Ours: &v1.PodStatus{Phase: v1.PodFailed, QOSClass: v1.PodQOSGuaranteed, Conditions: tt.ours},
		})
		assert.Equal(t, tt.mayRun, held, name)
		assert.Equal(t, tt.want, conditionStatus(got.Conditions, v1.DisruptionTarget), name)
		assert.NotNil(t, podfacts.Condition(got.Conditions, v1.DisruptionTarget), "if we do not say it, the server's stays")
		assert.Equal(t, no, conditionStatus(got.Conditions, theirs), name)
		assert.Equal(t, v1.PodQOSGuaranteed, got.QOSClass)
	}
}

func TestWhereAPodComesFrom(t *testing.T) {
	pod := func(annotations ...string) *v1.Pod {
		p := podWith(v1.RestartPolicyAlways, nil, "a")
		p.Annotations = map[string]string{}
		for i := 0; i < len(annotations); i += 2 {
			p.Annotations["kubernetes.io/config."+annotations[i]] = annotations[i+1]
		}
		return p
	}
	assert.False(t, podfacts.IsStatic(pod()))
	assert.False(t, podfacts.IsStatic(pod("source", "api")))
	assert.True(t, podfacts.IsStatic(pod("source", "file")))
	static := keyOf(pod("source", "file", "hash", "h1"))
	assert.Equal(t, static, keyOf(pod("mirror", "h1", "hash", "h1", "source", "api")))
	assert.NotEqual(t, static, keyOf(pod("mirror", "h2", "hash", "h1", "source", "api")), "the mirror of an earlier version")
}

func TestStatusByID(t *testing.T) {
	s := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{runs("a"), runs("b")}, InitContainerStatuses: []v1.ContainerStatus{runs("i"), runs("j")}}
	for _, name := range []string{"a", "b", "i", "j"} {
		require.NotNil(t, statusByID(s, "fake://"+name), name)
		assert.Equal(t, name, statusByID(s, "fake://"+name).Name)
	}
	assert.Nil(t, statusByID(s, "fake://c"))
}

func TestOldest(t *testing.T) {
	now := time.Now()
	for _, first := range []time.Duration{1, 2, 3} {
		q := &queue{}
		assert.True(t, q.oldest().IsZero())
		q.push(&ticket{}, ClassTerminal, now.Add(first))
		q.push(&ticket{}, ClassReady, now.Add(2))
		q.push(&ticket{}, ClassOther, now.Add(4-first))
		assert.Equal(t, now.Add(min(first, 4-first)), q.oldest())
	}
}

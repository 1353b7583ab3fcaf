// SPDX-License-Identifier: Apache-2.0

package statusmanager

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

var (
	t0    = time.Unix(1_800_000_000, 0)
	plain = podWith(v1.RestartPolicyAlways, nil, "a")
)

// object is the pod of plain on the API server.
func object(version string, status v1.PodStatus, edits ...func(*v1.Pod)) *v1.Pod {
	pod := plain.DeepCopy()
	pod.ResourceVersion, pod.Status = version, status
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func dying(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: t0} }

// says accepts a status of the caller.
func (r *record) says(pod *v1.Pod, status v1.PodStatus, now time.Time) (changed bool, clamps []clamp) {
	return r.accept(proposal{pod: pod, status: &status, source: fromCaller}, now)
}

func TestNewerObjects(t *testing.T) {
	known := func(version string, edits ...func(*remote)) *remote {
		r := remote{}.after(object(version, v1.PodStatus{}), &plain.Spec)
		for _, edit := range edits {
			edit(&r)
		}
		return &r
	}
	for _, tt := range []struct {
		name  string
		known *remote
		pod   *v1.Pod
		want  bool
	}{
		{"the first", &remote{}, object("1", v1.PodStatus{}), true},
		{"a later one", known("9"), object("10", v1.PodStatus{}), true},
		{"the same", known("9"), object("9", v1.PodStatus{}), false},
		{"an earlier one", known("9"), object("8", v1.PodStatus{}), false},
		{"another without order", known("a"), object("b", v1.PodStatus{}), true},
		{"the same without order", known("a"), object("a", v1.PodStatus{}), false},
		{"of a pod that was gone", known("9", func(r *remote) { r.gone = true }), object("8", v1.PodStatus{}), true},
		{"of another pod", known("9"), object("8", v1.PodStatus{}, func(p *v1.Pod) { p.UID = "other" }), true},
	} {
		assert.Equal(t, tt.want, tt.known.newer(tt.pod), tt.name)
		r := record{remote: *tt.known}
		assert.Equal(t, tt.want, r.observe(tt.pod), tt.name)
		if tt.want {
			assert.Equal(t, tt.pod.ResourceVersion, r.remote.version)
		}
	}
}

func TestWhatAnObjectTells(t *testing.T) {
	r := remote{}.after(object("1", v1.PodStatus{Message: "a\xff"}, dying), &plain.Spec)
	assert.Equal(t, "a\uFFFD", r.status.Message, "as it will be compared")
	assert.True(t, r.deleting)
	r.refused = [][]byte{{1}}
	r = r.after(object("2", v1.PodStatus{Message: "a\uFFFD"}), &plain.Spec)
	assert.True(t, r.deleting, "there is no way back")
	assert.NotEmpty(t, r.refused, "the same status: the server is as it was")
	r = r.after(object("3", v1.PodStatus{Message: "b"}), &plain.Spec)
	assert.Empty(t, r.refused, "another one wrote")
	r.deleted = true
	r = r.after(object("1", v1.PodStatus{}, func(p *v1.Pod) { p.UID = "other" }), &plain.Spec)
	assert.False(t, r.deleting || r.deleted, "another pod")

	into := record{}
	into.setRef(object("1", v1.PodStatus{}, dying))
	into.setRef(plain)
	assert.True(t, into.remote.deleting)
	assert.Equal(t, PodRef{Namespace: "ns", Name: "a", UID: "u"}, into.remote.ref)
}

// TestAnswersToPatches: patches not stored by the server are remembered, up to a limit.
func TestAnswersToPatches(t *testing.T) {
	r := remote{}.after(object("5", v1.PodStatus{}), &plain.Spec)
	r.doubt = true
	merged := v1.PodStatus{Phase: v1.PodRunning}
	blind := r.applied(nil, &plain.Spec, &step{merged: merged})
	assert.Equal(t, merged, *blind.status)
	assert.Equal(t, r.ref, blind.ref)
	assert.False(t, blind.doubt || blind.gone)

	kept := r.applied(object("6", merged), &plain.Spec, &step{merged: merged, patch: []byte("p")})
	assert.Empty(t, kept.refused)
	assert.Equal(t, "6", kept.version)
	stale := kept.applied(object("4", v1.PodStatus{Phase: v1.PodPending}), &plain.Spec, &step{merged: merged, patch: []byte("p")})
	assert.Equal(t, "6", stale.version, "an answer that is older than what is known")
	assert.Equal(t, v1.PodRunning, stale.status.Phase)

	for i := range 3 * maxRefused {
		patch := fmt.Appendf(nil, "patch %d", i)
		r = r.applied(object(fmt.Sprint(10+i), v1.PodStatus{}), &plain.Spec, &step{merged: merged, patch: patch})
		require.Len(t, r.refused, min(i+1, maxRefused))
		assert.True(t, r.refuses(patch))
		assert.False(t, r.doubt)
	}
	assert.False(t, r.refuses([]byte("patch 0")))
	assert.True(t, r.refuses(fmt.Appendf(nil, "patch %d", 2*maxRefused)))
}

func TestRefusesEnd(t *testing.T) {
	end, going := &v1.PodStatus{Phase: v1.PodFailed}, &v1.PodStatus{Phase: v1.PodRunning}
	refused := [][]byte{{1}}
	for _, tt := range []struct {
		name         string
		refused      [][]byte
		theirs, ours *v1.PodStatus
		want         bool
	}{
		{"refused", refused, going, end, true},
		{"nothing was refused", nil, going, end, false},
		{"not ended", refused, going, going, false},
		{"the server has it", refused, end, end, false},
		{"nothing is said", refused, going, nil, false},
		{"nothing is known", refused, nil, end, false},
	} {
		assert.Equal(t, tt.want, (&remote{refused: tt.refused, status: tt.theirs}).refusesEnd(tt.ours), tt.name)
	}
}

func TestStartsAnew(t *testing.T) {
	static := plain.DeepCopy()
	static.Annotations = map[string]string{podfacts.AnnotationSource: "file", podfacts.AnnotationHash: "h1"}
	edited := static.DeepCopy()
	edited.Annotations[podfacts.AnnotationHash] = "h2"
	for _, tt := range []struct {
		name     string
		pod      *v1.Pod
		unsaid   bool
		finished bool
		source   source
		finish   finish
		want     bool
	}{
		{"goes on", static, false, false, fromCaller, goesOn, false},
		{"the first status", static, true, false, fromCaller, goesOn, true},
		{"after its end", static, false, true, fromCaller, goesOn, true},
		{"its end, once more", static, false, true, fromCaller, ends, false},
		{"another manifest", edited, false, false, fromCaller, goesOn, true},
		{"another manifest, by the server", edited, false, false, fromServer, goesOn, false},
		{"a pod of the API server", plain, false, true, fromCaller, goesOn, false},
	} {
		r := &record{status: &v1.PodStatus{}, manifest: "h1", finished: tt.finished}
		if tt.unsaid {
			r.status, r.manifest = nil, ""
		}
		assert.Equal(t, tt.want, r.startsAnew(proposal{pod: tt.pod, source: tt.source, finish: tt.finish}), tt.name)
	}
}

func TestAstray(t *testing.T) {
	gated := plain.DeepCopy()
	gated.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: theirs}}
	static := plain.DeepCopy()
	static.Annotations = map[string]string{podfacts.AnnotationSource: "file"}
	end, going := &v1.PodStatus{Phase: v1.PodFailed}, &v1.PodStatus{Phase: v1.PodRunning}
	for _, tt := range []struct {
		name         string
		pod          *v1.Pod
		theirs, ours *v1.PodStatus
		want         bool
	}{
		{"the same", plain, going, going, false},
		{"they have ended it", plain, end, going, true},
		{"we have", plain, going, end, false},
		{"a static pod may come back", static, end, going, false},
		{"gates may have changed", gated, going, going, true},
		{"nothing is known", gated, nil, going, false},
		{"nothing is said", gated, end, nil, false},
	} {
		assert.Equal(t, tt.want, (&record{pod: tt.pod, status: tt.ours, remote: remote{status: tt.theirs}}).astray(), tt.name)
	}
}

// TestNextStep: the next step, and whether the server has every status.
func TestNextStep(t *testing.T) {
	said := func(status v1.PodStatus, edits ...func(*record)) *record {
		r := &record{}
		r.says(plain, status, t0)
		for _, edit := range edits {
			edit(r)
		}
		return r
	}
	observed := func(status *v1.PodStatus, edits ...func(*v1.Pod)) func(*record) {
		return func(r *record) {
			if status == nil {
				status = r.status
			}
			r.observe(object("1", *status, edits...))
		}
	}
	finished := func(r *record) { r.finished = true }
	going := v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{runs("a")}}
	end := v1.PodStatus{Phase: v1.PodFailed, ContainerStatuses: []v1.ContainerStatus{ended("a", 1)}}
	older := func(r *record) { // times and generations possibly written by other writers
		other := r.status.DeepCopy()
		for i := range other.Conditions {
			other.Conditions[i].LastTransitionTime = metav1.NewTime(t0.Add(-time.Hour))
			other.Conditions[i].ObservedGeneration = 77
		}
		observed(other)(r)
	}
	for _, tt := range []struct {
		name    string
		record  *record
		facts   facts
		want    Request
		settled bool
		held    bool
	}{
		{"nothing is said", &record{}, facts{canGet: true}, RequestNone, false, false},
		{"nothing is said of a known pod", &record{remote: remote{ref: refOf(plain)}}, facts{canGet: true}, RequestNone, false, false},
		{"nothing is said of a pod without a getter", &record{pod: plain, remote: remote{ref: refOf(plain)}}, facts{}, RequestNone, false, false},
		{"nobody to say it to", said(going, func(r *record) { r.remote.ref = PodRef{} }), facts{canGet: true}, RequestNone, false, false},
		{"the pod is gone", said(going, func(r *record) { r.remote.gone = true }), facts{canGet: true}, RequestNone, true, false},
		{"first the server is asked", said(going), facts{canGet: true}, RequestGet, false, false},
		{"it cannot be asked", said(going), facts{}, RequestPatch, false, false},
		{"it is not known what phase to leave", said(end), facts{mayRun: true}, RequestNone, false, true},
		{"it has another", said(going, observed(&v1.PodStatus{Phase: v1.PodPending})), facts{}, RequestPatch, false, false},
		{"it has it", said(going, observed(nil)), facts{}, RequestNone, true, false},
		{"it has it, at other times", said(going, older), facts{}, RequestNone, true, false},
		{"it may have something else", said(going, observed(nil), func(r *record) { r.remote.doubt = true }), facts{}, RequestPatch, false, false},
		{"the end is kept back", said(end, observed(&v1.PodStatus{Phase: v1.PodRunning})), facts{mayRun: true}, RequestPatch, false, true},
		{"it can go", said(end, finished, observed(nil, dying)), facts{}, RequestDelete, false, false},
		{"it is told already", said(end, finished, observed(nil, dying), func(r *record) { r.remote.deleted = true }), facts{}, RequestNone, true, false},
		{"something may run", said(end, finished, observed(nil, dying)), facts{mayRun: true}, RequestNone, true, false},
		{"not finished here", said(end, observed(nil, dying)), facts{}, RequestNone, true, false},
		{"not to be deleted", said(end, finished, observed(nil)), facts{}, RequestNone, true, false},
	} {
		s, err := tt.record.next(tt.facts, t0.Add(time.Millisecond))
		require.NoError(t, err)
		assert.Equal(t, tt.want, s.request, "%s: %s", tt.name, s.patch)
		assert.Equal(t, tt.settled, s.settled, tt.name)
		assert.Equal(t, tt.held, s.held, tt.name)
		assert.Equal(t, tt.record.version, s.version, tt.name)
		assert.Equal(t, tt.record.remote.ref, s.ref, tt.name)
	}

	inDoubt := said(end, observed(&v1.PodStatus{Phase: v1.PodPending}), func(r *record) { r.remote.doubt = true })
	s, err := inDoubt.next(facts{mayRun: true}, t0)
	require.NoError(t, err)
	assert.True(t, s.held)
	assert.NotContains(t, string(s.patch), `"phase"`, "a patch without an answer may have set a later phase")

	for _, now := range []time.Time{t0.Add(time.Hour), t0.Add(time.Hour + time.Second)} {
		reverted := said(going, func(r *record) {
			other := r.status.DeepCopy()
			*podfacts.Condition(other.Conditions, v1.PodReady) = v1.PodCondition{
				Type: v1.PodReady, Status: no, LastTransitionTime: metav1.NewTime(t0.Add(time.Minute)),
			}
			observed(other)(r)
		})
		s, err := reverted.next(facts{}, now.Add(7*time.Millisecond))
		require.NoError(t, err)
		assert.Equal(t, now.Unix(), podfacts.Condition(s.merged.Conditions, v1.PodReady).LastTransitionTime.Unix(), "in whole seconds, as the server stores it")
	}

	refuses := said(end, finished, observed(&v1.PodStatus{Phase: v1.PodRunning}, dying))
	s, _ = refuses.next(facts{}, t0)
	refuses.remote.refused = [][]byte{s.patch}
	s, _ = refuses.next(facts{}, t0)
	assert.Equal(t, RequestNone, s.request, "not deleted before the server knows of the end")
	blind := said(end, finished, func(r *record) { r.remote.deleting = true })
	assert.False(t, blind.deletable(facts{}), "nor without knowing")
	assert.True(t, blind.awaitsDelete())
	for _, not := range []func(r *record){
		func(r *record) { r.finished = false }, func(r *record) { r.remote.deleting = false }, func(r *record) { r.remote.deleted = true },
	} {
		r := *blind
		not(&r)
		assert.False(t, r.awaitsDelete())
	}
}

func TestSettleSteps(t *testing.T) {
	fresh := func() *record {
		return &record{pod: plain, version: 3, held: true, status: &v1.PodStatus{}, remote: remote{ref: refOf(plain)}}
	}
	for _, tt := range []struct {
		name  string
		step  step
		pod   *v1.Pod
		acked uint64
		held  bool
	}{
		{"told", step{request: RequestPatch, version: 2}, nil, 2, false},
		{"told but for the end", step{request: RequestPatch, version: 2, held: true}, nil, 0, true},
		{"nothing to tell", step{version: 3, settled: true}, nil, 3, false},
		{"not yet", step{version: 3}, nil, 0, false},
		{"the end is kept back", step{version: 3, held: true}, nil, 0, true},
		{"asked", step{request: RequestGet, version: 3, ref: refOf(plain)}, object("1", v1.PodStatus{}), 0, true},
		{"asked, and replaced", step{request: RequestGet, version: 3}, object("1", v1.PodStatus{}), 3, false},
	} {
		r := fresh()
		r.settle(&tt.step, tt.pod, t0)
		assert.Equal(t, tt.acked, r.acked, tt.name)
		assert.Equal(t, tt.held, r.held, tt.name)
		assert.Equal(t, tt.acked < r.version, r.dirty(), tt.name)
	}
	r := fresh()
	r.settle(&step{request: RequestGet}, object("1", v1.PodStatus{}), t0)
	assert.True(t, r.remote.gone)
	assert.Equal(t, t0, r.remote.goneSince)
	r = fresh()
	r.settle(&step{request: RequestDelete}, nil, t0)
	assert.True(t, r.remote.deleted)
	assert.False(t, (&record{}).dirty())
}

// TestSinceWhenItIsChanged: the latency of a write counts from the first status that the write before did not carry.
func TestSinceWhenItIsChanged(t *testing.T) {
	r := &record{}
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	say := func(second int) {
		changed, _ := r.says(plain, v1.PodStatus{Phase: v1.PodRunning, Message: fmt.Sprint(second)}, at(second))
		require.True(t, changed)
	}
	say(1)
	r.sent = 1
	say(2)
	say(3)
	assert.Equal(t, at(1), r.changed)
	r.ack(1)
	assert.Equal(t, at(2), r.changed)
	r.following = at(50)
	r.ack(1)
	assert.Equal(t, at(2), r.changed, "nothing new is acknowledged")
	r.ack(3)
	assert.Equal(t, at(2), r.changed, "nothing is left")
	assert.False(t, r.dirty())
	say(4)
	assert.Equal(t, at(4), r.changed)
}

func TestClassOfARecord(t *testing.T) {
	withReady := func(phase v1.PodPhase, ready v1.ConditionStatus) *v1.PodStatus {
		return &v1.PodStatus{Phase: phase, Conditions: []v1.PodCondition{cond(v1.PodReady, ready, 0)}}
	}
	const pending, going, failed = v1.PodPending, v1.PodRunning, v1.PodFailed
	for _, tt := range []struct {
		name                string
		guess, theirs, ours *v1.PodStatus
		finished, deleting  bool
		want                Class
	}{
		{"nothing is said", withReady(going, yes), nil, nil, false, false, ClassOther},
		{"it ends", withReady(going, yes), nil, withReady(failed, no), false, false, ClassTerminal},
		{"the server knows the end", withReady(going, yes), withReady(failed, no), withReady(failed, no), false, false, ClassOther},
		{"it is to be deleted", withReady(failed, no), nil, withReady(failed, no), true, true, ClassTerminal},
		{"finished here", withReady(failed, no), nil, withReady(failed, no), true, false, ClassOther},
		{"being deleted", withReady(failed, no), nil, withReady(failed, no), false, true, ClassOther},
		{"it runs", withReady(pending, no), nil, withReady(going, no), false, false, ClassReady},
		{"it is ready", withReady(going, no), nil, withReady(going, yes), false, false, ClassReady},
		{"the server knows better than the pod", withReady(going, no), withReady(going, yes), withReady(going, yes), false, false, ClassOther},
		{"nothing of that", withReady(going, yes), nil, withReady(going, yes), false, false, ClassOther},
	} {
		r := &record{pod: object("1", *tt.guess), status: tt.ours, finished: tt.finished, remote: remote{status: tt.theirs, deleting: tt.deleting}}
		assert.Equal(t, tt.want, r.class(), tt.name)
	}
}

// TestAcceptedStatuses: the accepted parts of a contradictory status.
func TestAcceptedStatuses(t *testing.T) {
	never := podWith(v1.RestartPolicyNever, nil, "a")
	claims := []v1.PodCondition{cond(v1.ContainersReady, yes, 1), cond(v1.PodReady, yes, 1)}
	for clamped, first := range map[bool]v1.ContainerStatus{true: ended("a", 0), false: waits("a")} {
		r := &record{}
		r.says(never, v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{first}}, t0)
		unready := runs("a")
		unready.Ready = false
		_, clamps := r.says(never, v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{unready}, Conditions: claims}, t0)
		assert.Equal(t, clamped, len(clamps) == 1)
		assert.Equal(t, !clamped, conditionStatus(r.status.Conditions, v1.PodReady) == yes, "a container that was put back is not ready")
	}

	gated := plain.DeepCopy()
	gated.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: theirs}}
	gated.Status.Conditions = []v1.PodCondition{cond(theirs, yes, 1)}
	going := v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{runs("a")}}
	r := &record{}
	r.says(gated, *going.DeepCopy(), t0)
	assert.Equal(t, yes, conditionStatus(r.status.Conditions, v1.PodReady), "the gates of the pod, while the server's are not known")
	r.observe(object("1", v1.PodStatus{Conditions: []v1.PodCondition{cond(theirs, no, 1)}}))
	r.says(gated, *going.DeepCopy(), t0)
	assert.Equal(t, no, conditionStatus(r.status.Conditions, v1.PodReady))

	said := r.said
	changed, _ := r.accept(proposal{pod: gated, status: &v1.PodStatus{Phase: v1.PodRunning, Message: "x"}, source: fromServer}, t0)
	assert.True(t, changed)
	assert.Equal(t, said, r.said, "the server's object called for it")
	assert.Greater(t, r.version, said)
}

// TestAStaticPodComesBack: it is not finished any more, and may start again; without a phase its phase stays.
func TestAStaticPodComesBack(t *testing.T) {
	for _, source := range []string{"file", "api"} {
		pod := plain.DeepCopy()
		pod.Annotations = map[string]string{podfacts.AnnotationSource: source}
		r := &record{}
		r.says(pod, v1.PodStatus{Phase: v1.PodRunning}, t0)
		r.finished = true
		r.says(pod, v1.PodStatus{}, t0)
		assert.Equal(t, v1.PodRunning, r.status.Phase)
		assert.Equal(t, source == "api", r.finished)
		_, clamps := r.says(pod, v1.PodStatus{Phase: v1.PodPending}, t0)
		assert.Equal(t, source == "api", len(clamps) == 1)
	}
}

// TestInitAgainAgainstTheServer: init containers that run again do not undo the end of a pod on the server.
func TestInitAgainAgainstTheServer(t *testing.T) {
	pod := podWith(v1.RestartPolicyAlways, []string{"i"}, "a")
	waiting := v1.PodStatus{Phase: v1.PodPending, ContainerStatuses: []v1.ContainerStatus{waits("a")}}
	for theirs, complaints := range map[v1.PodPhase]int{v1.PodRunning: 0, v1.PodFailed: 1} {
		r := &record{}
		r.says(pod, *waiting.DeepCopy(), t0)
		r.observe(object("1", v1.PodStatus{Phase: theirs}))
		s := waiting.DeepCopy()
		assert.Len(t, r.clampPhases(pod, r.status, s), complaints)
		assert.Equal(t, theirs, s.Phase)
	}
}

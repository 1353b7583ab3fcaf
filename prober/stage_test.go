// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/probertest"
)

// stage runs a script: it has a Prober, containers with configured behaviour, and a journal of all events.
type stage struct {
	t       *testing.T
	began   time.Time
	handler *probertest.Handler
	prober  *prober.Prober
	pods    map[types.UID]*v1.Pod
	stop    func()
	agents  int

	mu      sync.Mutex
	journal []entry
}

// entry is one line of the journal. Entries of the same instant may come in any order, so the journal shows them by
// subject.
type entry struct {
	at      time.Duration
	subject string
	rank    int
	text    string
}

// Within one instant and subject: attempts, then events, then updates.
const (
	rankAttempt = iota
	rankEvent
	rankUpdate
)

func newStage(t *testing.T) *stage {
	s := &stage{t: t, began: time.Now(), handler: &probertest.Handler{}, pods: map[types.UID]*v1.Pod{}}
	s.runAgent()
	return s
}

// runAgent replaces the Prober by a new Prober without state.
func (s *stage) runAgent() {
	if s.stop != nil {
		s.stop()
	}
	s.agents++
	p, err := prober.New(prober.Options{
		Handler: s.handler, Sink: prober.SinkFunc(s.updated), Events: s, OnAttempt: s.attempted,
		Jitter: func(period time.Duration) time.Duration { return period / 2 },
	})
	require.NoError(s.t, err)
	s.prober, s.stop = p, run(s.t, p)
}

// run runs p until the returned func is called.
func run(t testing.TB, p *prober.Prober) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func (s *stage) note(subject string, rank int, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal = append(s.journal, entry{time.Since(s.began), subject, rank, fmt.Sprintf(format, args...)})
}

func (s *stage) flush() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.journal, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.subject, b.subject), cmp.Compare(a.rank, b.rank))
	})
	var lines []string
	for _, e := range s.journal {
		lines = append(lines, fmt.Sprintf("%5.1fs  %s", e.at.Seconds(), e.text))
	}
	s.journal = nil
	return lines
}

// subjectOf sorts the probes of an instance by importance.
func subjectOf(id string, kind prober.Type) string { return id + string('9'-byte(kind)) }

func (s *stage) attempted(a prober.Attempt) {
	text := fmt.Sprintf("%s %s: %s", a.Target.Instance.ID, a.Target.Type, a.Verdict)
	if a.Threshold > 0 {
		text += fmt.Sprintf(" %d/%d", a.Run, a.Threshold)
	}
	if a.Err != nil {
		text += fmt.Sprintf(" (%v, tried %d times)", a.Err, a.Tries)
	}
	if d := a.Duration(); d > 0 {
		text += fmt.Sprintf(" after %s", d)
	}
	s.note(subjectOf(a.Target.Instance.ID, a.Target.Type), rankAttempt, "%s", text)
}

func (s *stage) Event(object apiruntime.Object, eventType, reason, message string) {
	ref, ok := object.(*v1.ObjectReference)
	require.True(s.t, ok)
	for _, kind := range []prober.Type{prober.Startup, prober.Readiness, prober.Liveness} {
		if strings.HasPrefix(message, kind.String()) {
			pod := s.pods[ref.UID]
			require.Equal(s.t, pod.Name, ref.Name)
			s.note(subjectOf("", kind), rankEvent, "  event %s %s %s: %s", eventType, ref.FieldPath, reason, message)
			return
		}
	}
	s.t.Errorf("the event of no probe: %s %s: %s", eventType, reason, message)
}

func (s *stage) updated(u prober.Update) {
	text := fmt.Sprintf("  %s %s is now %s", u.ID, u.Type, u.Result)
	if u.TerminationGracePeriodSeconds != nil {
		text += fmt.Sprintf(", grace %d", *u.TerminationGracePeriodSeconds)
	}
	s.note(subjectOf(u.ID, u.Type), rankUpdate, "%s", text)
}

// do executes one command and waits until everything settles.
func (s *stage) do(line string) {
	words := strings.Fields(line)
	commands := map[string]func([]string){
		"pod": s.pod, "start": s.start, "stop": s.stopProbes, "add": s.add, "on": s.on, "status": s.status,
		"terminating": func(w []string) { s.prober.StopLivenessAndStartup(types.UID(w[0])) },
		"remove":      func(w []string) { s.prober.RemovePod(types.UID(w[0])) },
		"keep": func(w []string) {
			s.prober.CleanupPods(func(uid types.UID) bool { return slices.Contains(w, string(uid)) })
		},
		"agent": func([]string) { s.runAgent() },
		"wait":  func(w []string) { time.Sleep(s.duration(w[0])) },
	}
	command, ok := commands[words[0]]
	require.True(s.t, ok, "unknown command: %s", line)
	command(words[1:])
	synctest.Wait()
}

func (s *stage) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(s.t, err)
	return d
}

func kindOf(word string) prober.Type {
	return map[string]prober.Type{
		"liveness": prober.Liveness, "readiness": prober.Readiness, "startup": prober.Startup, "all": prober.All,
	}[word]
}

// pod describes a container of a pod, whose UID is its name: pod POD CONTAINER [sidecar] [KIND=key:seconds,…] [deleted].
func (s *stage) pod(words []string) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: words[0], UID: types.UID(words[0])}}
	if last, ok := s.pods[pod.UID]; ok {
		pod = last.DeepCopy()
	}
	c := v1.Container{Name: words[1]}
	isSidecar := slices.Contains(words, "sidecar")
	if slices.Contains(words, "deleted") {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	for _, word := range words[2:] {
		if kind, spec, ok := strings.Cut(word, "="); ok {
			setProbe(&c, kindOf(kind), s.probe(spec))
		}
	}
	list := &pod.Spec.Containers
	if isSidecar {
		always := v1.ContainerRestartPolicyAlways
		c.RestartPolicy, list = &always, &pod.Spec.InitContainers
	}
	*list = append(slices.DeleteFunc(*list, func(old v1.Container) bool { return old.Name == c.Name }), c)
	s.pods[pod.UID] = pod
}

func setProbe(c *v1.Container, kind prober.Type, probe *v1.Probe) {
	switch kind {
	case prober.Startup:
		c.StartupProbe = probe
	case prober.Readiness:
		c.ReadinessProbe = probe
	case prober.Liveness:
		c.LivenessProbe = probe
	}
}

func (s *stage) probe(spec string) *v1.Probe {
	p := &v1.Probe{}
	for field := range strings.SplitSeq(spec, ",") {
		key, value, _ := strings.Cut(field, ":")
		n, err := strconv.Atoi(value)
		require.NoError(s.t, err, spec)
		switch key {
		case "delay":
			p.InitialDelaySeconds = int32(n)
		case "period":
			p.PeriodSeconds = int32(n)
		case "timeout":
			p.TimeoutSeconds = int32(n)
		case "success":
			p.SuccessThreshold = int32(n)
		case "failure":
			p.FailureThreshold = int32(n)
		case "grace":
			grace := int64(n)
			p.TerminationGracePeriodSeconds = &grace
		default:
			s.t.Fatalf("unknown field of a probe: %s", key)
		}
	}
	return p
}

// start calls Start for a new instance: start POD CONTAINER ID [AGO].
func (s *stage) start(words []string) {
	in := prober.Instance{ID: words[2], StartedAt: time.Now(), PodIP: "10.0.0.1"}
	if len(words) > 3 {
		in.StartedAt = in.StartedAt.Add(-s.duration(words[3]))
	}
	s.prober.Start(s.pods[types.UID(words[0])], words[1], in)
}

// stopProbes: stop ID KIND….
func (s *stage) stopProbes(words []string) {
	var kinds prober.Type
	for _, word := range words[1:] {
		kinds |= kindOf(word)
	}
	s.prober.Stop(words[0], kinds)
}

// add calls AddPod: add POD nothing-known | CONTAINER=ID[,adopted][,started][,ready][,ago:DURATION]….
func (s *stage) add(words []string) {
	pod := s.pods[types.UID(words[0])]
	if slices.Contains(words, "nothing-known") {
		s.prober.AddPod(pod, nil)
		return
	}
	running := map[string]prober.Instance{}
	for _, word := range words[1:] {
		name, told, _ := strings.Cut(word, "=")
		facts := strings.Split(told, ",")
		in := prober.Instance{
			ID: facts[0], StartedAt: time.Now(), PodIP: "10.0.0.1", Adopted: slices.Contains(facts, "adopted"),
			Started: slices.Contains(facts, "started"), Ready: slices.Contains(facts, "ready"),
		}
		for _, fact := range facts {
			if ago, ok := strings.CutPrefix(fact, "ago:"); ok {
				in.StartedAt = in.StartedAt.Add(-s.duration(ago))
			}
		}
		running[name] = in
	}
	s.prober.AddPod(pod, running)
}

// on tells how a container behaves: on CONTAINER KIND pass|fail|warn|hang|break [DURATION].
func (s *stage) on(words []string) {
	b := map[string]probertest.Behaviour{
		"pass": probertest.Pass(), "fail": probertest.Fail(), "warn": probertest.Warn(), "hang": probertest.Hang(),
		"break": probertest.Break("cannot be asked"),
	}[words[2]]
	if len(words) > 3 {
		b.Takes = s.duration(words[3])
	}
	s.handler.Set("", words[0], kindOf(words[1]), b)
}

// status prints the result of UpdatePodStatus for a status: status POD CONTAINER=ID….
func (s *stage) status(words []string) {
	status := v1.PodStatus{}
	for _, word := range words[1:] {
		name, id, _ := strings.Cut(word, "=")
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{
			Name: name, ContainerID: id, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		})
	}
	s.prober.UpdatePodStatus(s.pods[types.UID(words[0])], &status)
	for _, c := range status.ContainerStatuses {
		s.note("", 0, "%s: started=%t ready=%t", c.ContainerID, *c.Started, c.Ready)
	}
}

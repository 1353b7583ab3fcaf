// SPDX-License-Identifier: Apache-2.0

package podworkers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/podfacts"
)

// stage is where a script is played: Workers, an actor, and the pods as the script last described them.
type stage struct {
	t       *testing.T
	actor   *actor
	workers *Workers
	pods    map[types.UID]*v1.Pod
	over    chan struct{} // closed when the script ends
	stop    func()        // ends Run; nil if not running
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, actor: newActor(), pods: map[types.UID]*v1.Pod{}, over: make(chan struct{})}
	s.workers = newWorkers(t, Options{Syncer: s.actor})
	return s
}

func (s *stage) end() {
	close(s.over)
	if s.stop != nil {
		s.stop()
	}
}

// words are the arguments of a command: key=value, or key alone.
type words map[string]string

// do executes one command and waits until everything settles.
func (s *stage) do(line string) {
	fields := strings.Fields(line)
	args, names := words{}, []types.UID{}
	for _, field := range fields[1:] {
		key, value, pair := strings.Cut(field, "=")
		args[key] = value
		if !pair {
			names = append(names, types.UID(key))
		}
	}
	commands := map[string]func(words, []types.UID){
		"create":  func(a words, n []types.UID) { s.update(UpdateCreate, n[0], a) },
		"update":  func(a words, n []types.UID) { s.update(UpdateUpdate, n[0], a) },
		"sync":    func(a words, n []types.UID) { s.update(UpdateSync, n[0], a) },
		"kill":    func(a words, n []types.UID) { s.update(UpdateKill, n[0], a) },
		"orphan":  s.orphan,
		"on":      s.on,
		"known":   s.known,
		"set":     s.set,
		"stopall": s.stopAll,
		"hint":    func(_ words, n []types.UID) { s.actor.note(theScript, "Sync %s: %t", n[0], s.workers.Sync(n[0])) },
		"info":    s.info,
		"ask":     s.ask,
		"killpod": s.killPod,
		"watch":   s.watch,
		"wait":    func(_ words, n []types.UID) { time.Sleep(s.duration(string(n[0]))) },
		"run":     func(words, []types.UID) { s.stop = runUntilStopped(s.t, s.workers) },
		"stop":    func(words, []types.UID) { s.stop(); s.stop = nil },
	}
	command, ok := commands[fields[0]]
	require.True(s.t, ok, "unknown command: %s", line)
	command(args, names)
	synctest.Wait()
}

func (s *stage) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(s.t, err)
	return d
}

func (s *stage) seconds(a words, key string) *int64 {
	text, ok := a[key]
	if !ok || text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(s.t, err)
	return &n
}

// pod returns a new version of a pod, changed by: static=NAME spec=SECONDS deleted[=SECONDS] phase=PHASE name=NAME.
func (s *stage) pod(uid types.UID, a words) *v1.Pod {
	pod := testPod(uid, version("0"))
	if last, ok := s.pods[uid]; ok {
		pod = last.DeepCopy()
	}
	number, err := strconv.Atoi(pod.ResourceVersion)
	require.NoError(s.t, err)
	version(strconv.Itoa(number + 1))(pod)
	if name, ok := a["static"]; ok {
		static(name)(pod)
	}
	if name, ok := a["name"]; ok {
		pod.Name = name
	}
	if spec := s.seconds(a, "spec"); spec != nil {
		pod.Spec.TerminationGracePeriodSeconds = spec
	}
	if _, ok := a["deleted"]; ok {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		pod.DeletionGracePeriodSeconds = s.seconds(a, "deleted")
	}
	if phase, ok := a["phase"]; ok {
		pod.Status.Phase = v1.PodPhase(phase)
	}
	s.pods[uid] = pod
	return pod
}

// update sends an update with a new version of the pod: mirror=VERSION, and for a kill grace=SECONDS evict status=TEXT.
func (s *stage) update(typ UpdateType, uid types.UID, a words) {
	u := Update{Type: typ, Pod: s.pod(uid, a)}
	if mirror, ok := a["mirror"]; ok {
		u.MirrorPod = testPod("mirror-"+uid, version(mirror))
	}
	if typ == UpdateKill {
		u.Kill = s.killOptions(a)
	}
	if err := s.workers.UpdatePod(u); err != nil {
		s.actor.note(theScript, "UpdatePod %s: %v", uid, err)
	}
}

func (s *stage) killOptions(a words) *KillOptions {
	_, evict := a["evict"]
	o := &KillOptions{Evict: evict, GracePeriodSeconds: s.seconds(a, "grace")}
	if text, ok := a["status"]; ok {
		o.Status = func(status *v1.PodStatus) { status.Message += text }
	}
	return o
}

func (s *stage) orphan(a words, names []types.UID) {
	u := Update{Type: UpdateKill, Orphan: &Orphan{UID: names[0], Namespace: "ns", Name: string(names[0])}}
	if grace := s.seconds(a, "grace"); grace != nil {
		u.Kill = &KillOptions{GracePeriodSeconds: grace}
	}
	if err := s.workers.UpdatePod(u); err != nil {
		s.actor.note(theScript, "UpdatePod %s: %v", names[0], err)
	}
}

// on casts a role: on UID METHOD OUTCOME [takes=DURATION|takes=forever] [deaf].
func (s *stage) on(a words, names []types.UID) {
	_, deaf := a["deaf"]
	r := role{outcome: string(names[2]), deaf: deaf}
	switch takes := a["takes"]; takes {
	case "":
	case "forever":
		r.takes = -1
	default:
		r.takes = s.duration(takes)
	}
	s.actor.cast(names[0], string(names[1]), r)
}

// known calls SyncKnownPods with the given pods.
func (s *stage) known(_ words, names []types.UID) {
	var desired []*v1.Pod
	for _, uid := range names {
		desired = append(desired, testPod(uid))
	}
	known := s.workers.SyncKnownPods(desired)
	s.actor.note(theScript, "known:")
	for _, uid := range slices.Sorted(maps.Keys(known)) {
		s.actor.note(theScript, "  %s %s", uid, summary(known[uid]))
	}
}

// set calls SetPods with the given pods, each as last set; a pod UID=HASH is static with another manifest of the given
// hash. With partial, some sources have not reported.
func (s *stage) set(a words, names []types.UID) {
	var pods []*v1.Pod
	for uid, hash := range a {
		if uid == "partial" {
			continue
		}
		pod, ok := s.pods[types.UID(uid)]
		if !ok || hash != "" {
			pod = s.pod(types.UID(uid), words{})
		}
		if hash != "" {
			static("static-" + uid)(pod)
			pod.Annotations[podfacts.AnnotationHash] = hash
		}
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	if err := s.workers.SetPods(pods, !slices.Contains(names, "partial")); err != nil {
		s.actor.note(theScript, "SetPods: %v", err)
	}
}

// stopAll calls StopAll, for at most timeout=DURATION.
func (s *stage) stopAll(a words, _ []types.UID) {
	ctx, cancel := context.WithCancel(s.t.Context())
	if timeout, ok := a["timeout"]; ok {
		ctx, cancel = context.WithTimeout(s.t.Context(), s.duration(timeout))
	}
	go func() {
		defer cancel()
		s.actor.note(waiters, "StopAll: %v", s.workers.StopAll(ctx))
	}()
}

func (s *stage) info(_ words, names []types.UID) {
	known, ok := s.workers.Info(names[0])
	if !ok {
		s.actor.note(theScript, "%s is unknown", names[0])
		return
	}
	s.actor.note(theScript, "%s %s", names[0], summary(known))
	if known.LastError != nil {
		s.actor.note(theScript, "  attempt %d: %v", known.Attempt, known.LastError)
	}
	if !known.NextSync.IsZero() {
		s.actor.note(theScript, "  next call in %s", time.Until(known.NextSync))
	}
}

// summary puts a WorkerInfo into words.
func summary(i WorkerInfo) string {
	told := []string{i.State.String()}
	for _, fact := range []struct {
		holds bool
		word  string
	}{
		{i.Busy, "busy"}, {i.Finished, "finished"}, {i.Orphan, "orphan"}, {!i.HasConfig, "no-config"},
		{i.Exclusive, "exclusive"}, {!i.Started, "not-started"}, {i.Evicted, "evicted"}, {i.Deleted, "deleted"},
		{i.RestartRequested, "restart-requested"},
	} {
		if fact.holds {
			told = append(told, fact.word)
		}
	}
	if i.GracePeriodSeconds != 0 {
		told = append(told, fmt.Sprintf("grace=%d", i.GracePeriodSeconds))
	}
	return strings.Join(told, " ")
}

// ask lists the true predicates.
func (s *stage) ask(_ words, names []types.UID) {
	w, uid := s.workers, names[0]
	var holds []string
	for _, predicate := range []struct {
		name  string
		holds bool
	}{
		{"CouldHaveRunningContainers", w.CouldHaveRunningContainers(uid)},
		{"IsPodTerminationRequested", w.IsPodTerminationRequested(uid)},
		{"ShouldPodContainersBeTerminating", w.ShouldPodContainersBeTerminating(uid)},
		{"IsPodKnownTerminated", w.IsPodKnownTerminated(uid)},
		{"ShouldPodRuntimeBeRemoved", w.ShouldPodRuntimeBeRemoved(uid)},
		{"ShouldPodContentBeRemoved", w.ShouldPodContentBeRemoved(uid)},
		{"ShouldPodBeFinished", w.ShouldPodBeFinished(uid)},
		{"IsPodForMirrorPodTerminatingByFullName", w.IsPodForMirrorPodTerminatingByFullName(string(uid) + "_ns")},
	} {
		if predicate.holds {
			holds = append(holds, predicate.name)
		}
	}
	s.actor.note(theScript, "%s: %s", uid, strings.Join(holds, " "))
}

// killPod calls KillPod concurrently with the script: killpod UID [timeout=DURATION] and the arguments of kill.
func (s *stage) killPod(a words, names []types.UID) {
	pod, options, ctx, cancel := s.pod(names[0], a), s.killOptions(a), s.t.Context(), func() {}
	if timeout, ok := a["timeout"]; ok {
		ctx, cancel = context.WithTimeout(ctx, s.duration(timeout))
	}
	go func() {
		defer cancel()
		s.actor.note(waiters+string(pod.UID), "KillPod %s: %v", pod.UID, s.workers.KillPod(ctx, pod, *options))
	}()
}

// watch notes when Terminated closes.
func (s *stage) watch(_ words, names []types.UID) {
	done := s.workers.Terminated(names[0])
	go func() {
		select {
		case <-done:
			s.actor.note(waiters+string(names[0]), "Terminated %s", names[0])
		case <-s.over:
		}
	}()
}

// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// stage runs a script: it has a manager, its API server, and the pods as last described by the script.
type stage struct {
	t      *testing.T
	server *statustest.Server
	*statusmanager.Manager
	pods   map[string]*v1.Pod
	mayRun map[types.UID]bool
	fault  *statustest.Injected
	began  time.Time
	out    []string
	shown  int // entries of the server's journal
	stop   func()
}

func newStage(t *testing.T) *stage {
	s := &stage{
		t: t, server: newServer(t, statustest.Options{Latency: 20 * time.Millisecond}), pods: map[string]*v1.Pod{},
		mayRun: map[types.UID]bool{}, began: time.Now(),
	}
	s.restart()
	s.server.Watch(func(pod *v1.Pod) { s.Observed(pod) })
	return s
}

// restart replaces the manager by a new manager, which knows only the objects of a watch.
func (s *stage) restart() {
	if s.stop != nil {
		s.stop()
	}
	s.Manager = newManager(s.t, statusmanager.Options{
		Patcher: s.server, Pods: s.server, Workers: 1,
		Safety: statusmanager.SafetyFunc(func(uid types.UID) bool { return s.mayRun[uid] }),
		Jitter: func(d time.Duration) time.Duration { return d },
	})
	s.stop = start(s.t, s.Manager)
}

func (s *stage) do(line string) {
	fields := strings.Fields(line)
	commands := map[string]func(args []string){
		"pod":       s.pod,
		"mirror":    func(a []string) { s.server.CreateMirror(s.pods[a[0]]) },
		"set":       s.set,
		"ready":     func(a []string) { s.result(s.SetContainerReadiness(types.UID(a[0]), "fake://"+a[1], a[2] == "yes")) },
		"started":   func(a []string) { s.result(s.SetContainerStartup(types.UID(a[0]), "fake://"+a[1], a[2] == "yes")) },
		"terminate": func(a []string) { s.result(s.TerminatePod(s.pods[a[0]])) },
		"delete":    s.delete,
		"remove":    func(a []string) { s.server.Remove(types.UID(a[0])) },
		"orphan": func(a []string) {
			s.RemoveOrphanedStatuses(func(uid types.UID) bool { return string(uid) != a[0] })
		},
		"others":  s.others,
		"mayrun":  func(a []string) { s.mayRun[types.UID(a[0])] = a[1] == "yes" },
		"fault":   s.inject,
		"up":      func([]string) { s.fault.Clear() },
		"get":     s.get,
		"restart": func([]string) { s.restart() },
		"wait": func(a []string) {
			d, err := time.ParseDuration(a[0])
			require.NoError(s.t, err)
			time.Sleep(d)
		},
	}
	command, ok := commands[fields[0]]
	require.True(s.t, ok, "unknown command: %s", line)
	command(fields[1:])
	synctest.Wait()
}

func (s *stage) note(format string, args ...any) {
	s.out = append(s.out, fmt.Sprintf("%7.2fs  ", time.Since(s.began).Seconds())+fmt.Sprintf(format, args...))
}

func (s *stage) result(changed bool, err error) {
	switch {
	case err != nil:
		s.note("%v", err)
	case !changed:
		s.note("no news")
	}
}

// flush returns the events since the last flush, in order.
func (s *stage) flush() []string {
	synctest.Wait()
	journal := s.server.Journal()
	requests := journal[s.shown:]
	slices.SortStableFunc(requests, func(a, b statustest.Entry) int { return int(a.At - b.At) })
	out := s.out
	for _, e := range requests {
		result := "ok"
		switch {
		case e.Err != nil:
			result = strings.ReplaceAll(e.Err.Error(), "\n", "; ")
		case e.Request != statusmanager.RequestGet && !e.Changed:
			result = "nothing changed"
		}
		out = append(out, fmt.Sprintf("%7.2fs  %s %s%s: %s", e.At.Seconds(), e.Request, e.Pod.UID, summary(s.t, e.Patch), result))
	}
	s.shown, s.out = len(journal), nil
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(a[:8], b[:8]) })
	return out
}

// pod NAME [static] [policy=P] [gate=T] [containers=a,b] creates a pod on the API server, unless it is static.
func (s *stage) pod(args []string) {
	pod := testPod(types.UID(args[0]))
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "static":
			static(pod)
		case "policy":
			policy(v1.RestartPolicy(value))(pod)
		case "gate":
			gate(v1.PodConditionType(value))(pod)
		case "containers":
			containers(strings.Split(value, ",")...)(pod)
		}
	}
	if pod.Annotations == nil {
		pod = s.server.Create(pod)
	}
	s.pods[args[0]] = pod
}

// set NAME PHASE [CONTAINER=STATE]... where STATE is running, ready, exit code or a reason to wait.
func (s *stage) set(args []string) {
	st := status(v1.PodPhase(args[1]))
	for _, arg := range args[2:] {
		name, state, _ := strings.Cut(arg, "=")
		code, err := strconv.Atoi(state)
		switch {
		case err == nil:
			st.ContainerStatuses = append(st.ContainerStatuses, exited(name, int32(code)))
		case state == "running":
			st.ContainerStatuses = append(st.ContainerStatuses, running(name))
		case state == "ready":
			st.ContainerStatuses = append(st.ContainerStatuses, ready(name))
		default:
			st.ContainerStatuses = append(st.ContainerStatuses, waiting(name, state))
		}
	}
	s.result(s.SetPodStatus(s.pods[args[0]], st))
}

func (s *stage) delete(args []string) {
	pod, err := s.server.Delete(types.UID(args[0]))
	require.NoError(s.t, err)
	s.pods[args[0]] = pod
}

// others NAME TYPE=STATUS... sets conditions as another writer.
func (s *stage) others(args []string) {
	_, err := s.server.Change(types.UID(args[0]), func(pod *v1.Pod) {
		for _, arg := range args[1:] {
			kind, value, _ := strings.Cut(arg, "=")
			c := condition(pod.Status, v1.PodConditionType(kind))
			if c == nil {
				pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.PodConditionType(kind)})
				c = &pod.Status.Conditions[len(pod.Status.Conditions)-1]
			}
			c.Status, c.LastTransitionTime = v1.ConditionStatus(value), metav1.NewTime(time.Now().Truncate(time.Second))
		}
	})
	require.NoError(s.t, err)
}

// fault WHAT [pod=NAME] [times=N] where WHAT is down, lost, 500, 409, 422 or 429:SECONDS.
func (s *stage) inject(args []string) {
	what, seconds, _ := strings.Cut(args[0], ":")
	retryAfter, _ := strconv.Atoi(seconds)
	f := statustest.Fault{}
	switch what {
	case "down":
		f.Err = errors.New("connection refused")
	case "lost":
		f.DoneButReplyLost = true
	default:
		code, err := strconv.Atoi(what)
		require.NoError(s.t, err)
		f.Err = apierrors.NewGenericServerResponse(code, "patch", v1.Resource("pods"), "", "", retryAfter, false)
	}
	for _, arg := range args[1:] {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "pod":
			f.Pod = value
		case "times":
			f.Times, _ = strconv.Atoi(value)
		}
	}
	s.fault = inject(s.t, s.server, f)
}

func (s *stage) get(args []string) {
	for _, where := range []string{"here", "there"} {
		got, ok := s.GetPodStatus(types.UID(args[0]))
		if where == "there" {
			var pod *v1.Pod
			if pod, ok = s.server.Pod(types.UID(args[0])); ok {
				got = pod.Status
			}
		}
		if !ok {
			s.note("%s %s: none", args[0], where)
			continue
		}
		var conditions []string
		for _, c := range got.Conditions {
			at := c.LastTransitionTime.Sub(s.began).Round(time.Second)
			conditions = append(conditions, fmt.Sprintf("%s=%s@%s", c.Type, c.Status, at))
		}
		slices.Sort(conditions)
		s.note("%s %s: %s", args[0], where, strings.Join(append([]string{string(got.Phase)}, conditions...), " "))
	}
}

// summary is the phase, the conditions and the names of the other fields that a patch sets.
func summary(t *testing.T, patch string) string {
	if patch == "" {
		return ""
	}
	p := struct{ Status map[string]json.RawMessage }{}
	require.NoError(t, json.Unmarshal([]byte(patch), &p))
	var phase string
	var others, conditions []string
	for name, value := range p.Status {
		switch name {
		case "phase":
			phase = " " + strings.Trim(string(value), `"`)
		case "conditions":
			var list []map[string]any
			require.NoError(t, json.Unmarshal(value, &list))
			for _, c := range list {
				value := c["status"]
				if c["$patch"] != nil {
					value = "gone"
				}
				conditions = append(conditions, fmt.Sprintf(" %s=%v", c["type"], value))
			}
		default:
			others = append(others, " "+name)
		}
	}
	slices.Sort(others)
	slices.Sort(conditions)
	return phase + strings.Join(conditions, "") + strings.Join(others, "")
}

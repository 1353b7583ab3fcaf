// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/runtime"
)

// gcNow is the time of garbage collection in these tests.
func gcNow() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

func minutesAgo(n int) time.Time { return gcNow().Add(-time.Duration(n) * time.Minute) }

// gcPods reads pods from lines, newest of everything first:
//
//	u1 s1+ s0- a=running@1/s1 a=exited@5/s1 b=unknown@9/s0
//
// is pod u1 with a ready sandbox s1 and one that is not, and containers with
// name=state@age/sandbox. Ages are minutes: since the end if exited, else since
// the creation; "exited@5-60" was created 60 minutes ago. IDs are pod.name.age.
func gcPods(lines ...string) []*runtime.PodStatus {
	states := map[string]runtime.State{
		"running": runtime.StateRunning, "exited": runtime.StateExited,
		"created": runtime.StateCreated, "unknown": runtime.StateUnknown,
	}
	var pods []*runtime.PodStatus
	for _, line := range lines {
		words := strings.Fields(line)
		pod := &runtime.PodStatus{UID: types.UID(words[0]), Namespace: "default", Name: words[0]}
		counts := map[string]int32{}
		for _, word := range words[1:] {
			name, rest, isContainer := strings.Cut(word, "=")
			if !isContainer {
				pod.Sandboxes = append(pod.Sandboxes, runtime.SandboxStatus{
					ID: runtime.SandboxID(word[:len(word)-1]), Ready: strings.HasSuffix(word, "+"),
				})
				continue
			}
			state, rest, _ := strings.Cut(rest, "@")
			ages, sandbox, _ := strings.Cut(rest, "/")
			age, createdAge, _ := strings.Cut(ages, "-")
			c := runtime.ContainerStatus{
				ID:   runtime.ContainerID{Runtime: "t", ID: fmt.Sprintf("%s.%s.%s", pod.UID, name, age)},
				Name: name, State: states[state], Sandbox: runtime.SandboxID(sandbox), CreatedAt: minutesAgo(atoi(age) + 1),
			}
			if c.State == runtime.StateExited {
				c.FinishedAt = minutesAgo(atoi(age))
			}
			if createdAge != "" {
				c.CreatedAt = minutesAgo(atoi(createdAge))
			}
			counts[name]++
			pod.Containers = append(pod.Containers, c)
		}
		for i := range pod.Containers { // the newest has the highest count
			c := &pod.Containers[i]
			counts[c.Name]--
			c.RestartCount = counts[c.Name]
		}
		pods = append(pods, pod)
	}
	return pods
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// gcFates says "u1 over, u2 gone".
func gcFates(text string) func(types.UID) runtime.PodFate {
	fates := map[types.UID]runtime.PodFate{}
	for part := range strings.SplitSeq(text, ",") {
		if words := strings.Fields(part); len(words) == 2 {
			fates[types.UID(words[0])] = map[string]runtime.PodFate{"over": runtime.PodOver, "gone": runtime.PodGone}[words[1]]
		}
	}
	return func(uid types.UID) runtime.PodFate { return fates[uid] }
}

// brief returns the removals of a plan, with "!" for a stop before the removal.
func brief(actions []runtime.GCAction) []string {
	out := []string{}
	for _, a := range actions {
		switch a.Op {
		case runtime.GCRemoveContainer:
			s := a.Container.ID
			if a.Stop {
				s = "!" + s
			}
			out = append(out, s)
		case runtime.GCRemoveSandbox:
			out = append(out, string(a.Sandbox))
		default:
			out = append(out, a.Path)
		}
	}
	return out
}

// allReported and noneReported are values for GCQuery.Reported.
func allReported(types.UID, runtime.ContainerID) bool  { return true }
func noneReported(types.UID, runtime.ContainerID) bool { return false }

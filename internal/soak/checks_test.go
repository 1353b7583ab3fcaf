// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// tale is a made-up history, second by second.
type tale struct {
	*ledger
	began time.Time
}

func newTale() *tale {
	t := &tale{ledger: newLedger(newJournal()), began: time.Now()}
	t.written("web")
	return t
}

func (t *tale) at(second int) time.Time { return t.began.Add(time.Duration(second) * time.Second) }

func shapeOf(name string) *shape {
	for _, s := range shapes {
		if s.name == name {
			return s
		}
	}
	return nil
}

// written is the next generation of pod p.
func (t *tale) written(shape string) {
	s := shapeOf(shape)
	t.write("p", s, newPod("/f", "p", t.number("p"), s), t.began)
}

// says lets instance i of generation g of p's main say something.
func (t *tale) says(second, g int, i string, e Event, code int) {
	t.record(Record{At: t.at(second), Event: e, Pod: "p", Generation: g, Container: "main", Instance: i, Code: code, Text: "main"})
}

// shown is the answer of /pods for a generation of p.
func shown(g int, phase v1.PodPhase, containers ...v1.ContainerStatus) v1.Pod {
	pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p-" + nodeName, UID: "u", Labels: map[string]string{labelGeneration: fmt.Sprint(g)}}}
	pod.Status.Phase, pod.Status.ContainerStatuses = phase, containers
	if phase == v1.PodRunning {
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	return pod
}

func (t *tale) shows(second int, pods ...v1.Pod) {
	t.sampled(sample{began: t.at(second), ended: t.at(second), pods: pods})
}

// runs is a running container, with its previous end if caused by the end of an instance.
func runs(id string, restarts int32, last string, code int32) v1.ContainerStatus {
	c := v1.ContainerStatus{Name: "main", ContainerID: "c://" + id, RestartCount: restarts}
	c.State.Running = &v1.ContainerStateRunning{}
	if last != "" {
		c.LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: code, Message: last, ContainerID: "c://of" + last}
	}
	return c
}

// TestViolationsAreSeen injects one fault at a time.
func TestViolationsAreSeen(t *testing.T) {
	const a, b = "aaaaaaaaaa", "bbbbbbbbbb" // instances
	for name, c := range map[string]struct {
		tell func(t *tale)
		want string // "" = nothing is wrong
	}{
		"a life": {func(t *tale) {
			t.says(1, 1, a, Started, 0)
			t.shows(2, shown(1, v1.PodRunning, runs("x", 0, "", 0)))
			t.says(3, 1, a, Ended, 3)
			t.says(4, 1, b, Started, 0)
			t.shows(5, shown(1, v1.PodRunning, runs("y", 1, a, 3)))
			t.remove("p", t.at(6))
			t.shows(7)
		}, ""},
		"two instances":    {func(t *tale) { t.says(1, 1, a, Started, 0); t.says(1, 1, a, Doubled, 0) }, "DOUBLED"},
		"a volume is lost": {func(t *tale) { t.says(1, 1, a, Started, 0); t.says(1, 1, a, VolumeLost, 0) }, "VOLUME-LOST"},
		"two instances as a shim dies": {func(t *tale) {
			t.disturbed = []period{{t.at(1), t.at(2)}}
			t.says(1, 1, a, Started, 0)
			t.says(2, 1, b, Started, 0)
			t.record(Record{At: t.at(2), Event: Doubled, Pod: "p", Generation: 1, Container: "main", Instance: b, Text: a})
			t.shows(20, shown(1, v1.PodRunning, runs("y", 1, a, 137)))
		}, "DOUBLED"},
		"two instances as containerd says that there is one": {func(t *tale) {
			t.disturbed = []period{{t.at(1), t.at(2)}}
			t.says(1, 1, a, Started, 0)
			t.says(2, 1, b, Started, 0)
			t.record(Record{At: t.at(2), Event: Doubled, Pod: "p", Generation: 1, Container: "main", Instance: b, Text: a})
			t.shows(20, shown(1, v1.PodRunning, runs("y", 1, a, 255)))
		}, ""},
		"a generation nobody wrote": {func(t *tale) { t.says(1, 2, a, Started, 0) }, "nobody ever wrote"},
		"an earlier generation": {func(t *tale) {
			t.written("web")
			t.says(1, 2, a, Started, 0)
			t.says(2, 1, b, Started, 0)
		}, "generation 2 has started before"},
		"a removed pod starts": {func(t *tale) {
			t.remove("p", t.at(1))
			t.shows(2)
			t.says(3, 1, a, Started, 0)
		}, "the pod was removed"},
		"a removed pod starts as its agent died": {func(t *tale) {
			t.remove("p", t.at(1))
			t.shows(2)
			t.orphaning = []period{{from: t.at(2), to: t.at(4)}}
			t.says(3, 1, a, Started, 0)
		}, ""},
		"a removed pod that is still shown": {func(t *tale) {
			t.remove("p", t.at(1))
			t.shows(2, shown(1, v1.PodRunning))
			t.says(3, 1, a, Started, 0)
		}, ""},
		"a pod that was over starts": {func(t *tale) {
			t.shows(1, shown(1, v1.PodFailed))
			t.says(2, 1, a, Started, 0)
		}, "the pod was Failed"},
		"a pod that was over runs": {func(t *tale) {
			t.shows(1, shown(1, v1.PodSucceeded))
			t.shows(2, shown(1, v1.PodRunning))
		}, "was Succeeded and is Running"},
		"a pod that is never restarted starts twice": {func(t *tale) {
			t.written("once")
			t.says(1, 2, a, Started, 0)
			t.says(2, 2, b, Started, 0)
		}, "never restarted"},
		"the restart count falls": {func(t *tale) {
			t.shows(1, shown(1, v1.PodRunning, runs("x", 2, "", 0)))
			t.shows(2, shown(1, v1.PodRunning, runs("y", 1, "", 0)))
		}, "falls from 2 to 1"},
		"a container comes back": {func(t *tale) {
			t.shows(1, shown(1, v1.PodRunning, runs("x", 0, "", 0)))
			t.shows(2, shown(1, v1.PodRunning, runs("y", 1, "", 0)))
			t.shows(3, shown(1, v1.PodRunning, runs("x", 1, "", 0)))
		}, "is x again"},
		"another code": {func(t *tale) {
			t.says(1, 1, a, Started, 0)
			t.says(2, 1, a, Ended, 3)
			t.shows(3, shown(1, v1.PodRunning, runs("y", 1, a, 255)))
		}, "said to have ended with 255"},
		"another code while containerd was away": {func(t *tale) {
			t.disturbed = []period{{from: t.at(1)}}
			t.says(1, 1, a, Started, 0)
			t.says(2, 1, a, Ended, 3)
			t.shows(3, shown(1, v1.PodRunning, runs("y", 1, a, 255)))
		}, ""},
		"an end that changes": {func(t *tale) {
			t.says(1, 1, a, Started, 0)
			t.shows(3, shown(1, v1.PodRunning, runs("y", 1, a, 1)))
			t.shows(4, shown(1, v1.PodRunning, runs("y", 1, a, 2)))
		}, "was code 1"},
	} {
		t.Run(name, func(t *testing.T) {
			story := newTale()
			c.tell(story)
			broken := story.broken()
			if c.want == "" {
				require.Empty(t, broken)
				return
			}
			require.Len(t, broken, 1)
			assert.Contains(t, broken[0], c.want)
		})
	}
}

// TestWhatIsUnsettledIsSeen changes one fact at a time in a settled view.
func TestWhatIsUnsettledIsSeen(t *testing.T) {
	const a, b = "aaaaaaaaaa", "bbbbbbbbbb"
	main := process{"p", 1, "main"}
	for name, c := range map[string]struct {
		change func(t *tale, v *view)
		want   string
	}{
		"nothing":          {func(*tale, *view) {}, ""},
		"no pod":           {func(_ *tale, v *view) { v.pods = nil }, "/pods shows 0"},
		"two pods":         {func(_ *tale, v *view) { v.pods = append(v.pods, v.pods[0]) }, "/pods shows 2"},
		"an older pod":     {func(t *tale, v *view) { t.written("web"); delete(v.processes, main) }, "wanted is generation 2"},
		"an older process": {func(_ *tale, v *view) { v.processes[process{"p", 2, "main"}] = []int{3} }, "processes [3] of generation 2"},
		"no process":       {func(_ *tale, v *view) { delete(v.processes, main) }, "has 0 processes of main"},
		"two processes":    {func(_ *tale, v *view) { v.processes[main] = []int{1, 2} }, "has 2 processes of main"},
		"not ready":        {func(_ *tale, v *view) { v.pods[0].Status.Conditions = nil }, "not ready"},
		"over":             {func(_ *tale, v *view) { v.pods[0].Status.Phase, v.processes, v.sandboxes = v1.PodFailed, nil, nil }, "a web that is Failed"},
		"no sandbox":       {func(_ *tale, v *view) { v.sandboxes = nil }, "has 0 sandboxes"},
		"an old config":    {func(_ *tale, v *view) { v.version = 8 }, "has version 7"},
		"an end not told": {func(_ *tale, v *view) {
			v.pods[0].Status.ContainerStatuses[0].LastTerminationState.Terminated = nil
		}, "is not told"},
		"another end told": {func(_ *tale, v *view) {
			v.pods[0].Status.ContainerStatuses[0].LastTerminationState.Terminated.Message = "cccccccccc"
		}, "not of " + a},
		"a restart not counted": {func(_ *tale, v *view) { v.pods[0].Status.ContainerStatuses[0].RestartCount = 0 }, "restart count 0 after 2"},
		"removed and shown":     {func(t *tale, v *view) { t.remove("p", t.at(9)); v.processes, v.sandboxes = nil, nil }, "on /pods"},
		"removed and running":   {func(t *tale, v *view) { t.remove("p", t.at(9)); v.pods, v.sandboxes = nil, nil }, "processes [1]"},
		"removed, its sandbox":  {func(t *tale, v *view) { t.remove("p", t.at(9)); v.pods, v.processes = nil, nil }, "1 sandboxes"},
	} {
		t.Run(name, func(t *testing.T) {
			story := newTale()
			story.says(1, 1, a, Started, 0)
			story.says(2, 1, a, Ended, 3)
			story.says(3, 1, b, Started, 0)
			story.says(3, 1, b, Saw, 7)
			v := &view{version: 7, processes: map[process][]int{main: {1}}}
			v.pods = []v1.Pod{shown(1, v1.PodRunning, runs("y", 1, a, 3))}
			v.sandboxes = []*cri.PodSandbox{{Metadata: &cri.PodSandboxMetadata{Name: "p-" + nodeName, Uid: "u"}}}
			c.change(story, v)
			wrong := story.unsettled(v)
			if c.want == "" {
				require.Empty(t, wrong)
				return
			}
			require.Len(t, wrong, 1)
			assert.Contains(t, wrong[0], c.want)
		})
	}
}

// TestFollowerReadsWholeRecords: an incomplete line is left for the next read.
func TestFollowerReadsWholeRecords(t *testing.T) {
	folder := Folder(t.TempDir())
	f := &follower{path: folder.Records()}
	defer f.close()
	got, err := f.read()
	require.NoError(t, err)
	require.Empty(t, got, "there is no file yet")
	want := Record{At: time.Unix(1, 0).UTC(), Event: Ended, Pod: "p", Generation: 2, Container: "c", Instance: "i", Code: 3}
	require.NoError(t, folder.Write(want))
	text, err := os.ReadFile(folder.Records())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(folder.Records(), append(text, text[:20]...), 0o644))
	got, err = f.read()
	require.NoError(t, err)
	require.Equal(t, []Record{want}, got)
	require.NoError(t, os.WriteFile(folder.Records(), append(text, text...), 0o644))
	got, err = f.read()
	require.NoError(t, err)
	require.Equal(t, []Record{want}, got)
}

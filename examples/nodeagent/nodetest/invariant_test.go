// SPDX-License-Identifier: Apache-2.0

package nodetest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodetest"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/fake"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// tale makes histories up. Times are in seconds.
type tale struct{ h nodetest.History }

func sec(at float64) time.Duration { return time.Duration(at * float64(time.Second)) }

// told submits pods of the source of static pods: NAME@UID, with an optional manifest for all.
func (t *tale) told(at float64, pods ...*v1.Pod) {
	t.h.Told = append(t.h.Told, nodetest.Told{At: sec(at), Source: podconfig.SourceFile, Pods: pods})
}

func (t *tale) toldByAPI(at float64, pods ...*v1.Pod) {
	t.h.Told = append(t.h.Told, nodetest.Told{At: sec(at), Source: podconfig.SourceAPI, Pods: pods})
}

func (t *tale) mark(at float64, kind nodetest.MarkKind) {
	t.h.Marks = append(t.h.Marks, nodetest.Mark{At: sec(at), Kind: kind})
}

// happens records an event of an instance of container c.
func (t *tale) happens(at float64, op fake.Op, uid types.UID, id, detail string) {
	e := fake.Entry{Call: fake.Call{Op: op, UID: uid, Namespace: "default", Pod: string(uid[:1]), Container: "c"}, At: sec(at), ID: id, Detail: detail}
	if op == fake.OpStartContainer {
		e.Done, e.DoneAt = true, sec(at)
	}
	t.h.Calls = append(t.h.Calls, e)
}

func (t *tale) starts(at float64, uid types.UID, id string) {
	t.happens(at, fake.OpStartContainer, uid, id, "")
}

func (t *tale) exits(at float64, uid types.UID, id string) {
	t.happens(at, fake.OpExited, uid, id, "code 0 (Completed)")
}

// published is the status of container c of a pod.
func (t *tale) published(at float64, pod *v1.Pod, phase v1.PodPhase, c v1.ContainerStatus) {
	c.Name = "c"
	status := v1.PodStatus{Phase: phase, ContainerStatuses: []v1.ContainerStatus{c}}
	t.h.Statuses = append(t.h.Statuses, nodetest.Published{At: sec(at), Pod: pod, Status: status})
}

func isRunning(id string, restarts int32) v1.ContainerStatus {
	return v1.ContainerStatus{ContainerID: "fake://" + id, RestartCount: restarts, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

func hasEnded(id string, restarts, code int32, reason string) v1.ContainerStatus {
	terminated := &v1.ContainerStateTerminated{ContainerID: "fake://" + id, ExitCode: code, Reason: reason}
	return v1.ContainerStatus{ContainerID: "fake://" + id, RestartCount: restarts, State: v1.ContainerState{Terminated: terminated}}
}

func manifest(uid types.UID, hash string) *v1.Pod {
	pod := nodetest.Pod(string(uid[:1]), nodetest.Container("c"))
	pod.UID, pod.Annotations = uid, map[string]string{podconfig.AnnotationHash: hash}
	return pod
}

// Each violation is found. Similar correct histories are accepted.
func TestCheck(t *testing.T) {
	p, q := manifest("p1", "1"), manifest("p2", "1")
	for _, c := range []struct {
		name      string
		good, bad func(t *tale)
		want      string
	}{
		{
			name: "two instances of a container",
			good: func(t *tale) { t.told(0, p); t.starts(1, "p1", "a") },
			bad:  func(t *tale) { t.h.Overlaps = errors.New("a and b of p1/c ran at once") },
			want: "a and b of p1/c ran at once",
		}, {
			name: "two static pods of one name",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.told(2, q)
				t.exits(3, "p1", "a")
				t.starts(4, "p2", "b")
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.told(2, q)
				t.starts(3, "p2", "b")
				t.exits(4, "p1", "a")
			},
			want: "two pods default/p at once: b of p2 started while a of p1 ran",
		}, {
			name: "a start of what nobody ever wanted",
			good: func(t *tale) { t.told(0, p); t.starts(0, "p1", "a") },
			bad:  func(t *tale) { t.told(0, p); t.starts(1, "p2", "a") },
			want: "start of a (default/p p2), which no source ever wanted",
		}, {
			name: "a start of what is not wanted any more",
			good: func(t *tale) { t.told(0, p); t.starts(1, "p1", "a"); t.told(1) },
			bad:  func(t *tale) { t.told(0, p); t.told(1); t.starts(1.1, "p1", "a") },
			want: "although the agent was told at 1.000s that the pod is not wanted",
		}, {
			name: "a start of what somebody has deleted",
			good: func(t *tale) { t.toldByAPI(0, p); t.starts(1, "p1", "a"); t.toldByAPI(2, markDeleted(p)) },
			bad:  func(t *tale) { t.toldByAPI(0, p); t.toldByAPI(1, markDeleted(p)); t.starts(2, "p1", "a") },
			want: "although the agent was told at 1.000s that the pod is not wanted",
		}, {
			name: "a start of what came back before its end",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.told(2)
				t.told(3, p)
				t.exits(4, "p1", "a")
				t.starts(4, "p1", "b")
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.told(2)
				t.told(3, p)
				t.starts(4, "p1", "b")
				t.exits(5, "p1", "a")
			},
			want: "although the pod was told to end at 2.000s and a still ran",
		}, {
			name: "a start of what came back to an agent that could not see what ran",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.h.Calls = append(t.h.Calls, fake.Entry{Call: fake.Call{Op: fake.OpList}, At: sec(2), Err: errors.New("injected")})
				t.told(2)
				t.told(3, p)
				t.starts(4, "p1", "b")
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.h.Calls = append(t.h.Calls, fake.Entry{Call: fake.Call{Op: fake.OpList}, At: sec(2), Done: true, DoneAt: sec(2)})
				t.told(2)
				t.told(3, p)
				t.starts(4, "p1", "b")
			},
			want: "although the pod was told to end at 2.000s and a still ran",
		}, {
			name: "a start of another manifest before the end of the one before",
			good: func(t *tale) { // a new agent adopts the instances that it finds
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.mark(2, nodetest.MarkAgentStarted)
				t.told(2, manifest("p1", "2"))
				t.starts(3, "p1", "b")
				t.exits(5, "p1", "a")
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.told(2, manifest("p1", "2"))
				t.starts(3, "p1", "b")
				t.exits(5, "p1", "a")
			},
			want: "although the pod was told to end at 2.000s and a still ran",
		}, {
			name: "a phase that comes back from its end",
			good: func(t *tale) { // as another life of the same UID
				t.told(0, p)
				t.published(1, p, v1.PodFailed, isRunning("", 0))
				t.told(2)
				t.told(3, p)
				t.published(4, p, v1.PodPending, isRunning("", 0))
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.published(1, p, v1.PodFailed, isRunning("", 0))
				t.published(4, p, v1.PodPending, isRunning("", 0))
			},
			want: "phase of p (p1) goes from Failed to Pending",
		}, {
			name: "an end that turns into another",
			good: func(t *tale) {
				t.told(0, p)
				t.published(1, p, v1.PodFailed, isRunning("", 0))
				t.published(2, p, v1.PodFailed, isRunning("", 0))
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.published(1, p, v1.PodFailed, isRunning("", 0))
				t.published(2, p, v1.PodSucceeded, isRunning("", 0))
			},
			want: "phase of p (p1) goes from Failed to Succeeded",
		}, {
			name: "an end that somebody else has declared",
			good: func(t *tale) {
				t.toldByAPI(0, p)
				t.published(1, p, v1.PodSucceeded, isRunning("", 0))
				t.published(2, p, v1.PodFailed, isRunning("", 0))
				t.h.Statuses[1].Status.Reason = "NodeLost"
			},
			bad: func(t *tale) {
				t.toldByAPI(0, p)
				t.published(1, p, v1.PodSucceeded, isRunning("", 0))
				t.published(2, p, v1.PodRunning, isRunning("", 0))
				t.h.Statuses[1].Status.Reason = "NodeLost"
			},
			want: "phase of p (p1) goes from Succeeded to Running",
		}, {
			name: "a start of what is over",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.exits(2, "p1", "a")
				t.published(3, p, v1.PodSucceeded, hasEnded("a", 0, 0, "Completed"))
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.exits(2, "p1", "a")
				t.published(3, p, v1.PodSucceeded, hasEnded("a", 0, 0, "Completed"))
				t.starts(4, "p1", "b")
			},
			want: "start of b (p1/c), although the pod was Succeeded at 3.000s",
		}, {
			name: "an end that is published wrongly",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.exits(2, "p1", "a")
				t.published(3, p, v1.PodRunning, hasEnded("a", 0, 0, "Completed"))
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.exits(2, "p1", "a")
				t.published(3, p, v1.PodRunning, hasEnded("a", 0, 1, "Error"))
			},
			want: "a of p1 is published as ended with code 1 (Error), and did with code 0 (Completed)",
		}, {
			name: "an end before it comes",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.published(3, p, v1.PodRunning, isRunning("a", 0))
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.published(3, p, v1.PodRunning, hasEnded("a", 0, 0, "Completed"))
			},
			want: "a of p1 is published as ended with code 0 (Completed), and did with ",
		}, {
			name: "an end that is never published",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.exits(2, "p1", "a")
				t.starts(3, "p1", "b")
				last := isRunning("b", 1)
				last.LastTerminationState = hasEnded("a", 0, 0, "Completed").State
				t.published(4, p, v1.PodRunning, last)
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.exits(2, "p1", "a")
				t.starts(3, "p1", "b")
				t.published(4, p, v1.PodRunning, isRunning("b", 1))
			},
			want: "the end of a (p1/c, code 0 (Completed)) was never published, and b was started after it",
		}, {
			name: "an end that is published too late for the one before it",
			good: func(t *tale) {
				t.told(0, p)
				for n, id := range []string{"a", "b"} {
					t.starts(float64(n), "p1", id)
					t.exits(float64(n)+0.5, "p1", id)
				}
				t.starts(3, "p1", "c")
				last := isRunning("c", 2)
				last.LastTerminationState = hasEnded("b", 1, 0, "Completed").State
				t.published(4, p, v1.PodRunning, last)
			},
			bad: func(t *tale) {
				t.told(0, p)
				for n, id := range []string{"a", "b"} {
					t.starts(float64(n), "p1", id)
					t.exits(float64(n)+0.5, "p1", id)
				}
				t.published(2, p, v1.PodRunning, hasEnded("b", 1, 0, "Completed"))
			},
			want: "the end of a (p1/c, code 0 (Completed)) was never published, and b was started after it",
		}, {
			name: "a restart count that goes back",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.published(2, p, v1.PodRunning, isRunning("a", 0))
				t.published(3, p, v1.PodRunning, isRunning("a", 0))
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.published(2, p, v1.PodRunning, isRunning("a", 1))
				t.published(3, p, v1.PodRunning, isRunning("a", 0))
			},
			want: "restart count of p1/c goes from 1 to 0",
		}, {
			name: "a restart count of a life that ended as its last start took effect",
			good: func(t *tale) {
				t.told(0, p)
				t.told(5, manifest("p1", "2"))
				t.starts(5, "p1", "a")
				t.happens(5, fake.OpStopContainer, "p1", "a", "")
				t.published(5, p, v1.PodRunning, isRunning("a", 4))
				t.exits(7, "p1", "a")
				t.published(7, p, v1.PodRunning, hasEnded("a", 4, 0, "Completed"))
				t.starts(7, "p1", "b")
				t.published(8, p, v1.PodRunning, isRunning("b", 0))
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.told(5, manifest("p1", "2"))
				t.starts(5, "p1", "a")
				t.published(5, p, v1.PodRunning, isRunning("a", 4))
				t.exits(7, "p1", "a")
				t.published(7, p, v1.PodRunning, hasEnded("a", 4, 0, "Completed"))
				t.starts(7, "p1", "b")
				t.published(8, p, v1.PodRunning, isRunning("b", 0))
			},
			want: "restart count of p1/c goes from 4 to 0",
		}, {
			name: "a restart count that the API server had been told",
			good: func(t *tale) {
				t.toldByAPI(0, p)
				t.starts(1, "p1", "a")
				t.published(2, p, v1.PodRunning, isRunning("a", 1))
				t.happens(3, fake.OpLostRecords, "p1", "a", "")
				t.mark(3, nodetest.MarkAgentStarted)
				t.published(4, p, v1.PodRunning, isRunning("a", 0))
			},
			bad: func(t *tale) {
				t.toldByAPI(0, p)
				t.starts(1, "p1", "a")
				t.published(2, p, v1.PodRunning, isRunning("a", 1))
				t.h.Requests = statustest.Journal{{At: sec(2), Request: statusmanager.RequestPatch, Pod: statusmanager.PodRef{UID: "p1"}}}
				t.happens(3, fake.OpLostRecords, "p1", "a", "")
				t.mark(3, nodetest.MarkAgentStarted)
				t.published(4, p, v1.PodRunning, isRunning("a", 0))
			},
			want: "restart count of p1/c goes from 1 to 0",
		}, {
			name: "a restart count after a start that was heeded",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.h.Calls[0].DoneAt = sec(3)
				t.mark(2, nodetest.MarkAgentStarted)
				t.starts(4, "p1", "b")
				t.published(5, p, v1.PodRunning, isRunning("b", 1))
				t.mark(6, nodetest.MarkAgentStarted)
				t.published(6, p, v1.PodRunning, isRunning("b", 0))
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.mark(2, nodetest.MarkAgentStarted)
				t.starts(4, "p1", "b")
				t.published(5, p, v1.PodRunning, isRunning("b", 1))
				t.mark(6, nodetest.MarkAgentStarted)
				t.published(6, p, v1.PodRunning, isRunning("b", 0))
			},
			want: "restart count of p1/c goes from 1 to 0",
		}, {
			name: "a restart count of one agent after a start that nobody heeded",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.h.Calls[0].DoneAt = sec(3)
				t.mark(2, nodetest.MarkAgentStarted)
				t.starts(4, "p1", "b")
				t.published(5, p, v1.PodRunning, isRunning("b", 1))
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.h.Calls[0].DoneAt = sec(3)
				t.mark(2, nodetest.MarkAgentStarted)
				t.starts(4, "p1", "b")
				t.published(5, p, v1.PodRunning, isRunning("b", 1))
				t.published(6, p, v1.PodRunning, isRunning("b", 0))
			},
			want: "restart count of p1/c goes from 1 to 0",
		}, {
			name: "two instances with one restart count",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.published(1, p, v1.PodRunning, isRunning("a", 0))
				t.exits(2, "p1", "a")
				t.published(2, p, v1.PodRunning, hasEnded("a", 0, 0, "Completed"))
				t.starts(3, "p1", "b")
				t.published(4, p, v1.PodRunning, afterEnd(isRunning("b", 1), hasEnded("a", 0, 0, "Completed")))
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.published(1, p, v1.PodRunning, isRunning("a", 0))
				t.exits(2, "p1", "a")
				t.published(2, p, v1.PodRunning, hasEnded("a", 0, 0, "Completed"))
				t.starts(3, "p1", "b")
				t.published(4, p, v1.PodRunning, isRunning("b", 0))
			},
			want: "a and b of p1/c are both published with restart count 0",
		}, {
			name: "an end that is forgotten",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.exits(2, "p1", "a")
				t.published(2, p, v1.PodRunning, hasEnded("a", 0, 0, "Completed"))
				t.mark(3, nodetest.MarkAgentStarted)
				t.starts(4, "p1", "b")
				t.published(4, p, v1.PodRunning, isRunning("b", 1))
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1, "p1", "a")
				t.exits(2, "p1", "a")
				t.published(2, p, v1.PodRunning, hasEnded("a", 0, 0, "Completed"))
				t.starts(4, "p1", "b")
				t.published(4, p, v1.PodRunning, isRunning("b", 1))
			},
			want: "published without any end",
		}, {
			name: "a volume that goes under a container",
			good: func(t *tale) {
				t.h.Volumes = []nodetest.VolumeEvent{{At: sec(1), UID: "p1", Volume: "v", What: nodetest.VolumeReady}, {At: sec(2), UID: "p1", Volume: "v", What: nodetest.VolumeLeaving}}
			},
			bad: func(t *tale) {
				t.h.Volumes = []nodetest.VolumeEvent{{At: sec(2), UID: "p1", Volume: "v", What: nodetest.VolumeLeaving, Running: []string{"c"}}}
			},
			want: "volume v of p1 is torn down while containers [c] run",
		}, {
			name: "a volume that goes during a start",
			good: func(t *tale) {
				t.told(0, p)
				t.starts(3, "p1", "a")
				t.h.Volumes = []nodetest.VolumeEvent{{At: sec(1), UID: "p1", Volume: "v", What: nodetest.VolumeReady}, {At: sec(2), UID: "p1", Volume: "v", What: nodetest.VolumeLeaving}}
			},
			bad: func(t *tale) {
				t.told(0, p)
				t.starts(1.5, "p1", "a")
				t.h.Calls[0].DoneAt = sec(3)
				t.h.Volumes = []nodetest.VolumeEvent{{At: sec(1), UID: "p1", Volume: "v", What: nodetest.VolumeReady}, {At: sec(2), UID: "p1", Volume: "v", What: nodetest.VolumeLeaving}}
			},
			want: "volume v of p1 is torn down while a is being started",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var good, bad tale
			c.good(&good)
			require.NoError(t, nodetest.Check(good.h))
			c.bad(&bad)
			require.ErrorContains(t, nodetest.Check(bad.h), c.want)
		})
	}
}

func afterEnd(now, before v1.ContainerStatus) v1.ContainerStatus {
	now.LastTerminationState = before.State
	return now
}

func markDeleted(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return pod
}

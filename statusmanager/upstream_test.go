// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// One test for each fault of the kubelet's status manager that contracts/prober-statusmanager.md §6.2 names.

// The kubelet has one goroutine with two requests per pod, one after the other: 10.5 s here.
func TestUpstream140936BurstOf250IsNotSerial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: 20 * time.Millisecond}, statusmanager.Options{})
		began := time.Now()
		for _, uid := range uids("p", 250) {
			n.set(n.server.Create(testPod(uid)), status(v1.PodRunning, running("main")))
		}
		for _, uid := range uids("p", 250) {
			require.NoError(t, n.WaitSynced(t.Context(), uid))
		}
		assert.LessOrEqual(t, time.Since(began), 500*time.Millisecond)
		assert.Equal(t, 250, n.server.Total(statusmanager.RequestPatch))
		assert.Zero(t, n.server.Total(statusmanager.RequestGet))
	})
}

// The kubelet writes in the order of a map. A Ready condition overtakes pods that were never written, which wait in
// another lane, and pods that were, which wait in the same queue.
func TestUpstream107897ReadyFlipsOvertakeABacklog(t *testing.T) {
	const latency = 20 * time.Millisecond
	for _, backlog := range []string{"new", "known"} {
		t.Run(backlog, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, statustest.Options{Latency: latency}, statusmanager.Options{})
				flip := n.server.Create(testPod("flip"))
				n.set(flip, status(v1.PodRunning, ready("main")))
				require.NoError(t, n.WaitSynced(t.Context(), "flip"))
				pods := uids("p", 1000)
				setAll := func(reason string) {
					for _, uid := range pods {
						n.set(n.server.Get(uid), status(v1.PodPending, waiting("main", reason)))
					}
				}
				for _, uid := range pods {
					n.server.Create(testPod(uid))
				}
				setAll("ContainerCreating")
				if backlog == "known" {
					for _, uid := range pods {
						require.NoError(t, n.WaitSynced(t.Context(), uid))
					}
					setAll("ErrImagePull")
				}
				time.Sleep(latency/2 + latency)
				began := time.Now()
				changed, err := n.SetContainerReadiness("flip", "fake://main", false)
				require.NoError(t, err)
				require.True(t, changed)
				require.NoError(t, n.WaitSynced(t.Context(), "flip"))
				assert.LessOrEqual(t, time.Since(began), 2*latency)
				assert.Greater(t, n.Stats().Unsynced, 900, "the backlog is still there")
			})
		})
	}
}

// The kubelet's at is never reset: from the second update on pod_status_sync_duration_seconds is the age of the pod.
func TestUpstreamLatencyIsThatOfTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events requestLog
		n := newNode(t, statustest.Options{Latency: 300 * time.Millisecond}, statusmanager.Options{OnRequest: events.add})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodPending, waiting("main", "ContainerCreating")))
		time.Sleep(time.Minute)
		n.set(pod, status(v1.PodRunning, running("main")))
		time.Sleep(100 * time.Millisecond)
		n.set(pod, status(v1.PodRunning, ready("main"))) // while the one before is in flight
		settle()
		got := events.all()
		require.Len(t, got, 3)
		assert.Equal(t, 300*time.Millisecond, got[0].Latency)
		assert.Equal(t, 300*time.Millisecond, got[1].Latency)
		assert.Equal(t, 500*time.Millisecond, got[2].Latency, "200 ms behind the other, 300 ms by itself")
	})
}

// The kubelet tries again whenever any pod changes, and else every 10 s; it knows neither back-off nor Retry-After.
func TestUpstreamRetriesBackOffAndHeedRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod, other := n.server.Create(testPod("a")), n.server.Create(testPod("b"))
		inject(t, n.server, statustest.Fault{Pod: "a", Times: 2, Err: apierrors.NewInternalError(errors.New("no"))})
		inject(t, n.server, statustest.Fault{Pod: "a", Times: 1, Err: apierrors.NewTooManyRequests("later", 7)})
		n.set(pod, status(v1.PodRunning, ready("main")))
		for i := range 100 { // other pods do not wake the pod
			n.set(other, status(v1.PodRunning, waiting("main", fmt.Sprint(i))))
			time.Sleep(200 * time.Millisecond)
		}
		var at []time.Duration
		for _, e := range n.server.Journal() {
			if e.Pod.Name == "a" {
				at = append(at, e.At)
			}
		}
		assert.Equal(t, []time.Duration{0, time.Second / 2, time.Second * 3 / 2, time.Second * 17 / 2}, at)
		assert.Equal(t, v1.ConditionTrue, conditionStatus(n.api("a"), v1.PodReady))
	})
}

// The kubelet asks for a pod that is gone whenever any pod changes.
func TestUpstreamGonePodIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		n.server.Remove("a")
		for i := range 100 {
			n.set(pod, status(v1.PodRunning, waiting("main", fmt.Sprint(i))))
			time.Sleep(time.Second)
		}
		assert.Len(t, n.server.Journal(), 1, n.server.Journal())
		require.NoError(t, n.WaitSynced(t.Context(), "a"), "nobody waits for what nobody can be told")

		n.server.Create(testPod("a")) // it was only lost from sight
		settle()
		assert.Equal(t, v1.PodRunning, n.api("a").Phase)
	})
}

// Every 10 s the kubelet compares every pod with a watch cache, which may be older than the kubelet's last write.
func TestUpstreamStaleWatchIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		old := n.server.Create(testPod("a"))
		n.set(old, status(v1.PodRunning, ready("main")))
		settle()
		for range 20 {
			n.Observed(old)
			n.Resync()
			time.Sleep(time.Minute)
		}
		assert.Len(t, n.server.Journal(), 1, n.server.Journal())
	})
}

// A field that the server drops makes the kubelet write for ever.
func TestUpstreamStatusThatNeverConvergesIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events requestLog
		drop := func(s *v1.PodStatus) { s.VolumeHealth, s.ObservedGeneration = nil, 0 }
		n := newNode(t, statustest.Options{Drop: drop}, statusmanager.Options{OnRequest: events.add})
		pod := n.server.Create(testPod("a"))
		s := status(v1.PodRunning, ready("main"))
		s.VolumeHealth = []v1.PodVolumeHealth{{Name: "data"}}
		n.set(pod, s)
		for i := range 50 {
			time.Sleep(time.Minute)
			_, err := n.server.Change("a", func(p *v1.Pod) { p.Labels = map[string]string{"round": fmt.Sprint(i)} })
			require.NoError(t, err)
		}
		settle()
		assert.LessOrEqual(t, len(events.all()), 2, n.server.Journal())
		assert.True(t, events.all()[0].Refused, "it is told")
		require.NoError(t, n.WaitSynced(t.Context(), "a"))

		n.set(pod, status(v1.PodRunning, running("main"))) // something else is still written
		settle()
		assert.Equal(t, v1.ConditionFalse, conditionStatus(n.api("a"), v1.PodReady))
	})
}

// A message cut in the middle of a rune is different on the server, for ever: one GET per pod every 10 s.
func TestUpstreamMessageIsNotCutMidRune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a", containers("a", "b", "c", "d"), policy(v1.RestartPolicyNever)))
		s := status(v1.PodFailed)
		for _, name := range []string{"a", "b", "c", "d"} {
			c := exited(name, 1)
			c.State.Terminated.Message = strings.Repeat("ü€", 2000) + "\xff"
			s.ContainerStatuses = append(s.ContainerStatuses, c)
		}
		n.set(pod, s)
		for range 10 {
			time.Sleep(time.Minute)
			n.Resync()
		}
		assert.Len(t, n.server.Journal(), 1)
		mine, _ := n.GetPodStatus("a")
		message := n.api("a").ContainerStatuses[0].State.Terminated.Message
		assert.Equal(t, mine.ContainerStatuses[0].State.Terminated.Message, message)
		assert.LessOrEqual(t, len(message), 12288/4)
		assert.NotContains(t, message, "\uFFFD")
		assert.False(t, n.set(pod, s), "the same status is no news")
	})
}

// The node controller sets all pods of an unreachable node to NotReady; the kubelet has missed the change more than
// once.
func TestUpstream80968ReadyComesBackAfterNodeNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, ready("main")))
		time.Sleep(time.Hour)
		began := metav1.Now()
		for range 3 {
			_, err := n.server.Change("a", func(p *v1.Pod) {
				c := condition(p.Status, v1.PodReady)
				c.Status, c.LastTransitionTime = v1.ConditionFalse, metav1.NewTime(time.Now().Truncate(time.Second))
			})
			require.NoError(t, err)
			settle()
			c := condition(n.api("a"), v1.PodReady)
			assert.Equal(t, v1.ConditionTrue, c.Status)
			assert.False(t, c.LastTransitionTime.Before(&began), "it became ready just now")
			time.Sleep(time.Minute)
		}
		assert.Equal(t, 4, n.server.Total(statusmanager.RequestPatch))
	})
}

// In the kubelet, one container with an implausible state freezes the status of its pod.
func TestUpstream87470IllegalTransitionDoesNotFreezeThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a", containers("job", "web"), policy(v1.RestartPolicyNever)))
		n.set(pod, status(v1.PodRunning, exited("job", 0), running("web")))
		settle()
		changed, err := n.SetPodStatus(pod, status(v1.PodRunning, running("job"), ready("web")))
		transition := &statusmanager.TransitionError{}
		require.ErrorAs(t, err, &transition)
		assert.True(t, changed)
		assert.Equal(t, []statusmanager.Clamp{{Container: "job", From: "terminated", To: "running"}}, transition.Clamps)
		settle()
		api := n.api("a")
		assert.NotNil(t, api.ContainerStatuses[0].State.Terminated, "job stays ended")
		assert.True(t, api.ContainerStatuses[1].Ready, "web goes on")
		assert.Equal(t, "containers with unready status: [job]", condition(api, v1.PodReady).Message)
	})
}

// According to the issue, a wake-up is lost if an update comes during the kubelet's batch; in fact the update waits for
// the whole batch.
func TestUpstream139037UpdateWhileInFlightIsWrittenNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: 100 * time.Millisecond}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, running("main")))
		time.Sleep(50 * time.Millisecond)
		n.set(pod, status(v1.PodRunning, ready("main")))
		time.Sleep(time.Second / 5)
		assert.Equal(t, v1.ConditionTrue, conditionStatus(n.api("a"), v1.PodReady))
		assert.Equal(t, 2, n.server.Total(statusmanager.RequestPatch))

		deaf := newManager(t, statusmanager.Options{Patcher: n.server}) // observes nothing
		start(t, deaf)
		other := n.server.Create(testPod("b"))
		for _, s := range []v1.PodStatus{status(v1.PodRunning, running("main")), status(v1.PodRunning, ready("main"))} {
			_, err := deaf.SetPodStatus(other, s)
			require.NoError(t, err)
			time.Sleep(150 * time.Millisecond) // the GET is over
		}
		time.Sleep(time.Second / 5)
		assert.Equal(t, v1.ConditionTrue, conditionStatus(n.api("b"), v1.PodReady))
	})
}

// The kubelet's version starts again at 1 when a static pod comes back, and waits for its 10 s pass.
func TestUpstreamStaticPodThatComesBackIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := testPod("hash", static)
		first := n.server.CreateMirror(pod)
		n.set(pod, status(v1.PodRunning, running("main")))
		n.set(pod, status(v1.PodRunning, ready("main")))
		settle()
		n.RemoveOrphanedStatuses(func(types.UID) bool { return false })
		n.server.Remove(first.UID)

		second := n.server.CreateMirror(pod)
		n.set(pod, status(v1.PodPending, waiting("main", "ContainerCreating")))
		settle()
		assert.Equal(t, "ContainerCreating", n.api(second.UID).ContainerStatuses[0].State.Waiting.Reason)
	})
}

// The kubelet hands out slices of its cache.
func TestUpstreamGetPodStatusDoesNotShareMemory(t *testing.T) {
	n := newManager(t, statusmanager.Options{})
	in := status(v1.PodRunning, ready("main"))
	_, err := n.SetPodStatus(testPod("a"), in)
	require.NoError(t, err)
	in.ContainerStatuses[0].Ready = false
	first, _ := n.GetPodStatus("a")
	first.ContainerStatuses[0].State.Running.StartedAt = metav1.Now()
	first.Conditions[0].Status = "broken"
	second, _ := n.GetPodStatus("a")
	assert.True(t, second.ContainerStatuses[0].Ready)
	assert.Equal(t, int64(1_700_000_000), second.ContainerStatuses[0].State.Running.StartedAt.Unix())
	assert.NotEqual(t, v1.ConditionStatus("broken"), second.Conditions[0].Status)
}

// The kubelet's Start never ends.
func TestUpstreamRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		inject(t, n.server, statustest.Fault{HangUntilCtx: true})
		n.set(n.server.Create(testPod("a")), status(v1.PodRunning, running("main")))
		synctest.Wait()
		began := time.Now()
		n.stop()
		assert.Zero(t, time.Since(began))
	})
}

// After a restart the kubelet gets every pod from the API server.
func TestUpstreamRestartMakesNoRequestForWhatIsEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		for _, uid := range uids("p", 100) {
			n.set(n.server.Create(testPod(uid)), status(v1.PodRunning, ready("main")))
		}
		settle()
		n.stop()
		before := len(n.server.Journal())
		time.Sleep(time.Minute)

		restarted := newManager(t, statusmanager.Options{Patcher: n.server, Pods: n.server})
		start(t, restarted)
		for _, uid := range uids("p", 100) {
			_, err := restarted.SetPodStatus(n.server.Get(uid), status(v1.PodRunning, ready("main")))
			require.NoError(t, err)
		}
		settle()
		assert.Len(t, n.server.Journal(), before)
		assert.Zero(t, restarted.Stats().Unsynced)
	})
}

// The states between one init container and the next cost the kubelet two requests each.
func TestUpstream138795InitStatesAreCoalesced(t *testing.T) {
	play := func(t *testing.T, o statusmanager.Options) (patches int, lastWrite time.Duration) {
		n := newNode(t, statustest.Options{}, o)
		pod := n.server.Create(testPod("a", initContainers("one", "two", "three")))
		began := time.Now()
		step := func(s v1.PodStatus, init ...v1.ContainerStatus) {
			s.InitContainerStatuses = init
			n.set(pod, s)
			time.Sleep(300 * time.Millisecond)
		}
		idle := waiting("main", "PodInitializing")
		done := func(name string) v1.ContainerStatus { s := exited(name, 0); s.Ready = true; return s }
		step(status(v1.PodPending, idle), waiting("one", "PodInitializing"))
		step(status(v1.PodPending, idle), running("one"))
		step(status(v1.PodPending, idle), done("one"))
		step(status(v1.PodPending, idle), done("one"), running("two"))
		step(status(v1.PodPending, idle), done("one"), done("two"), running("three"))
		step(status(v1.PodPending, idle), done("one"), done("two"), done("three"))
		lastWrite = time.Since(began)
		step(status(v1.PodRunning, ready("main")), done("one"), done("two"), done("three"))
		settle()
		assert.Equal(t, v1.PodRunning, n.api("a").Phase)
		return n.server.Total(statusmanager.RequestPatch), lastWrite
	}
	synctest.Test(t, func(t *testing.T) {
		plain, _ := play(t, statusmanager.Options{})
		assert.Equal(t, 7, plain)
	})
	synctest.Test(t, func(t *testing.T) {
		held, _ := play(t, statusmanager.Options{Coalesce: statusmanager.CoalesceInit(2 * time.Second)})
		assert.Equal(t, 3, held, "the first, the end of init, running")
	})
}

// The kubelet's patch goes through JSON maps: 113 µs, 695 allocations. BenchmarkDiff has ours.
func TestUpstreamPatchHasOnlyWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, ready("main")))
		settle()
		changed := status(v1.PodRunning, ready("main"))
		changed.PodIP, changed.PodIPs = "10.0.0.1", []v1.PodIP{{IP: "10.0.0.1"}}
		n.set(pod, changed)
		settle()
		journal := n.server.Journal()
		assert.JSONEq(t, `{"metadata":{"uid":"a"},"status":{"podIP":"10.0.0.1","podIPs":[{"$patch":"replace"},{"ip":"10.0.0.1"}]}}`,
			journal[len(journal)-1].Patch)
	})
}

// requestLog collects events.
type requestLog struct {
	mu   sync.Mutex
	list []statusmanager.RequestEvent
}

func (l *requestLog) add(e statusmanager.RequestEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, e)
}

func (l *requestLog) all() []statusmanager.RequestEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]statusmanager.RequestEvent(nil), l.list...)
}

func inject(t testing.TB, s *statustest.Server, f statustest.Fault) *statustest.Injected {
	t.Helper()
	in, err := s.Inject(f)
	require.NoError(t, err)
	return in
}

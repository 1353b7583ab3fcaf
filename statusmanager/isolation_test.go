// SPDX-License-Identifier: Apache-2.0

package statusmanager_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/internal/casetest"
	"github.com/keelson-dev/keelson/statusmanager"
	"github.com/keelson-dev/keelson/statusmanager/statustest"
)

// answers are the errors of a refusing server: each code, and an error without an API status.
func answers() map[string]error {
	all := map[string]error{
		"plain error": errors.New("the bus is full"),
		"422 on metadata.uid": apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), "other", "field is immutable"),
		}),
	}
	for _, code := range casetest.Codes() {
		for _, retryAfter := range []int{0, 1_000_000, math.MaxInt32, -1} {
			all[fmt.Sprintf("%d, retry after %d s", code, retryAfter)] =
				apierrors.NewGenericServerResponse(code, "patch", v1.Resource("pods"), "a", "", retryAfter, true)
		}
	}
	return all
}

// TestOneRequestPer10Seconds: whatever a server answers permanently, a pod without news makes at most one request per
// 10 s after at most five. A newer status is sent at once. A recovered server has the status within a minute and a
// half.
func TestOneRequestPer10Seconds(t *testing.T) {
	for name, err := range answers() {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, statustest.Options{}, statusmanager.Options{})
			pod := n.server.Create(testPod("a"))
			n.server.Poison("a", statustest.Hostility{Refuse: func(r statusmanager.Request, _ int) error {
				if r == statusmanager.RequestGet { // a stale getter, or a read-only server
					return nil
				}
				return err
			}})
			n.set(pod, status(v1.PodRunning, running("main")))
			const minutes = 4
			time.Sleep(minutes * time.Minute)
			at := requestTimes(n, "a")
			assert.LessOrEqual(t, len(at), 5+6*minutes, "%s: %s", name, n.server.Journal())
			for i := 6; i < len(at); i++ {
				assert.GreaterOrEqual(t, at[i]-at[i-1], 10*time.Second, "%s: %s", name, n.server.Journal())
			}
			n.set(pod, status(v1.PodRunning, ready("main")))
			synctest.Wait()
			isGone := apierrors.IsNotFound(err) || apierrors.IsGone(err) || apierrors.ReasonForError(err) == "" && isCode(err, http.StatusGone)
			if !isGone {
				assert.Greater(t, len(requestTimes(n, "a")), len(at), "%s: a newer status does not wait", name)
			}
			n.server.Heal("a")
			time.Sleep(90 * time.Second)
			assert.Equal(t, v1.ConditionTrue, conditionStatus(n.api("a"), v1.PodReady), "%s: %s", name, n.server.Journal())
		})
		if t.Failed() {
			return
		}
	}
}

func isCode(err error, code int32) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == code
}

func requestTimes(n *node, pod string) (at []time.Duration) {
	for _, e := range n.server.Journal() {
		if e.Pod.Name == pod {
			at = append(at, e.At)
		}
	}
	return at
}

// TestRetryAfterOfElevenDays: a newer status does not wait for the Retry-After, and without a newer status the server
// is asked again within 75 s.
func TestRetryAfterOfElevenDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		inject(t, n.server, statustest.Fault{Times: 1, Err: apierrors.NewTooManyRequests("later", 1_000_000)})
		n.set(pod, status(v1.PodRunning, running("main")))
		synctest.Wait()
		n.set(pod, status(v1.PodRunning, ready("main")))
		synctest.Wait()
		assert.Equal(t, v1.ConditionTrue, conditionStatus(n.api("a"), v1.PodReady))
		inject(t, n.server, statustest.Fault{Times: 1, Err: apierrors.NewTooManyRequests("later", 1_000_000)})
		n.set(pod, status(v1.PodRunning, running("main")))
		time.Sleep(75 * time.Second)
		assert.Equal(t, v1.ConditionFalse, conditionStatus(n.api("a"), v1.PodReady))
	})
}

// TestNewStatusesDoNotDefeatTheBudget: constantly changing statuses end the wait of a pod five times, then once per 10
// s.
func TestNewStatusesDoNotDefeatTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		inject(t, n.server, statustest.Fault{Err: apierrors.NewTooManyRequests("later", 30)})
		for i := range 1000 {
			n.set(pod, status(v1.PodRunning, waiting("main", fmt.Sprint(i))))
			time.Sleep(100 * time.Millisecond)
		}
		assert.LessOrEqual(t, len(n.server.Journal()), 5+10)
		assert.GreaterOrEqual(t, len(n.server.Journal()), 5+9)
	})
}

// TestEndsAreToldFirstAfterAnOutage: pods that ended while the server was down, with a used-up budget, are written
// within 2 s of its return. All other pods are written within 15 s.
func TestEndsAreToldFirstAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: 20 * time.Millisecond}, statusmanager.Options{})
		var pods []*v1.Pod
		for _, uid := range uids("p", 50) {
			pods = append(pods, n.server.Create(testPod(uid)))
		}
		outage := inject(t, n.server, statustest.Fault{Err: errors.New("connection refused")})
		for round := range 30 {
			for _, pod := range pods {
				n.set(pod, status(v1.PodRunning, waiting("main", fmt.Sprint(round))))
			}
			time.Sleep(time.Second)
		}
		for _, pod := range pods[40:] {
			n.set(pod, status(v1.PodFailed, exited("main", 1)))
		}
		time.Sleep(time.Second)
		outage.Clear()
		told := func(pods []*v1.Pod) (count int) {
			for _, pod := range pods {
				if c := n.api(pod.UID).ContainerStatuses; len(c) > 0 && (c[0].State.Terminated != nil || c[0].State.Waiting.Reason == "29") {
					count++
				}
			}
			return count
		}
		time.Sleep(2 * time.Second)
		assert.Equal(t, 10, told(pods[40:]))
		assert.Less(t, told(pods[:40]), 20)
		time.Sleep(13 * time.Second)
		assert.Equal(t, 50, told(pods))
	})
}

// TestSecondWriters: a second writer that reverts each patch gets one patch per 10 s. A patch whose result the server
// changes is sent once more, and then no longer.
func TestSecondWriters(t *testing.T) {
	for name, tc := range map[string]struct {
		h    statustest.Hostility
		want int // patches in 10 minutes
	}{
		"reverts":    {statustest.Hostility{Meddle: func(before, after *v1.Pod, _ int) { after.Status = *before.Status.DeepCopy() }}, 60},
		"says more":  {statustest.Hostility{Meddle: func(_, after *v1.Pod, n int) { after.Status.Reason = fmt.Sprint(n) }}, 60},
		"is ahead":   {statustest.Hostility{Mutate: func(_, after *v1.Pod, n int) { after.Status.Reason = fmt.Sprint(n) }}, 2},
		"drops part": {statustest.Hostility{Mutate: func(_, after *v1.Pod, _ int) { after.Status.ContainerStatuses = nil }}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, statustest.Options{}, statusmanager.Options{})
				pod := n.server.Create(testPod("a"))
				n.server.Poison("a", tc.h)
				n.set(pod, status(v1.PodRunning, ready("main")))
				time.Sleep(10*time.Minute - time.Second)
				assert.Len(t, n.server.Journal(), tc.want)
			})
		})
	}
}

// TestReadyTakenAwayIsGivenBackAtOnce: the node controller writes once, long after our last patch.
func TestReadyTakenAwayIsGivenBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{}, statusmanager.Options{})
		pod := n.server.Create(testPod("a"))
		n.set(pod, status(v1.PodRunning, ready("main")))
		time.Sleep(10 * time.Second)
		for range 3 {
			_, err := n.server.Change("a", func(p *v1.Pod) { condition(p.Status, v1.PodReady).Status = v1.ConditionFalse })
			require.NoError(t, err)
			synctest.Wait()
			assert.Equal(t, v1.ConditionTrue, conditionStatus(n.api("a"), v1.PodReady))
			time.Sleep(10 * time.Second)
		}
	})
}

// TestConditionThatStandsTwice: the first counts, and the server is told once.
func TestConditionThatStandsTwice(t *testing.T) {
	for _, getter := range []string{"with a Getter", "without"} {
		t.Run(getter, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, statustest.Options{})
				o := statusmanager.Options{Patcher: server}
				if getter == "without" {
					o.Patcher = patchOnly{server}
				}
				m := newManager(t, o)
				server.Watch(m.Observed)
				start(t, m)
				pod := server.Create(testPod("a"))
				s := status(v1.PodRunning, ready("main"))
				for i, value := range []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown} {
					for _, kind := range []v1.PodConditionType{v1.PodReady, v1.PodReadyToStartContainers, "example.com/other", v1.DisruptionTarget} {
						s.Conditions = append(s.Conditions, v1.PodCondition{Type: kind, Status: value, Reason: fmt.Sprint(i)})
					}
				}
				_, err := m.SetPodStatus(pod, s)
				require.NoError(t, err)
				time.Sleep(time.Hour)
				assert.Equal(t, 1, server.Total(statusmanager.RequestPatch), server.Journal())
				got, _ := m.GetPodStatus("a")
				assert.Equal(t, v1.ConditionTrue, conditionStatus(got, v1.PodReadyToStartContainers))
				assert.Equal(t, v1.ConditionTrue, conditionStatus(server.Get("a").Status, v1.PodReadyToStartContainers))
			})
		})
	}
}

// healthyLatency is the p99 of the time until the server has a new status of one of 10 healthy pods among 990 other
// pods. The other pods have new statuses too, initially all at the same time, and are treated with h.
func healthyLatency(t *testing.T, workers int, h *statustest.Hostility) (p99 time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: 20 * time.Millisecond, JournalLimit: -1}, statusmanager.Options{Workers: workers})
		var healthy []*v1.Pod
		pods := 1000
		if casetest.Raced {
			pods = 300
		}
		for i, uid := range uids("p", pods) {
			pod := n.server.Create(testPod(uid))
			if i%100 == 50 {
				healthy = append(healthy, pod)
			} else if h != nil {
				n.server.Poison(pod.Name, *h)
			}
			n.set(pod, status(v1.PodRunning, running("main")))
		}
		for _, pod := range healthy {
			require.NoError(t, n.WaitSynced(t.Context(), pod.UID))
		}
		time.Sleep(5 * time.Second) // each pod had a request by now; TestFirstContactsThatHang is about the time before
		var took []time.Duration
		for i := range 300 {
			pod := healthy[i%len(healthy)]
			began := time.Now()
			_, err := n.SetContainerReadiness(pod.UID, "fake://main", i/len(healthy)%2 == 0)
			require.NoError(t, err)
			require.NoError(t, n.WaitSynced(t.Context(), pod.UID))
			took = append(took, time.Since(began))
			time.Sleep(time.Duration(37+i%101) * time.Millisecond)
		}
		slices.Sort(took)
		p99 = took[len(took)*99/100]
	})
	return p99
}

// TestPoisonedPodsDoNotDelayHealthyOnes: with 99 % of the pods poisoned, the p99 of a healthy pod is at most twice the
// p99 without poisoned pods.
func TestPoisonedPodsDoNotDelayHealthyOnes(t *testing.T) {
	for _, workers := range []int{10, 2} {
		if workers == 2 && casetest.Raced {
			continue // make rounds plays it
		}
		clean := healthyLatency(t, workers, nil)
		for name, h := range map[string]*statustest.Hostility{
			"plain error":  {Refuse: func(statusmanager.Request, int) error { return errors.New("the bus is full") }},
			"409":          {Refuse: func(statusmanager.Request, int) error { return apierrors.NewConflict(v1.Resource("pods"), "", nil) }},
			"429 for 30 s": {Refuse: func(statusmanager.Request, int) error { return apierrors.NewTooManyRequests("later", 30) }},
			"reverted":     {Meddle: func(before, after *v1.Pod, _ int) { after.Status = *before.Status.DeepCopy() }},
		} {
			if workers == 2 && name == "reverted" {
				continue // it costs most, and is the same
			}
			got := healthyLatency(t, workers, h)
			assert.LessOrEqual(t, got, 2*clean, "%d workers, %s", workers, name)
			t.Logf("%d workers: p99 %s without, %s with %s", workers, clean, got, name)
		}
	}
}

// TestPodsThatHangDoNotDelayHealthyOnes: requests that hang until they time out occupy at most half of the workers.
func TestPodsThatHangDoNotDelayHealthyOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, statustest.Options{Latency: 20 * time.Millisecond}, statusmanager.Options{})
		healthy := n.server.Create(testPod("healthy"))
		n.set(healthy, status(v1.PodRunning, running("main")))
		for _, uid := range uids("p", 100) {
			pod := n.server.Create(testPod(uid))
			inject(t, n.server, statustest.Fault{Pod: pod.Name, HangUntilCtx: true})
			n.set(pod, status(v1.PodRunning, running("main")))
		}
		time.Sleep(2 * time.Minute) // each has hung once by now
		for i := range 60 {
			began := time.Now()
			n.set(healthy, status(v1.PodRunning, waiting("main", fmt.Sprint(i))))
			require.NoError(t, n.WaitSynced(t.Context(), types.UID("healthy")))
			require.Equal(t, 20*time.Millisecond, time.Since(began))
			time.Sleep(time.Second)
		}
	})
}

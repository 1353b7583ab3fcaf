// SPDX-License-Identifier: Apache-2.0

package prober_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/prober"
	"github.com/keelson-dev/keelson/prober/probertest"
)

func running(name, id string) v1.ContainerStatus {
	started := metav1.NewTime(time.Now())
	return v1.ContainerStatus{
		Name: name, ContainerID: id, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: started}},
	}
}

func ended(name, id, reason string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, ContainerID: id, Ready: true, Started: new(true), State: v1.ContainerState{
		Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason},
	}}
}

// TestUpdatePodStatus goes through the target semantics of contract §3.
func TestUpdatePodStatus(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	startup, readiness, liveness := every(10), every(10), every(10)
	pod := podOf("web",
		v1.Container{Name: "plain"},
		v1.Container{Name: "alive", LivenessProbe: liveness},
		v1.Container{Name: "ready", ReadinessProbe: readiness},
		v1.Container{Name: "unready", ReadinessProbe: readiness},
		v1.Container{Name: "starting", StartupProbe: startup},
		v1.Container{Name: "both", StartupProbe: startup, ReadinessProbe: readiness},
	)
	pod.Spec.InitContainers = []v1.Container{
		{Name: "init", StartupProbe: startup}, {Name: "sidecar", RestartPolicy: &always, StartupProbe: startup},
	}
	h := &probertest.Handler{}
	h.Set("", "unready", prober.Readiness, probertest.Fail())
	h.Set("", "starting", prober.Startup, probertest.Fail())
	inBubble(t, prober.Options{Handler: h}, func(t *testing.T, p *prober.Prober, _ func()) {
		for _, name := range []string{"plain", "alive", "ready", "unready", "starting", "both", "sidecar"} {
			p.Start(pod, name, now(name))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for _, tc := range []struct {
			what           string
			status         v1.ContainerStatus
			started, ready bool
		}{
			{"no probes", running("plain", "plain"), true, true},
			{"no probes, nobody knows it", running("plain", "other"), true, true},
			{"liveness says nothing about it", running("alive", "alive"), true, true},
			{"waiting", v1.ContainerStatus{Name: "plain", Ready: true, Started: new(true)}, false, false},
			{"ended", ended("ready", "ready", "", 0), false, false},
			{"ready", running("ready", "ready"), true, true},
			{"another instance", running("ready", "ready-2"), true, false},
			{"not ready", running("unready", "unready"), true, false},
			{"not started", running("starting", "starting"), false, false},
			{"started and ready", running("both", "both"), true, true},
		} {
			status := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{tc.status}}
			p.UpdatePodStatus(pod, &status)
			got := status.ContainerStatuses[0]
			require.NotNil(t, got.Started, tc.what)
			assert.Equal(t, tc.started, *got.Started, tc.what)
			assert.Equal(t, tc.ready, got.Ready, tc.what)
		}
		for _, tc := range []struct {
			what           string
			status         v1.ContainerStatus
			started, ready bool
		}{
			{"sidecar", running("sidecar", "sidecar"), true, true},
			{"init runs", running("init", "i"), true, false},
			{"init completed", ended("init", "i", "Completed", 0), false, true},
			{"init failed", ended("init", "i", "Error", 1), false, false},
			{"init out of memory", ended("init", "i", "OOMKilled", 0), false, false},
		} {
			status := v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{tc.status}}
			p.UpdatePodStatus(pod, &status)
			got := status.InitContainerStatuses[0]
			assert.Equal(t, tc.started, *got.Started, tc.what)
			assert.Equal(t, tc.ready, got.Ready, tc.what)
		}
		stranger := v1.PodStatus{
			ContainerStatuses:          []v1.ContainerStatus{{Name: "stranger", Ready: true}},
			EphemeralContainerStatuses: []v1.ContainerStatus{running("debug", "d")},
		}
		want := *stranger.DeepCopy()
		p.UpdatePodStatus(pod, &stranger)
		p.UpdatePodStatus(nil, &stranger)
		p.UpdatePodStatus(pod, nil)
		assert.Equal(t, want, stranger, "not ours to say")
		assert.Nil(t, prober.Running(nil, &stranger, time.Now()))
	})
}

func TestRunning(t *testing.T) {
	began := time.Now()
	at := func(s v1.ContainerStatus, when time.Time) v1.ContainerStatus {
		s.State.Running.StartedAt.Time = when
		return s
	}
	earlier := began.Add(-time.Hour)
	status := &v1.PodStatus{
		PodIP: "10.1.2.3",
		ContainerStatuses: []v1.ContainerStatus{
			at(running("new", "n2"), began.Add(time.Second)),
			at(running("old", "o1"), earlier), at(running("restarted", "r2"), earlier), at(running("unnamed", "u1"), earlier),
			ended("ended", "e1", "", 0), {Name: "waiting"}, at(running("nameless", ""), earlier),
		},
		InitContainerStatuses: []v1.ContainerStatus{at(running("sidecar", "s1"), earlier)},
	}
	pod := podOf("web")
	pod.Status.ContainerStatuses = []v1.ContainerStatus{
		{Name: "new", ContainerID: "n2", Started: new(true), Ready: true},
		{Name: "old", ContainerID: "o1", Started: new(true), Ready: true},
		{Name: "restarted", ContainerID: "r1", Started: new(true), Ready: true},
		{Name: "unnamed", Ready: true, Started: new(false)},
	}
	pod.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "sidecar", ContainerID: "s1", Started: new(true), Ready: true}}
	in := func(id string, started time.Time, facts ...string) prober.Instance {
		i := prober.Instance{ID: id, StartedAt: started, PodIP: "10.1.2.3"}
		for _, fact := range facts {
			switch fact {
			case "adopted":
				i.Adopted = true
			case "started":
				i.Started = true
			case "ready":
				i.Ready = true
			}
		}
		return i
	}
	assert.Equal(t, map[string]prober.Instance{
		"new":       in("n2", began.Add(time.Second)),
		"old":       in("o1", earlier, "adopted", "started", "ready"),
		"restarted": in("r2", earlier, "adopted"),
		"unnamed":   in("u1", earlier, "adopted", "ready"),
		"sidecar":   in("s1", earlier, "adopted", "started", "ready"),
	}, prober.Running(pod, status, began))
	assert.Nil(t, prober.Running(pod, nil, began), "what runs is not known")
	assert.NotNil(t, prober.Running(pod, &v1.PodStatus{}, began), "nothing runs")
}

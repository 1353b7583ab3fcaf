// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/podconfig/url"
	"github.com/keelson-dev/keelson/runtime"
)

// The line of a problem disappears when the problem of this source is over.
func TestProblemsEnd(t *testing.T) {
	p := &problems{}
	log, about := zap.New(p), zap.String("source", "http")
	log.Warn("failed", about, zap.Error(errors.New("refused")))
	require.Len(t, p.lines(), 1)
	log.Info("works", zap.String("source", "file"), failurelog.Ends("failed"))
	log.Info("works", about, failurelog.Ends("something else"))
	log.Info("works", about)
	require.Len(t, p.lines(), 1, "of another source, of another problem, of none")
	log.Info("works", about, failurelog.Ends("failed"))
	require.Empty(t, p.lines())

	failures := failurelog.Log{Logger: log, Failed: "cannot measure", Recovered: "measured again"}
	failures.Report(errors.New("no file"))
	require.Len(t, p.lines(), 1)
	failures.Report(nil)
	require.Empty(t, p.lines())
}

// discard is a sink that takes every change.
type discard struct{}

func (discard) Submit(context.Context, podconfig.Change) error { return nil }

// The problem of a manifest URL leaves the screen when the server answers again.
func TestTheProblemOfAManifestURLEnds(t *testing.T) {
	var up atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, "{apiVersion: v1, kind: PodList, items: []}")
	}))
	t.Cleanup(server.Close)
	p := &problems{}
	source, err := url.New(url.Config{URL: server.URL, Decoder: &manifest.Decoder{NodeName: "n"}, Period: 10 * time.Millisecond, Logger: zap.New(p)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- source.Run(ctx, discard{}) }()
	require.Eventually(t, func() bool { return len(p.lines()) == 1 }, 20*time.Second, 5*time.Millisecond)
	up.Store(true)
	require.Eventually(t, func() bool { return len(p.lines()) == 0 }, 20*time.Second, 5*time.Millisecond)
	cancel()
	<-ended
}

// Object and reason of a problem fit on a narrow screen. The line disappears when the problem is
// over.
func TestProblemsOnTheScreen(t *testing.T) {
	p := &problems{manifests: "/home/somebody/manifests"}
	log := zap.New(p)
	shown := func() (lines []string) {
		for _, l := range p.lines() {
			_, line, ok := strings.Cut(l, " ")
			require.True(t, ok, "the time comes first: %s", l)
			lines = append(lines, line)
		}
		return lines
	}
	file := func(name string) zap.Field { return zap.String("file", "/home/somebody/manifests"+name) }
	log.Info("node agent started", zap.String("node", "n"))
	log.Warn(manifestNotUsed, file("/a.yaml"), zap.Error(errors.New("manifest is empty")))
	log.Warn(manifestNotUsed, file("/b\x1b[31m\u009b31m\xff.yaml"), zap.Error(errors.New("not a Pod")))
	log.Warn("pod rejected", zap.String("pod", "default/web"), zap.String("reason", "Taint"), zap.String("message", "no\nway"))
	log.Error("cannot do it", zap.String("podUID", "u"), zap.Duration("after", time.Second), zap.Error(nil))
	log.Warn("pod sync failed", zap.String("podUID", "u"), zap.String("state", "sync"), zap.Error(errors.New("no image")), zap.String("pod", "default/web"))
	require.Equal(t, []string{
		"manifest not used: a.yaml: manifest is empty",
		"manifest not used: b [31m 31m\ufffd.yaml: not a Pod",
		"pod rejected: default/web: Taint: no way",
		"cannot do it: u: after=1s",
		"pod sync failed: default/web: no image",
	}, shown())

	log.Warn(manifestNotUsed, file("/a.yaml"), zap.Error(errors.New("not a Pod")))
	require.Len(t, shown(), 5, "one line for each file")
	require.Equal(t, "manifest not used: a.yaml: not a Pod", shown()[4])
	log.Warn(manifestNotUsed, file("/a.yaml"), zap.Error(errors.New("/home/somebody/manifests/a.yaml:2:7: kind: not a Pod")))
	require.Equal(t, "manifest not used: a.yaml:2:7: kind: not a Pod", shown()[4])
	log.Info("over", file("/a.yaml"), failurelog.Ends(objectsNotUsed))
	require.Len(t, shown(), 5)
	log.Info("over", file("/a.yaml"), failurelog.Ends(manifestNotUsed))
	require.NotContains(t, strings.Join(shown(), "\n"), "a.yaml")
	require.Len(t, shown(), 4)

	log.Warn(manifestNotUsed, file(""), zap.Error(errors.New("permission denied")))
	require.Equal(t, "manifest not used: /home/somebody/manifests: permission denied", shown()[4])
	for i := range 10 {
		log.Warn(objectsNotUsed, zap.String("file", fmt.Sprintf("/objects/%d", i)))
	}
	require.Len(t, shown(), problemsShown)
	require.Equal(t, "objects not used: /objects/9", shown()[4])
}

func TestFramesReplaceOneAnother(t *testing.T) {
	first := frame{width: 20, height: 24, lines: []string{"short", "longer than the scr…"}}
	text := first.after(frame{})
	require.NotContains(t, text, "\x1b[2J", "what stands above is left alone")
	require.Contains(t, text, "short\r\nlonger than the scr…\r\n")

	second := frame{width: 20, height: 24, lines: []string{"one"}}
	require.True(t, strings.HasPrefix(second.after(first), "\x1b[2A\r\x1b[J"), "over two lines")
	for _, size := range []frame{{width: 10, height: 24}, {width: 20, height: 5}} {
		size.lines = []string{"one"}
		require.True(t, strings.HasPrefix(size.after(first), "\x1b[H\x1b[2J"), "a terminal that was resized is drawn anew")
	}

	require.Equal(t, []string{"a · b", "c · d"}, wrap([]string{"a", "b", "c", "d"}, 5))
	require.Equal(t, []string{"a · b · c · d"}, wrap([]string{"a", "b", "c", "d"}, 0))
	require.Equal(t, []string{"a", "long…"}, wrap([]string{"a", "longer"}, 5))
}

func TestRowsOfTheTable(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	began := metav1.Unix(1000, 0)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}
	pod.Spec.InitContainers = []v1.Container{{Name: "init"}, {Name: "side", RestartPolicy: &always}}
	pod.Spec.Containers = []v1.Container{{Name: "main"}}
	pod.Status.StartTime, pod.Status.Phase = &began, v1.PodPending
	pod.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "init", RestartCount: 4}, {Name: "side", RestartCount: 2}}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", RestartCount: 1, Ready: true}}
	now := began.Add(90 * time.Second)
	require.Equal(t, []string{"web", "Pending", "1/2", "7", "90s", ""}, row(pod, nil, now))

	pod.Status.Phase = v1.PodRunning
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodInitialized, Status: v1.ConditionTrue}}
	pod.Status.InitContainerStatuses[1].Ready = true
	require.Equal(t, "2/2", row(pod, nil, now)[2], "sidecars count, as in kubectl")
	require.Equal(t, "3", row(pod, nil, now)[3], "init containers that are done do not count, as in kubectl")

	pod.Status.ContainerStatuses[0].State.Waiting = &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
		Message: "back-off 10s restarting failed container=main pod=web_default(uid), next try at 2026-11-21T11:39:20Z"}
	require.Equal(t, "main: CrashLoopBackOff: back-off 10s, next try at 2026-11-21T11:39:20Z", row(pod, nil, now)[5])
	pod.Status.ContainerStatuses[0].State.Waiting.Message = "back-off 10s restarting failed container=main"
	require.Equal(t, "main: CrashLoopBackOff: back-off 10s restarting failed container=main", row(pod, nil, now)[5])

	require.Equal(t, []string{"POD  PHASE    MESSAGE", "web  Running  main: …"}, table([]*v1.Pod{pod}, nil, now, 21))
}

// A pod that waits for a pull shows the pull, unless it has another message.
func TestPullsOnTheScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := time.Now()
		time.Sleep(12 * time.Second)
		pod := &v1.Pod{Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "init", Image: "registry.example/init:1"}},
			Containers:     []v1.Container{{Name: "main", Image: "registry.example/app"}},
		}}
		pod.Name, pod.Namespace = "web", "default"
		pulls := []runtime.Pull{
			{Image: "registry.example/app:latest", Asked: asked, Began: asked, Progress: runtime.PullProgress{Bytes: 12_300_000, Total: 45_600_000}},
			{Image: "registry.example/other:1", Asked: asked, Began: asked},
		}
		shown := func() string { return table([]*v1.Pod{pod}, pulls, time.Now(), 0)[1] }
		require.Contains(t, shown(), "main: pulling for 12s, 12.3 of 45.6 MB")
		pulls[1].Image, pulls[1].Began = "registry.example/init:1", time.Time{}
		require.Contains(t, shown(), "init: waiting for other pulls for 12s")
		pod.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "init", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}
		require.Contains(t, shown(), "main: pulling")
		waiting := &v1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no route"}
		pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", State: v1.ContainerState{Waiting: waiting}}}
		require.Contains(t, shown(), "main: ImagePullBackOff: no route")
		pod.Status.ContainerStatuses[0].State = v1.ContainerState{Running: &v1.ContainerStateRunning{}}
		require.NotContains(t, shown(), "pulling")
	})
}

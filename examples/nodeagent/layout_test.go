// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/internal/casetest"
)

var began = metav1.Unix(1000, 0)

func shownPod(name string, phase v1.PodPhase, waits string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	pod.Spec.Containers = []v1.Container{{Name: "main"}}
	pod.Status = v1.PodStatus{Phase: phase, StartTime: &began, ContainerStatuses: []v1.ContainerStatus{{Name: "main", Ready: phase == v1.PodRunning && waits == ""}}}
	if waits != "" {
		pod.Status.ContainerStatuses[0].State.Waiting = &v1.ContainerStateWaiting{Reason: waits, Message: "back-off 40s, because it ends at once"}
	}
	return pod
}

// busy returns a screen with 61 pods. The last pod by name crash-loops.
func busy(width, height int) screen {
	s := screen{width: width, height: height, header: []string{"keelson on node n", "pods from /etc/pods", "logs in /logs"}, logFile: "/log",
		problems: []string{"10:00:00 pod rejected: a", "10:00:01 manifest not used: b.yaml:3:1: c"}, now: began.Add(90 * time.Second)}
	for i := range 60 {
		phase := v1.PodRunning
		if i%30 == 29 {
			phase = v1.PodSucceeded
		}
		s.pods = append(s.pods, shownPod(fmt.Sprintf("p%d-edge-17", i+1), phase, ""))
	}
	s.pods = append(s.pods, shownPod("zz-edge-17", v1.PodRunning, "CrashLoopBackOff"))
	slices.SortFunc(s.pods, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func texts(lines []line) (all []string) {
	for _, l := range lines {
		all = append(all, l.text)
	}
	return all
}

func TestABusyNodeOnASmallScreen(t *testing.T) {
	lines := busy(100, 14).layout()
	require.Equal(t, []string{
		"keelson on node n · pods from /etc/pods · logs in /logs",
		"",
		"POD         PHASE    READY  RESTARTS  AGE  MESSAGE",
		"zz-edge-17  Running  0/1    0         90s  main: CrashLoopBackOff: back-off 40s, because it ends at…",
		"p1-edge-17  Running  1/1    0         90s",
		"p2-edge-17  Running  1/1    0         90s",
		"p3-edge-17  Running  1/1    0         90s",
		"p4-edge-17  Running  1/1    0         90s",
		"… and 56 more pods: 54 Running, 2 Succeeded",
		"",
		"Problems, the latest last; more about them in /log",
		"10:00:00 pod rejected: a",
		"10:00:01 manifest not used: b.yaml:3:1: c",
	}, texts(lines))
	require.Equal(t, []style{plain, plain, title, trouble, plain}, []style{lines[0].style, lines[1].style, lines[2].style, lines[3].style, lines[4].style})
	require.Equal(t, trouble, lines[12].style)
}

func TestColumnsOnANarrowScreen(t *testing.T) {
	for width, want := range map[int][]string{
		70: {"POD          PHASE    READY  RESTARTS  AGE  MESSAGE",
			"zz-edge-17   Running  0/1    0         90s  main: CrashLoopBackOff: b…",
			"p1-edge-17   Running  1/1    0         90s"},
		40: {"POD          PHASE    MESSAGE",
			"zz-edge-17   Running  main: CrashLoopBa…",
			"p1-edge-17   Running"},
	} {
		lines := texts(busy(width, 24).table(24))
		require.Equal(t, want, lines[:3], "%d columns", width)
	}
	long := busy(70, 24)
	for _, pod := range long.pods {
		pod.Name = "a-very-long-name-of-a-pod-that-somebody-has-thought-of-" + pod.Name
	}
	require.Equal(t, []string{"POD                  PHASE    READY  RESTARTS  AGE  MESSAGE", "a-very-long-name-o…  Running  0/1    0         90s  main: CrashLoopBa…"}, texts(long.table(24))[:2])
}

// Any content fits the screen. The layout keeps the latest problem, and shows or counts every pod.
func TestLayoutFits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range casetest.Rounds(5000) {
		s := busy(10+rng.IntN(150), 8+rng.IntN(60))
		s.pods = s.pods[:rng.IntN(len(s.pods)+1)]
		for len(s.problems) < rng.IntN(6) {
			s.problems = append(s.problems, "10:00:02 late")
		}
		if rng.IntN(2) == 0 {
			s.notice = "stopping the pods"
		}
		lines := s.layout()
		require.Less(t, len(lines), s.height)
		found := false
		for _, l := range lines {
			if n := utf8.RuneCountInString(l.text); n > s.width { // testify compares much more slowly
				require.LessOrEqual(t, n, s.width, "%q", l.text)
			}
			found = found || l.text == cut(s.problems[len(s.problems)-1], s.width)
		}
		if s.height >= 14 {
			require.True(t, found, "the latest problem is on a screen of %d lines: %q", s.height, texts(lines))
		}
	}
}

func TestNaturally(t *testing.T) {
	names := []string{"p10", "p2", "p1", "p02", "p", "p1-b", "p1-a10", "p1-a9", "q", "10", "9", "p99999999999999999999999", "p100000000000000000000000"}
	slices.SortFunc(names, naturally)
	require.Equal(t, []string{"9", "10", "p", "p1", "p1-a9", "p1-a10", "p1-b", "p02", "p2", "p10", "p99999999999999999999999", "p100000000000000000000000", "q"}, names)
}

func TestColours(t *testing.T) {
	lines := []line{{"a", plain}, {"b", title}, {"c", trouble}}
	require.Equal(t, []string{"a", "\x1b[1mb\x1b[0m", "\x1b[31mc\x1b[0m"}, paint(lines, true))
	require.Equal(t, []string{"a", "b", "c"}, paint(lines, false))
	for _, tt := range []struct {
		noColour, term string
		want           bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}, {"", "", false}} {
		t.Setenv("NO_COLOR", tt.noColour)
		require.Equal(t, tt.want, hasColours(tt.term), tt)
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/runtime"
)

// Columns of the table. On a narrow terminal the columns of dispensable are left out, in the order
// of that list.
const (
	colPod = iota
	colPhase
	colReady
	colRestarts
	colAge
	colMessage
)

var dispensable = []int{colAge, colReady, colRestarts}

// Smallest widths of the columns POD and MESSAGE before another column is left out.
const fewestName, fewestMessage = 14, 12

// table returns a head line and one line per pod, each at most width columns wide. A width of 0
// means no limit.
func table(pods []*v1.Pod, pulls []runtime.Pull, now time.Time, width int) []string {
	rows := [][]string{{"POD", "PHASE", "READY", "RESTARTS", "AGE", "MESSAGE"}}
	for _, pod := range pods {
		rows = append(rows, row(pod, pulls, now))
	}
	natural := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			natural[i] = max(natural[i], utf8.RuneCountInString(cell))
		}
	}
	widths := columns(natural, width)
	lines := make([]string, 0, len(rows))
	for _, r := range rows {
		var b strings.Builder
		for i, cell := range r {
			if widths[i] > 0 {
				fmt.Fprintf(&b, "%-*s  ", widths[i], cut(cell, widths[i]))
			}
		}
		lines = append(lines, cut(strings.TrimRight(b.String(), " "), width))
	}
	return lines
}

// columns returns the width of each column, 0 for a column that is left out. The columns POD and
// MESSAGE share the space left by the other columns.
func columns(natural []int, width int) []int {
	widths := slices.Clone(natural)
	const gap = 2
	free := func() int { // width for POD and MESSAGE
		rest := width - gap
		for _, i := range []int{colPhase, colReady, colRestarts, colAge} {
			if widths[i] > 0 {
				rest -= widths[i] + gap
			}
		}
		return rest
	}
	if width <= 0 || natural[colPod]+natural[colMessage] <= free() {
		return widths
	}
	for _, i := range dispensable {
		if free() < min(natural[colPod], fewestName)+min(natural[colMessage], fewestMessage) {
			widths[i] = 0
		}
	}
	rest := max(free(), 1)
	message := min(natural[colMessage], max(fewestMessage, rest/2), max(0, rest-fewestName))
	widths[colPod] = min(natural[colPod], rest-message)
	widths[colMessage] = max(0, rest-widths[colPod])
	return widths
}

// row returns the cells of a pod. READY and RESTARTS count containers and sidecars, as kubectl does.
func row(pod *v1.Pod, pulls []runtime.Pull, now time.Time) []string {
	ready, restarts := 0, int32(0)
	for i := range pod.Status.ContainerStatuses {
		restarts += pod.Status.ContainerStatuses[i].RestartCount
		if pod.Status.ContainerStatuses[i].Ready {
			ready++
		}
	}
	total := len(pod.Spec.Containers)
	for i := range pod.Spec.InitContainers {
		if podfacts.IsSidecar(&pod.Spec.InitContainers[i]) {
			total++
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		s := &pod.Status.InitContainerStatuses[i]
		sidecar := isSidecar(pod, s.Name)
		if sidecar && s.Ready {
			ready++
		}
		// The restarts of init containers that have completed are not counted.
		if sidecar || !podfacts.IsTrue(pod.Status.Conditions, v1.PodInitialized) {
			restarts += s.RestartCount
		}
	}
	age := "-"
	if pod.Status.StartTime != nil {
		age = duration.HumanDuration(now.Sub(pod.Status.StartTime.Time))
	}
	return []string{
		shownName(pod.Namespace, pod.Name), phaseOf(pod), fmt.Sprintf("%d/%d", ready, total), fmt.Sprint(restarts), age, cmp.Or(message(pod), pulling(pod, pulls)),
	}
}

// shownName returns the name of an object, with its namespace unless that is the default.
func shownName(namespace, name string) string {
	if namespace == "" || namespace == v1.NamespaceDefault {
		return name
	}
	return namespace + "/" + name
}

func phaseOf(pod *v1.Pod) string {
	if pod.Status.Phase == "" {
		return string(v1.PodPending)
	}
	return string(pod.Status.Phase)
}

func isSidecar(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == name && podfacts.IsSidecar(&c)
	})
}

// message returns the text for the column MESSAGE: the reason of a failure or wait, or the last
// exit of a container.
func message(pod *v1.Pod) string {
	s := &pod.Status
	if s.Reason != "" || s.Message != "" {
		return oneLine(join(s.Reason, s.Message))
	}
	for c := range podfacts.Statuses(s) {
		if w := c.State.Waiting; w != nil && w.Message != "" {
			return oneLine(c.Name + ": " + join(w.Reason, brief(w.Message)))
		}
	}
	if s.Phase == v1.PodSucceeded {
		return ""
	}
	for c := range podfacts.Statuses(s) {
		for _, t := range []*v1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if t != nil && (t.ExitCode != 0 || t.Message != "") {
				return oneLine(fmt.Sprintf("%s: last exit %d, %s", c.Name, t.ExitCode, join(t.Reason, t.Message)))
			}
		}
	}
	return ""
}

// pulling returns the progress of the pull that the pod's first waiting container needs.
func pulling(pod *v1.Pod, pulls []runtime.Pull) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		image, err := runtime.NormalizeImage(c.Image)
		if err != nil || !waits(pod, c.Name) {
			continue
		}
		for _, p := range pulls {
			if p.Image == image {
				return oneLine(c.Name + ": " + p.String())
			}
		}
	}
	return ""
}

// waits reports whether a container has no status yet, or waits.
func waits(pod *v1.Pod, name string) bool {
	for s := range podfacts.Statuses(&pod.Status) {
		if s.Name == name {
			return s.State.Waiting != nil
		}
	}
	return true
}

// brief shortens the message of a back-off, so that the time of the next try is visible.
func brief(message string) string {
	before, rest, isBackOff := strings.Cut(message, " restarting failed container=")
	_, after, hasTime := strings.Cut(rest, ", next try at ")
	if !isBackOff || !hasTime {
		return message
	}
	return before + ", next try at " + after
}

func join(reason, message string) string {
	switch {
	case reason == "":
		return message
	case message == "":
		return reason
	}
	return reason + ": " + message
}

// oneLine replaces unprintable characters by spaces, so that a message cannot move the cursor.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\ufffd"), func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }), " ")
}

func cut(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// table prints pods, one a line, no line wider than width.
func table(pods []*v1.Pod, now time.Time, width int) []string {
	rows := [][]string{{"POD", "PHASE", "READY", "RESTARTS", "AGE", "MESSAGE"}}
	for _, pod := range pods {
		rows = append(rows, row(pod, now))
	}
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, 0, len(rows))
	for _, r := range rows {
		var b strings.Builder
		for i, cell := range r {
			fmt.Fprintf(&b, "%-*s  ", widths[i], cell)
		}
		lines = append(lines, cut(strings.TrimRight(b.String(), " "), width))
	}
	return lines
}

func row(pod *v1.Pod, now time.Time) []string {
	name := pod.Name
	if pod.Namespace != v1.NamespaceDefault {
		name = pod.Namespace + "/" + pod.Name
	}
	ready, restarts := 0, int32(0)
	for i := range pod.Status.ContainerStatuses {
		restarts += pod.Status.ContainerStatuses[i].RestartCount
		if pod.Status.ContainerStatuses[i].Ready {
			ready++
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		if !initialized(pod) || isSidecar(pod, pod.Status.InitContainerStatuses[i].Name) {
			restarts += pod.Status.InitContainerStatuses[i].RestartCount
		}
	}
	age := "-"
	if pod.Status.StartTime != nil {
		age = duration.HumanDuration(now.Sub(pod.Status.StartTime.Time))
	}
	phase := string(pod.Status.Phase)
	if phase == "" {
		phase = string(v1.PodPending)
	}
	return []string{
		name, phase, fmt.Sprintf("%d/%d", ready, len(pod.Spec.Containers)), fmt.Sprint(restarts), age, message(pod),
	}
}

// initialized tells whether the pod's init containers have done their work: how
// often they ran is of no interest any more.
func initialized(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodInitialized && c.Status == v1.ConditionTrue
	})
}

func isSidecar(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
	})
}

// message is the one thing worth saying about a pod: why it failed or waits,
// else how a container last ended.
func message(pod *v1.Pod) string {
	s := &pod.Status
	if s.Reason != "" || s.Message != "" {
		return oneLine(join(s.Reason, s.Message))
	}
	all := append(append([]v1.ContainerStatus(nil), s.InitContainerStatuses...), s.ContainerStatuses...)
	for i := range all {
		if w := all[i].State.Waiting; w != nil && w.Message != "" {
			return oneLine(all[i].Name + ": " + join(w.Reason, brief(w.Message)))
		}
	}
	if s.Phase == v1.PodSucceeded {
		return ""
	}
	for i := range all {
		for _, t := range []*v1.ContainerStateTerminated{all[i].State.Terminated, all[i].LastTerminationState.Terminated} {
			if t != nil && (t.ExitCode != 0 || t.Message != "") {
				return oneLine(fmt.Sprintf("%s: last exit %d, %s", all[i].Name, t.ExitCode, join(t.Reason, t.Message)))
			}
		}
	}
	return ""
}

// brief leaves out of a back-off's message what the line says already, so that the
// time of the next try is in sight.
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

// oneLine keeps a message from moving the cursor: what is not printable becomes
// a space.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\ufffd"), func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }), " ")
}

func cut(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}

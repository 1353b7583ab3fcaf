// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"regexp"
	"slices"
	"strings"
)

// replacement is a pattern of text that differs between runs, and the text that replaces it.
type replacement struct {
	pattern *regexp.Regexp
	by      string
}

// replacements are applied in this order. Ages are replaced last, because names contain them.
var replacements = []replacement{
	// Times, in the formats of the API, of the header of a log and of kubectl describe.
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}`), "TIME"},
	// IDs.
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\b(containerd://|sha256:)?[0-9a-f]{64}\b`), "${1}ID"},
	{regexp.MustCompile(`resourceVersion: "\d+"`), `resourceVersion: "N"`},
	{regexp.MustCompile(`,\s+next try at\s+TIME`), ""},
	{regexp.MustCompile(`\bE\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ `), "TIME "},
	// Names with a random ending: pods of a ReplicaSet, volumes with a token, pods that debug a node.
	{regexp.MustCompile(`\b(kube-api-access|site-[0-9a-z]{8,10}|node-debugger-conformance)-[0-9a-z]{5}\b`), "$1-RANDOM"},
	// Addresses and ports of this run, and temporary folders.
	{regexp.MustCompile(`\b10\.88\.\d+\.\d+\b`), "POD"},
	{regexp.MustCompile(`(127\.0\.0\.1|localhost|\[::1\]):\d{4,5}\b`), "$1:PORT"},
	{regexp.MustCompile(`\b(Port:|connection for|forwarding) \d{4,5}\b`), "$1 PORT"},
	{regexp.MustCompile(`/tmp/(keelson-[a-z]+-|tmp\.)\w+`), "/tmp/DIR"},
	// The name of the agent, and its version.
	{regexp.MustCompile(`\b(v\d+\.\d+\.\d+)\+keelson\b`), "$1"},
	{regexp.MustCompile(`\b(kubelet|keelson)\b`), "AGENT"},
	// Ages, with the number of an event's repetitions, and the padding of columns.
	{regexp.MustCompile(`\b\d+(\.\d+)?[smhd](\d+(\.\d+)?[smhd])*\b`), "AGE"},
	{regexp.MustCompile(`AGE \(x\d+ over AGE\)`), "AGE"},
	{regexp.MustCompile(`(\S) {2,}`), "$1  "},
	// The greeting of a shell, and its prompt: both may precede the connection to its terminal, and a
	// prompt is repeated when the size of the terminal changes.
	{regexp.MustCompile(`\n*BusyBox v[^\n]*\nEnter 'help'[^\n]*\n+`), "\n"},
	{regexp.MustCompile(`(?m)^(~ # )+`), ""},
	{regexp.MustCompile(` +\n`), "\n"},
}

// normalise replaces names, times and addresses of a single run, and sorts the events of an object:
// kubectl describe sorts them by time, and events of the same second in no order.
func normalise(text string) string {
	for _, r := range replacements {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	return events.ReplaceAllStringFunc(text, func(list string) string {
		return strings.Join(slices.Sorted(strings.Lines(list)), "")
	})
}

// events are successive lines with an event each, as kubectl describe prints them.
var events = regexp.MustCompile(`(?m)(^  (Normal|Warning)  .*\n)+`)

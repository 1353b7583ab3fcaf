// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// kubectlSession is what a user of kubectl does with a node, in this order, and a part of each answer.
// An answer that begins with "error: " is that of a command that fails. "~" is a space in an argument.
var kubectlSession = []struct{ command, want string }{
	{"get node localhost", " Ready "},
	{"get pods -o wide", "localhost"},
	{"logs web", "one\ntwo\n"},
	{"logs web --tail=1 --timestamps", "Z two\n"},
	{"logs web --since=1h --limit-bytes=5", "one\nt"},
	{"logs once --previous", "run\n"},
	{"logs web --previous", `error: Error from server (BadRequest): previous terminated container "main" in pod "web" not found`},
	{"logs web -c other", "error: error: container other is not valid for pod web"},
	{"exec web -- echo hello", "hello\n"},
	{"exec web -- sh -c exit~3", "error: command terminated with exit code 3"},
	{"exec web -- no-such-command", "error: error: Internal error occurred"},
	{"debug web --image=localhost/busybox:1 --image-pull-policy=Never --container=dbg -- sh -c echo~debugged;sleep~1000", ""},
	{"wait pod/web --timeout=60s --for=jsonpath={.status.ephemeralContainerStatuses[0].state.running.startedAt}", "condition met"},
	{"logs web -c dbg", "debugged\n"},
	{"exec web -c dbg -- echo from the side", "from the side\n"},
	{"describe pod web", "Started"},
	{"describe node localhost", "Non-terminated Pods:"},
	{"cordon localhost", "node/localhost cordoned"},
	{"get node localhost", "Ready,SchedulingDisabled"},
	{"delete pod once --force --grace-period=0", `pod "once" force deleted`},
	{"drain localhost --force --timeout=60s", "node/localhost drained"},
	{"uncordon localhost", "node/localhost uncordoned"},
}

// A user's session with kubectl has the answers of a kubelet's node, except for the texts of events.
func TestKubectlSession(t *testing.T) {
	slowly(t)
	s := newServed(t, backends["containerd"])
	s.bind("web", "trap 'exit 0' TERM; echo one; echo two; while :; do sleep 0.2; done")
	s.bind("once", "echo run; sleep 0.2; exit 1")
	s.told("web", "runs", running)
	s.told("once", "has been restarted", func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount > 0
	})
	for _, step := range kubectlSession {
		args := strings.Fields(step.command)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "~", " ")
		}
		out, err := s.server.Kubectl(t.Context(), args...)
		if want, fails := strings.CutPrefix(step.want, "error: "); fails {
			assert.ErrorContains(t, err, want, step.command)
			continue
		}
		require.NoError(t, err, step.command)
		assert.Contains(t, string(out), step.want, step.command)
	}
	s.gone("web")
	s.gone("once")
}

// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseSession(t *testing.T) {
	steps, err := parseSession("# head\nf() { :; }\n\n# step: one\nf 1\n\n# step: two\nf 2\n")
	require.NoError(t, err)
	require.Equal(t, []sessionStep{
		{"one", "# head\nf() { :; }\n\nf 1\n"},
		{"two", "# head\nf() { :; }\n\nf 2\n"},
	}, steps)

	_, err = parseSession("\n# step: one\n\n# step: one\n")
	require.ErrorContains(t, err, `step "one"`)
}

func TestTheSessionAndItsKnownDifferencesAreRead(t *testing.T) {
	for _, recorded := range []struct{ script, known string }{{sessionScript, sessionKnown}, {evictionScript, evictionKnown}} {
		steps, err := parseSession(recorded.script)
		require.NoError(t, err)
		known, err := parseKnown(recorded.known)
		require.NoError(t, err)
		names := map[string]bool{"*": true}
		for _, step := range steps {
			names[step.name] = true
		}
		for _, k := range known {
			require.True(t, names[k.step], k.step)
			require.False(t, k.line.MatchString("any other line"), "%s: the pattern hides a whole step", k.reason)
		}
	}
}

func TestParseKnown(t *testing.T) {
	for _, wrong := range []string{"a reason", "a reason\tstep", "\tstep\t.", "reason\t\t.", "reason\tstep\t("} {
		_, err := parseKnown(wrong)
		require.Error(t, err, wrong)
	}
}

func TestKnownDifferencesAreLeftOut(t *testing.T) {
	known, err := parseKnown("# comment\nits own name\t*\t^version: \nother text\tlogs\tnot found$\n")
	require.NoError(t, err)
	r := recording{
		{"get", "version: 1\nname: a\nnot found\n"},
		{"logs", "not found\nversion: 2\nwithout a newline"},
	}
	require.Equal(t, "# step: get\nname: a\nnot found\n# step: logs\nwithout a newline\n", r.text(known))
}

func TestNormalise(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"times", "a 2026-11-23T13:00:01Z b 2026-11-23T13:00:01.123456789+01:00 c Mon, 23 Nov 2026 13:00:01 +0000", "a TIME b TIME c TIME"},
		{"ages", "web   1/1  Running  2 (3s ago)  2m13s\n2d5h 17m 1h2m3s", "web  1/1  Running  2 (AGE ago)  AGE\nAGE AGE AGE"},
		{"repeated events", "Warning  BackOff  2s (x3 over 14s)  kubelet", "Warning  BackOff  AGE  AGENT"},
		{"agents", "v1.36.3+keelson AGENT kubelet\nmessage: back-off 10s pod=a_b(c), next try at 2026-11-23T13:00:01Z", "v1.36.3 AGENT AGENT\nmessage: back-off AGE pod=a_b(c)"},
		{"kubectl's log", "E1123 13:41:27.166503  31856 portforward.go:522] forwarding 45283 -> 81", "TIME portforward.go:522] forwarding PORT -> 81"},
		{"no age", "v1.36.3 10m-limit 64Mi port80s exit code 3", "v1.36.3 AGE-limit 64Mi port80s exit code 3"},
		{"UIDs and container IDs", "uid: 01234567-89ab-cdef-0123-456789abcdef\nid: containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "uid: UID\nid: containerd://ID"},
		{"names", "site-6d4cf56db6-x2x1k kube-api-access-zzzzz web-server", "site-6d4cf56db6-RANDOM kube-api-access-RANDOM web-server"},
		{"addresses", "10.88.3.17 127.0.0.1:40123 -> 80\nPort: 40123", "POD 127.0.0.1:PORT -> 80\nPort: PORT"},
		{"folders", "/tmp/keelson-ctd-123/containerd.sock /tmp/tmp.aBcD", "/tmp/DIR/containerd.sock /tmp/DIR"},
		{"back-off in YAML", "pod=a_b(c),\n          next try at 2026-11-23T13:00:01Z'", "pod=a_b(c)'"},
		{"prompts", "~ # ~ # echo\n~ # exit", "echo\nexit"},
		{"greeting", "press enter.\n\n\nBusyBox v1.35.0 built-in shell (ash)\nEnter 'help' for a list.\n\n~ # echo", "press enter.\necho"},
		{"events", "Events:\n  ----  ------\n  Warning  B\n  Normal  C\n  Normal  A\nend\n  Normal  0\n", "Events:\n  ----  ------\n  Normal  A\n  Normal  C\n  Warning  B\nend\n  Normal  0\n"},
		{"padding", "  a:     b   \n    c", "  a:  b\n    c"},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, normalise(test.in)) })
	}
}

// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime"
)

func outputCases() []testCase {
	return []testCase{
		{"EnvAndArgsArrive", envAndArgsArrive},
		{"WorkingDirectory", workingDirectory},
		{"LogFormat", logFormat},
		{"LogOfLongLines", logOfLongLines},
		{"LogOfAnUnfinishedLine", logOfAnUnfinishedLine},
		{"LogGoesOnAfterReopen", logGoesOnAfterReopen},
		{"NoLogPath", noLogPath},
	}
}

// printed runs a container to its end and returns its log.
func (b *bench) printed(p *testPod, sb runtime.SandboxID, spec runtime.ContainerSpec) []logLine {
	b.Helper()
	id := b.createSpec(sb, spec)
	b.start(id)
	b.awaitExit(p, id)
	// The exit may be visible before the last line of the log.
	b.await(ruleLog, "a last line in the log", func() bool {
		return slices.Contains(output(b.readLog(spec.LogPath), "stdout"), "end")
	})
	return b.readLog(spec.LogPath)
}

func envAndArgsArrive(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	spec := b.spec(p, "main", 0, Behaviour{
		PrintEnv: []string{"PLAIN", "ODD", "EMPTY", "DOLLAR", "ABSENT"}, PrintArgs: true,
		PrintTail: "end", ExitAfter: AtOnce,
	})
	spec.Env = append(spec.Env,
		runtime.EnvVar{Name: "PLAIN", Value: "value"},
		runtime.EnvVar{Name: "ODD", Value: ` two  words, "quotes" 'single' \back = é`},
		runtime.EnvVar{Name: "EMPTY", Value: ""},
		runtime.EnvVar{Name: "DOLLAR", Value: "$(PLAIN) $PLAIN"})
	spec.Args = []string{"first", "two words", "", "$(PLAIN)", "-n", "*"}
	require.Equal(b, []string{
		"PLAIN=value", `ODD= two  words, "quotes" 'single' \back = é`, "EMPTY=", "DOLLAR=$(PLAIN) $PLAIN", "ABSENT=",
		"arg=first", "arg=two words", "arg=", "arg=$(PLAIN)", "arg=-n", "arg=*", "end",
	}, output(b.printed(p, sb, spec), "stdout"), ruleSpec)
}

func workingDirectory(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	spec := b.spec(p, "main", 0, Behaviour{PrintDir: true, PrintTail: "end", ExitAfter: AtOnce})
	spec.WorkingDir = "/usr"
	require.Equal(b, []string{"dir=/usr", "end"}, output(b.printed(p, sb, spec), "stdout"), ruleSpec)
}

func logFormat(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	before := time.Now()
	lines := b.printed(p, sb, b.spec(p, "main", 0, Behaviour{
		Print:    []string{"plain", "", "  spaces  ", "é % \\n \t tab"},
		PrintErr: []string{"oops"}, PrintTail: "end", ExitAfter: AtOnce,
	}))
	require.Equal(b, []string{"plain", "", "  spaces  ", "é % \\n \t tab", "end"}, output(lines, "stdout"), ruleLog)
	require.Equal(b, []string{"oops"}, output(lines, "stderr"), "%s: the streams are kept apart", ruleLog)
	earliest := before.Add(-time.Second)
	at := earliest // time of the last line of stdout; the streams have no common order
	for _, l := range lines {
		require.False(b, l.at.Before(earliest) || l.at.After(time.Now().Add(time.Second)), "%s: time %v", ruleLog, l.at)
		if l.stream == "stdout" {
			require.False(b, l.at.Before(at), "%s: times never go back", ruleLog)
			at = l.at
		}
	}
	require.False(b, lines[0].partial, "%s: a whole short line is one F entry", ruleLog)
}

func logOfLongLines(b *bench) {
	const long = 100 << 10
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	lines := b.printed(p, sb, b.spec(p, "main", 0, Behaviour{
		Print: []string{"before"}, PrintLong: long, PrintTail: "end", ExitAfter: AtOnce,
	}))
	got := output(lines, "stdout")
	require.True(b, len(got) == 3, "%s: %d lines instead of 3; the pieces of a long line are joined by P", ruleLog, len(got))
	require.Equal(b, "before", got[0], ruleLog)
	require.True(b, got[1] == strings.Repeat("x", long), "%s: %d of %d bytes of a long line", ruleLog, len(got[1]), long)
	require.True(b, slices.ContainsFunc(lines, func(l logLine) bool { return l.partial }), "%s: a line of %d bytes is cut into P entries", ruleLog, long)
}

func logOfAnUnfinishedLine(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	lines := b.printed(p, sb, b.spec(p, "main", 0, Behaviour{Print: []string{"one"}, PrintTail: "end", ExitAfter: AtOnce}))
	require.Equal(b, []string{"one", "end"}, output(lines, "stdout"), "%s: what a process prints last without a newline is kept", ruleLog)
}

// logGoesOnAfterReopen checks that the writer of the log outlives the agent.
func logGoesOnAfterReopen(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	spec := b.spec(p, "main", 0, Behaviour{Print: []string{"ready"}, ExitAfter: 3 * b.h.Unit, ExitCode: 3})
	id := b.createSpec(sb, spec)
	b.start(id)
	b.reopen(func() {})
	c := b.awaitExit(p, id)
	require.EqualValues(b, 3, c.ExitCode, ruleDurable)
	require.Equal(b, spec.LogPath, c.LogPath, ruleLog)
	b.awaitLine(spec.LogPath, "ready")
	require.Equal(b, []string{"ready"}, output(b.readLog(spec.LogPath), "stdout"), ruleLog)
}

func noLogPath(b *bench) {
	p := b.pod("main")
	sb := b.sandbox(p, 0)
	spec := b.spec(p, "main", 0, Behaviour{Print: []string{"to nobody"}, PrintErr: []string{"to nobody"}, ExitAfter: b.h.Unit, ExitCode: 2})
	spec.LogPath = ""
	id := b.createSpec(sb, spec)
	b.start(id)
	c := b.awaitExit(p, id)
	require.EqualValues(b, 2, c.ExitCode, impliedNoLog)
	require.Empty(b, c.LogPath, ruleLog)
}

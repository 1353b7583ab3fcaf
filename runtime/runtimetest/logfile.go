// SPDX-License-Identifier: Apache-2.0

package runtimetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// logLine is an entry of a log in the CRI's format.
type logLine struct {
	at      time.Time
	stream  string // stdout or stderr
	partial bool   // P: the line continues in the next entry of the stream
	text    string
}

// parseLogLine reads "<RFC3339Nano> <stdout|stderr> <P|F>[:more] <text>".
func parseLogLine(s string) (logLine, error) {
	stamp, rest, ok1 := strings.Cut(s, " ")
	stream, rest, ok2 := strings.Cut(rest, " ")
	tags, text, ok3 := strings.Cut(rest, " ")
	if !ok1 || !ok2 || !ok3 {
		return logLine{}, fmt.Errorf("log line %.80q has fewer than four fields", s)
	}
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return logLine{}, fmt.Errorf("log line %.80q: %w", s, err)
	}
	if stream != "stdout" && stream != "stderr" {
		return logLine{}, fmt.Errorf("log line %.80q: stream %q", s, stream)
	}
	tag, _, _ := strings.Cut(tags, ":")
	if tag != "P" && tag != "F" {
		return logLine{}, fmt.Errorf("log line %.80q: tag %q", s, tag)
	}
	return logLine{at: at, stream: stream, partial: tag == "P", text: text}, nil
}

// readLog reads the log file without an unfinished last line.
func (b *bench) readLog(path string) []logLine {
	b.Helper()
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(b, err, ruleLog)
	var lines []logLine
	for s := range strings.Lines(string(raw)) {
		s, whole := strings.CutSuffix(s, "\n")
		if !whole {
			break
		}
		l, err := parseLogLine(s)
		require.NoError(b, err, ruleLog)
		lines = append(lines, l)
	}
	return lines
}

// output joins the partial lines of a stream.
func output(lines []logLine, stream string) []string {
	var out []string
	part := ""
	for _, l := range lines {
		if l.stream != stream {
			continue
		}
		part += l.text
		if !l.partial {
			out = append(out, part)
			part = ""
		}
	}
	if part != "" {
		out = append(out, part)
	}
	return out
}

// awaitLine waits until stdout has this line.
func (b *bench) awaitLine(path, line string) {
	b.Helper()
	b.await(ruleLog, fmt.Sprintf("the line %q in the log", line), func() bool {
		return slices.Contains(output(b.readLog(path), "stdout"), line)
	})
}

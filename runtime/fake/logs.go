// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Longer lines are split into pieces of logPiece bytes, as by containerd.
const logPiece = 16 << 10

func (w *World) makeLogDirectory(dir string) error {
	if !w.opts.WriteLogs || dir == "" {
		return nil
	}
	return os.MkdirAll(dir, 0o755)
}

// writeLog appends the output of a container to its log file if WriteLogs is set.
func (w *World) writeLog(path string, log []string, output []Line) error {
	if !w.opts.WriteLogs || path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(formatLog(time.Now(), joinOutput(log, output))); err != nil {
		_ = f.Close() // the write's error says more
		return err
	}
	return f.Close()
}

// nextLog returns the log path of the next instance. The path changes only if the file is named
// after the restart count: 1.log follows 0.log.
func nextLog(path string, count int32) string {
	if dir, base := filepath.Split(path); base == fmt.Sprintf("%d.log", count-1) {
		return dir + fmt.Sprintf("%d.log", count)
	}
	return path
}

// formatLog formats lines in the CRI's log format.
func formatLog(at time.Time, lines []Line) []byte {
	var b bytes.Buffer
	stamp := at.UTC().Format(time.RFC3339Nano)
	for _, l := range lines {
		stream := " stdout "
		if l.Stderr {
			stream = " stderr "
		}
		for text := l.Text; ; {
			piece, tag := text, "F "
			if len(text) > logPiece {
				piece, tag = text[:logPiece], "P "
			}
			text = text[len(piece):]
			b.WriteString(stamp + stream + tag + piece + "\n")
			if tag == "F " {
				break
			}
		}
	}
	return b.Bytes()
}

func joinOutput(log []string, output []Line) []Line {
	lines := make([]Line, 0, len(log)+len(output))
	for _, text := range log {
		lines = append(lines, Line{Text: text})
	}
	return append(lines, output...)
}

// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
)

// Stream is the output stream of a line.
type Stream uint8

// The streams.
const (
	Stdout Stream = iota
	Stderr
)

// String returns the CRI's name of the stream.
func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Entry is one line of a log file: a line of the container's output, or a piece of a long line.
type Entry struct {
	Time   time.Time // when it was written to the log
	Stream Stream
	// Partial: the line goes on in the stream's next entry.
	Partial bool
	Text    []byte // without a newline; it points into what was parsed

	offset int64 // where its line begins in the file, if a decoder read it
}

// ErrMalformed reports a log line in an unknown format. The line may be secret and is not in the
// error.
var ErrMalformed = errors.New("malformed log entry")

// ParseEntry reads one line of a log file, with or without its newline, in two formats. The CRI's
// format has the tag F for a full line or P for a partial line. Further tags after colons are ignored,
// because the CRI defines none.
//
//	2026-07-01T12:00:00.000000001Z stdout F the text
//
// The format of Docker's json-file driver is written by dockershim and cri-dockerd:
//
//	{"log":"the text\n","stream":"stdout","time":"2026-07-01T12:00:00.000000001Z"}
func ParseEntry(line []byte) (Entry, error) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if len(line) > 0 && line[0] == '{' {
		return parseDocker(line)
	}
	return parseCRI(line)
}

func parseCRI(line []byte) (e Entry, err error) {
	stamp, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok || e.Time.UnmarshalText(stamp) != nil {
		return Entry{}, ErrMalformed
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok || !e.Stream.read(string(stream)) {
		return Entry{}, ErrMalformed
	}
	tags, text, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return Entry{}, ErrMalformed
	}
	tag, _, _ := bytes.Cut(tags, []byte{':'})
	switch string(tag) {
	case "F":
	case "P":
		e.Partial = true
	default:
		return Entry{}, ErrMalformed
	}
	e.Text = text
	return e, nil
}

func (s *Stream) read(word string) bool {
	switch word {
	case "stdout":
		*s = Stdout
	case "stderr":
		*s = Stderr
	default:
		return false
	}
	return true
}

func parseDocker(line []byte) (Entry, error) {
	var raw struct {
		Log    *string   `json:"log"`
		Stream string    `json:"stream"`
		Time   time.Time `json:"time"`
	}
	var e Entry
	if json.Unmarshal(line, &raw) != nil || raw.Log == nil || raw.Time.IsZero() || !e.Stream.read(raw.Stream) {
		return Entry{}, ErrMalformed
	}
	e.Time, e.Text = raw.Time, []byte(*raw.Log)
	if e.Partial = !bytes.HasSuffix(e.Text, []byte{'\n'}); !e.Partial {
		e.Text = e.Text[:len(e.Text)-1]
	}
	return e, nil
}

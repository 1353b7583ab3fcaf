// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// The kubelet's limits of the log as a fallback for a termination message.
const (
	maxTail       = 2048
	maxTailLines  = 80
	openNoWaiting = os.O_RDONLY | unix.O_NONBLOCK // a fifo must not hold us up
)

// message returns the container's termination message: the content of the message file, or the end
// of the log if the container failed and has the policy FallbackToLogsOnError. leftErr is put in
// front.
func (s *shim) message(code int32, leftErr error) string {
	text := s.messageFile()
	if text == "" && code != 0 && s.spec.FallbackToLogs {
		text = lastLines(s.log.tail(), maxTailLines)
	}
	if leftErr != nil {
		text = strings.TrimSuffix(leftErr.Error()+": "+text, ": ")
	}
	return record.Clip(strings.ToValidUTF8(text, "\uFFFD"), record.MaxMessage)
}

// messageFile returns the end of the termination message file. A link that leads out of the working
// folder is not followed.
func (s *shim) messageFile() string {
	if s.spec.MessagePath == "" {
		return ""
	}
	work, err := s.dir.OpenRoot(record.WorkDir)
	if err != nil {
		return ""
	}
	defer work.Close()
	f, err := work.OpenFile(s.spec.MessagePath, openNoWaiting, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	raw, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-record.MaxMessage), record.MaxMessage))
	if err != nil {
		return ""
	}
	return string(raw)
}

// lastLines returns the last n lines of text.
func lastLines(text string, n int) string {
	at := len(strings.TrimSuffix(text, "\n"))
	for range n {
		if at = strings.LastIndexByte(text[:at], '\n'); at < 0 {
			return text
		}
	}
	return text[at+1:]
}

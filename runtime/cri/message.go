// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/internal/containermeta"
)

// How much of a termination message is kept, as in the kubelet.
const (
	maxMessageFile = 4096 // bytes of the file's end
	maxLogMessage  = 2048 // bytes of the log's end
	maxLogLines    = 80
	// logWindow is how many bytes of the log's end are read: entries have a time and a tag before
	// the text.
	logWindow = 64 << 10
)

// reasonCannotRun is a runtime's word for a container without a log.
const reasonCannotRun = "ContainerCannotRun"

// message returns the termination message of an exited container: the runtime's message, then the
// end of the message file, or of the log if the policy says so. A read error is reported in place
// of the text, because the message is for people.
func (r *client) message(st *api.ContainerStatus) string {
	if st.GetState() != api.ContainerState_CONTAINER_EXITED || neverRan(st) {
		return ""
	}
	text := r.files.readMessage(messageFile(st))
	if text == "" && wantsLog(st) {
		text = readLogEnd(st.GetLogPath())
	}
	own := st.GetMessage()
	if own != "" && text != "" {
		own += ": "
	}
	return lastBytes(own+text, maxMessageFile)
}

// wantsLog reports whether the end of the log stands in for a missing message.
func wantsLog(st *api.ContainerStatus) bool {
	policy := v1.TerminationMessagePolicy(st.GetAnnotations()[containermeta.AnnotationTerminationPolicy])
	return policy == v1.TerminationMessageFallbackToLogsOnError && st.GetExitCode() != 0 &&
		st.GetReason() != reasonCannotRun && st.GetLogPath() != ""
}

// readMessage reads the end of a termination message. Only files made by an agent below root are
// read: a file in a volume may have become a link to any path.
func (f files) readMessage(hostPath string) string {
	name, ok := f.messagePath(hostPath)
	if !ok {
		return ""
	}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return ""
	}
	defer root.Close()
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return fmt.Sprintf("Error on reading termination log: %v", err)
	}
	defer file.Close()
	text, err := readEnd(file, maxMessageFile)
	if err != nil {
		return fmt.Sprintf("Error on reading termination log: %v", err)
	}
	return text
}

func readLogEnd(path string) string {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return fmt.Sprintf("Error reading termination message from logs: %v", err)
	}
	defer file.Close()
	text, err := readEnd(file, logWindow)
	if err != nil {
		return fmt.Sprintf("Error reading termination message from logs: %v", err)
	}
	return logEnd(text)
}

// readEnd returns at most the last n bytes of a regular file.
func readEnd(file *os.File, n int64) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is no regular file")
	}
	if info.Size() > n {
		if _, err := file.Seek(-n, io.SeekEnd); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(io.LimitReader(file, n))
	return strings.ToValidUTF8(string(text), "�"), err
}

// logEnd takes the text out of the last lines of a log in the CRI's format. The first line may be
// incomplete.
func logEnd(log string) string {
	var lines []string // the last first
	size, parts := 0, 0
	for _, line := range slices.Backward(strings.SplitAfter(log, "\n")) {
		text, partial, ok := logText(line)
		if !ok {
			continue
		}
		if !partial {
			if parts++; parts > maxLogLines {
				break
			}
			text += "\n"
		}
		lines = append(lines, text)
		if size += len(text); size >= maxLogMessage {
			break
		}
	}
	slices.Reverse(lines)
	return lastBytes(strings.Join(lines, ""), maxLogMessage)
}

// logText reads "<time> <stream> <P|F>[:more] <text>".
func logText(line string) (text string, partial, ok bool) {
	line, whole := strings.CutSuffix(line, "\n")
	f := strings.SplitN(line, " ", 4)
	if !whole || len(f) < 4 || f[1] != "stdout" && f[1] != "stderr" {
		return "", false, false
	}
	tag, _, _ := strings.Cut(f[2], ":")
	return f[3], tag == "P", tag == "P" || tag == "F"
}

// lastBytes returns the end of s, of at most n bytes and whole characters.
func lastBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

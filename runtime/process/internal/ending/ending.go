// SPDX-License-Identifier: Apache-2.0

// Package ending makes the record of a container that has ended. A shim that is awake does so itself.
// An agent does so for a shim that has ended in its sleep.
package ending

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/runtime/process/internal/cgroup"
	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// The kubelet's limits of the log as a fallback for a termination message.
const (
	MaxTail       = 2048
	maxTailLines  = 80
	openNoWaiting = os.O_RDONLY | unix.O_NONBLOCK // a fifo must not hold us up
)

// Exit returns the record for the end of the main process. dir is the container's folder, tail the end
// of the container's output, and left the reason why processes of the container are left, or nil.
func Exit(dir *os.Root, spec *record.Spec, end record.End, tail string, left error) record.Exit {
	exit := record.Exit{Code: end.Code, Reason: "Completed", FinishedAt: end.At}
	if exit.Code != 0 {
		exit.Reason = "Error"
		if g := spec.Cgroup; g != nil && cgroup.OOMKilled(g) {
			exit.Reason = "OOMKilled"
		}
	}
	exit.Message = message(dir, spec, exit.Code, tail, left)
	return exit
}

// message returns the container's termination message: the content of the message file, or the end
// of the log if the container failed and has the policy FallbackToLogsOnError. left is put in
// front.
func message(dir *os.Root, spec *record.Spec, code int32, tail string, left error) string {
	text := messageFile(dir, spec.MessagePath)
	if text == "" && code != 0 && spec.FallbackToLogs {
		text = lastLines(tail, maxTailLines)
	}
	if left != nil {
		text = strings.TrimSuffix(left.Error()+": "+text, ": ")
	}
	return record.Clip(strings.ToValidUTF8(text, "\uFFFD"), record.MaxMessage)
}

// messageFile returns the end of the termination message file. A link that leads out of the working
// folder is not followed.
func messageFile(dir *os.Root, path string) string {
	if path == "" {
		return ""
	}
	work, err := dir.OpenRoot(record.WorkDir)
	if err != nil {
		return ""
	}
	defer work.Close()
	f, err := work.OpenFile(path, openNoWaiting, 0)
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

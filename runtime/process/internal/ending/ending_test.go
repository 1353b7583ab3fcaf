// SPDX-License-Identifier: Apache-2.0

package ending

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

func TestTerminationMessage(t *testing.T) {
	for _, tt := range []struct {
		name    string
		file    string
		logTail string
		code    int32
		left    error
		want    string
	}{
		{name: "none", code: 1},
		{name: "file", file: "because\n", logTail: "log", code: 1, want: "because\n"},
		{name: "file, success", file: "done", want: "done"},
		{name: "log on error", logTail: "a\nb\n", code: 1, want: "a\nb\n"},
		{name: "no log on success", logTail: "a\nb\n"},
		{name: "last bytes of a long file", file: strings.Repeat("x", 5000) + "end", code: 1, want: strings.Repeat("x", record.MaxMessage-3) + "end"},
		{name: "last lines of the log", logTail: strings.Repeat("\n", 50) + strings.Repeat("l\n", 80), code: 1, want: strings.Repeat("l\n", 80)},
		{name: "no characters", file: "a\xffb", want: "a\uFFFDb"},
		{name: "something was left", file: "m", left: errors.New("2 processes"), want: "2 processes: m"},
		{name: "only something left", left: errors.New("2 processes"), want: "2 processes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, work := newFolder(t)
			require.NoError(t, os.WriteFile(filepath.Join(work, "msg"), []byte(tt.file), 0o600))
			assert.Equal(t, tt.want, message(dir, withMessage, tt.code, tt.logTail, tt.left))
		})
	}
}

var withMessage = &record.Spec{MessagePath: "msg", FallbackToLogs: true}

// newFolder returns a container's folder, and the path of the working folder.
func newFolder(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	work := filepath.Join(dir, record.WorkDir)
	require.NoError(t, os.Mkdir(work, 0o700))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root, work
}

// TestMessageOutsideIsNotRead: what is not a file of the working folder is no
// message.
func TestMessageOutsideIsNotRead(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("hunter2"), 0o600))
	for name, make := range map[string]func(path string) error{
		"link out":     func(path string) error { return os.Symlink(secret, path) },
		"link up":      func(path string) error { return os.Symlink("../spec.json", path) },
		"link to dir":  func(path string) error { return os.Symlink("/proc/self", path) },
		"folder":       func(path string) error { return os.Mkdir(path, 0o700) },
		"fifo":         func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"not there":    func(string) error { return nil },
		"link to fifo": func(path string) error { return errors.Join(syscall.Mkfifo(path+"2", 0o600), os.Symlink("msg2", path)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, work := newFolder(t)
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(work), "spec.json"), []byte("hunter2"), 0o600))
			require.NoError(t, make(filepath.Join(work, "msg")))
			assert.Empty(t, message(dir, withMessage, 0, "", nil))
		})
	}
	dir, work := newFolder(t)
	require.NoError(t, os.WriteFile(filepath.Join(work, "real"), []byte("fine"), 0o600))
	require.NoError(t, os.Symlink("real", filepath.Join(work, "msg")))
	assert.Equal(t, "fine", message(dir, withMessage, 0, "", nil), "a link within the working folder is")
}

func TestLastLines(t *testing.T) {
	for _, tt := range []struct {
		text string
		n    int
		want string
	}{
		{"", 2, ""}, {"a", 2, "a"}, {"a\nb\nc", 2, "b\nc"}, {"a\nb\nc\n", 2, "b\nc\n"}, {"\n\n\n", 1, "\n"}, {"a\nb", 2, "a\nb"},
	} {
		assert.Equal(t, tt.want, lastLines(tt.text, tt.n), "%q", tt.text)
	}
}

func TestClipKeepsWholeCharacters(t *testing.T) {
	assert.Equal(t, "é", record.Clip("éé", 3))
	assert.Equal(t, "ab", record.Clip("ab", 2))
}

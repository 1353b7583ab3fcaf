// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxFileName is the maximum length of a file name, in bytes.
const maxFileName = 255

// podLogDir returns <root>/<namespace>_<name>_<uid>. Names that would leave root, or would be
// ambiguous in this form, are errors.
func podLogDir(root string, pod *v1.Pod) (string, error) {
	for _, part := range []struct{ field, value, forbidden string }{
		{"metadata.namespace", pod.Namespace, "_"},
		{"metadata.name", pod.Name, "_"},
		{"metadata.uid", string(pod.UID), ""}, // as the last part, the UID may contain underscores
	} {
		if err := checkPathElement(part.value); err != nil {
			return "", fmt.Errorf("%s: %w", part.field, err)
		}
		if strings.ContainsAny(part.value, part.forbidden) {
			return "", fmt.Errorf("%s: %q has an underscore", part.field, part.value)
		}
	}
	dir := podLogFolder(pod.Namespace, pod.Name, pod.UID)
	if len(dir) > maxFileName {
		return "", fmt.Errorf("metadata: namespace, name and uid have %d bytes together, one directory's name takes %d", len(dir)-2, maxFileName-2)
	}
	return filepath.Join(root, dir), nil
}

// podLogFolder returns the name of the log directory of a pod.
func podLogFolder(namespace, name string, uid types.UID) string {
	return namespace + "_" + name + "_" + string(uid)
}

// containerLogDir returns the log directory of a container, below that of its pod.
func containerLogDir(podDir, container string) (string, error) {
	if err := checkPathElement(container); err != nil {
		return "", fmt.Errorf("name: %w", err)
	}
	if len(container) > maxFileName {
		return "", fmt.Errorf("name: has %d bytes, a directory's name takes %d", len(container), maxFileName)
	}
	return filepath.Join(podDir, container), nil
}

// checkPathElement refuses texts that are not exactly one path element on every system.
func checkPathElement(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case s == "." || s == "..":
		return fmt.Errorf("%q is no file name", s)
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '/' || r == '\\' }):
		return fmt.Errorf("%q is no file name", s)
	}
	return nil
}

// nextRestartCount returns the highest restart count in the names of the log files of dir,
// including rotated files, plus 1. The result is 0 without log files, or if dir cannot be read.
func nextRestartCount(dir string) int32 {
	entries, _ := os.ReadDir(dir) // a file that cannot be read does not count
	next := int32(0)
	for _, e := range entries {
		if n, ok := restartCountOfLog(e.Name()); ok && !e.IsDir() {
			next = max(next, n+1)
		}
	}
	return next
}

// restartCountOfLog parses <count>.log or <count>.log.<anything>. A count without a possible
// successor is invalid.
func restartCountOfLog(file string) (int32, bool) {
	digits, rest, _ := strings.Cut(file, ".")
	if rest != "log" && !strings.HasPrefix(rest, "log.") {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n == math.MaxInt32 {
		return 0, false
	}
	return int32(n), true
}

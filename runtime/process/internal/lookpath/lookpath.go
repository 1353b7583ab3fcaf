// SPDX-License-Identifier: Apache-2.0

// Package lookpath finds the program of a command with the PATH of the command's environment, and
// not of the caller's.
package lookpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Find returns the path of a program. A name with a slash is the path, and a relative path is below
// dir. Any other name is the first executable file of that name in the PATH of env. The error names
// the program and quotes nothing of env.
func Find(name, dir string, env []string) (string, error) {
	if name == "" {
		return "", errors.New("the command is empty")
	}
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, check(name, path)
	}
	found := fmt.Errorf("command %q: not found in PATH", name)
	for _, d := range filepath.SplitList(variable(env, "PATH")) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		path := filepath.Join(d, name)
		if _, err := os.Stat(path); err != nil {
			continue // also for a folder without permission to search
		}
		err := check(name, path)
		if err == nil {
			return path, nil
		}
		found = err
	}
	return "", found
}

// check reports whether path is a file that may be executed.
func check(name, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("command %q: %w", name, fs.ErrNotExist)
	case err != nil:
		return fmt.Errorf("command %q: %w", name, errors.Unwrap(err))
	case info.IsDir():
		return fmt.Errorf("command %q: is a directory", name)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return fmt.Errorf("command %q: %w", name, err)
	}
	return nil
}

// variable returns the last value of a variable, which is the value that a program sees.
func variable(env []string, name string) string {
	value := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// errUnknown means that the texts to replace are not those of a known Go version.
var errUnknown = errors.New("dst knows another text of Go's runtime")

// toolchain is the Go installation of the user.
type toolchain struct {
	root    string // GOROOT
	version string // such as go1.26.3
}

// writeOverlay writes the edited files of the toolchain to dir, and returns the name of a file for
// the option -overlay of the go command. An edit that does not fit is an error that names file and
// version.
func (t toolchain) writeOverlay(dir string, edits []edit, added map[string]string) (string, error) {
	texts := make(map[string]string)
	for _, e := range edits {
		file, err := t.find(e, texts)
		if err != nil {
			return "", err
		}
		changed, err := e.apply(texts[file])
		if err != nil {
			return "", fmt.Errorf("%w: %s, %s: %w", errUnknown, t.version, file, err)
		}
		texts[file] = changed
	}
	for file, text := range added {
		if _, err := os.Stat(t.path(file)); err == nil {
			return "", fmt.Errorf("%w: %s already has the file %s", errUnknown, t.version, file)
		}
		texts[file] = text
	}
	replace := make(map[string]string)
	for file, text := range texts {
		name := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[t.path(file)] = name
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o644)
}

// find reads the file of the edit, unless read before, and returns the file's path below GOROOT/src.
// Of several files of the edit, the first that contains a text to replace is taken, or else the last
// that exists.
func (t toolchain) find(e edit, texts map[string]string) (found string, err error) {
	for file := range strings.SplitSeq(e.file, "|") {
		if _, read := texts[file]; !read {
			data, err := os.ReadFile(t.path(file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return "", err
			}
			texts[file] = string(data)
		}
		found = file
		for _, old := range e.old {
			if strings.Contains(texts[file], old) {
				return file, nil
			}
		}
	}
	if found == "" {
		return "", fmt.Errorf("%w: %s has no file %s (%s)", errUnknown, t.version, e.file, e.purpose)
	}
	return found, nil
}

func (t toolchain) path(file string) string {
	return filepath.Join(t.root, "src", filepath.FromSlash(file))
}

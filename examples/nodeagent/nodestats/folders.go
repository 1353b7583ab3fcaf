// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"os"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/recent"
)

// settled is the age of a change of a folder from which on a listing of the folder is certain to have
// the change: file systems tell the time in steps of a few milliseconds.
const settled = time.Second

// folders remembers the names of the folders in a folder, until the folder changes. The zero value is
// ready.
type folders struct{ known recent.Map[string, listing] }

// listing is the content of a folder.
type listing struct {
	names   []string
	changed time.Time // of the folder, as the file system says
	read    time.Time
}

// in returns the names of the folders in a folder, none if it is unreadable.
func (f *folders) in(dir string) []string {
	info, err := os.Stat(dir)
	if err != nil {
		return nil
	}
	changed := info.ModTime()
	l := f.known.Get(dir)
	if !l.changed.Equal(changed) || l.read.Before(changed.Add(settled)) {
		l.read = time.Now()
		l.changed, l.names = changed, foldersIn(dir)
	}
	return l.names
}

// foldersIn returns the names of the folders in a folder, none if it is unreadable.
func foldersIn(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// SPDX-License-Identifier: Apache-2.0

package fsnotify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	notify "github.com/fsnotify/fsnotify"

	"github.com/keelson-dev/keelson/podconfig/file"
)

// errMoving tells that the folders on the way to a path kept changing while they were about to be watched.
var errMoving = errors.New("the path keeps changing")

// Hinter is a file.Hinter. The zero value is ready; it holds no state, so one serves any number of sources.
type Hinter struct{}

var _ file.Hinter = Hinter{}

// Hints watches path as file.Hinter says. It ends the watch when what has to be watched is not the same any more: the
// folder was removed, replaced, or has come into being.
func (Hinter) Hints(ctx context.Context, path string) (<-chan struct{}, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("fsnotify: %w", err)
	}
	for range 3 {
		w, p, err := arm(path)
		if err != nil {
			return nil, fmt.Errorf("fsnotify: %w", err)
		}
		if p != planFor(path) { // something happened between looking and watching
			_ = w.Close()
			continue
		}
		hints := make(chan struct{}, 1)
		go forward(ctx, w, p, hints)
		return hints, nil
	}
	return nil, fmt.Errorf("fsnotify: %s: %w", path, errMoving)
}

func arm(path string) (*notify.Watcher, plan, error) {
	w, err := notify.NewWatcher()
	if err != nil {
		return nil, plan{}, err
	}
	p := planFor(path)
	if err := w.Add(p.watched()); err != nil {
		_ = w.Close()
		return nil, plan{}, err
	}
	if p.folder {
		// It tells when a symbolic link to the folder is turned to another; a folder without parent, or with one that may
		// not be read, does without.
		_ = w.Add(p.parent)
	}
	return w, p, nil
}

// forward turns events into hints until ctx or the watch ends, and then closes hints.
func forward(ctx context.Context, w *notify.Watcher, p plan, hints chan<- struct{}) {
	defer close(hints)
	defer w.Close()
	for {
		verdict := ignore
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-w.Events:
			if !ok {
				return
			}
			verdict = p.judge(ev)
		case err, ok := <-w.Errors:
			if !ok {
				return
			}
			if verdict = hintAndEnd; errors.Is(err, notify.ErrEventOverflow) {
				verdict = hint
			}
		}
		if verdict == ignore {
			continue
		}
		select {
		case hints <- struct{}{}:
		default: // one hint stands for any number of changes
		}
		if verdict == hintAndEnd {
			return
		}
	}
}

// plan is what to watch for a path. Plans are equal if the same watches do.
type plan struct {
	path   string
	parent string // nearest folder above that exists
	folder bool   // path is a folder, watched itself
	shut   bool   // path is a folder that may not be read
	absent bool   // neither path nor perhaps some folders above it exist
}

func planFor(path string) plan {
	p := plan{path: path, parent: filepath.Dir(path)}
	info, err := os.Stat(path)
	p.absent = err != nil
	if err == nil && info.IsDir() {
		f, openErr := os.Open(path)
		p.folder, p.shut = openErr == nil, openErr != nil
		if openErr == nil {
			_ = f.Close()
		}
	}
	for p.absent && !isFolder(p.parent) && filepath.Dir(p.parent) != p.parent {
		p.parent = filepath.Dir(p.parent)
	}
	return p
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (p plan) watched() string {
	if p.folder {
		return p.path
	}
	return p.parent
}

type verdict uint8

const (
	ignore verdict = iota
	hint
	hintAndEnd
)

// judge tells what an event means. A name that begins with ".." is how an atomic writer (of the kubelet, for example)
// swaps all files at once.
func (p plan) judge(ev notify.Event) verdict {
	replaced := ev.Op&(notify.Create|notify.Remove|notify.Rename) != 0
	gone := ev.Op&(notify.Remove|notify.Rename) != 0
	dir, base := filepath.Dir(ev.Name), filepath.Base(ev.Name)
	switch {
	case ev.Name == p.parent && gone:
		return hintAndEnd
	case p.folder && dir == p.path:
		return hint
	case p.folder && ev.Name == p.path && !replaced:
		return hint // its mode or owner
	case p.folder && (ev.Name == p.path || dir == p.parent && strings.HasPrefix(base, "..") && replaced):
		return hintAndEnd
	case p.folder:
		return ignore // a neighbour of the folder
	case ev.Name == p.path && (p.shut || ev.Has(notify.Create) && isFolder(p.path)):
		return hintAndEnd
	case dir == p.parent && !p.absent && !p.shut:
		return hint // the file, or a link on the way to it
	case p.absent && dir == p.parent && (p.leadsTo(ev.Name) || strings.HasPrefix(base, "..")):
		return hintAndEnd
	}
	return ignore
}

// leadsTo tells whether name is the path or a folder above it.
func (p plan) leadsTo(name string) bool {
	return name == p.path || strings.HasPrefix(p.path, strings.TrimSuffix(name, "/")+"/")
}

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

	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/podconfig/file"
)

// errMoving means that the folders of a path kept changing during the start of a watch.
var errMoving = errors.New("the path keeps changing")

// Hinter is a file.Hinter. The zero value is ready to use. A Hinter has no state and can serve
// several sources.
type Hinter struct{}

var _ file.Hinter = Hinter{}

// Hints watches path as documented for file.Hinter. The watch ends when the set of folders to watch
// changes: the folder was removed, replaced or created.
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
		if p != planFor(path) { // changed while the watch was added
			_ = w.Close()
			continue
		}
		hints := signal.New()
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
		// The parent reports when a symbolic link to the folder changes. A folder without a
		// readable parent is watched alone.
		_ = w.Add(p.parent)
	}
	return w, p, nil
}

// forward turns events into hints until ctx or the watch ends, and then closes hints.
func forward(ctx context.Context, w *notify.Watcher, p plan, hints signal.Signal) {
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
		hints.Notify() // a pending hint covers this change
		if verdict == hintAndEnd {
			return
		}
	}
}

// plan is the set of folders to watch for a path. Equal plans mean equal watches.
type plan struct {
	path   string
	parent string // nearest existing parent folder
	folder bool   // path is a readable folder and watched itself
	shut   bool   // path is an unreadable folder
	absent bool   // path does not exist; some parent folders may not exist either
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

// judge returns the meaning of an event. An atomic writer, such as the kubelet's, swaps all files
// at once through a name beginning with "..".
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
		return hint // change of mode or owner
	case p.folder && (ev.Name == p.path || dir == p.parent && strings.HasPrefix(base, "..") && replaced):
		return hintAndEnd
	case p.folder:
		return ignore // another entry in the parent folder
	case ev.Name == p.path && (p.shut || ev.Has(notify.Create) && isFolder(p.path)):
		return hintAndEnd
	case dir == p.parent && !p.absent && !p.shut:
		return hint // the file, or a link in its path
	case p.absent && dir == p.parent && (p.leadsTo(ev.Name) || strings.HasPrefix(base, "..")):
		return hintAndEnd
	}
	return ignore
}

// leadsTo reports whether name is the path or a parent folder.
func (p plan) leadsTo(name string) bool {
	return name == p.path || strings.HasPrefix(p.path, strings.TrimSuffix(name, "/")+"/")
}

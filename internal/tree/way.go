// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"io/fs"
	"os"
	"strings"
)

// window is how many of the deepest folders of a way are open. In addition a call holds the parent of the tree, the
// present folder or file, and one descriptor to change a mode.
const window = MaxDescriptors - 6

// way is the path of folders from the top of a tree to the present folder. The top and the deepest are open. A folder
// closed on the way down is opened again from its child on the way up, and must be the same folder.
type way struct {
	frames []frame
	// closed is the number of frames without an open folder, directly after the first frame, which stays open.
	closed int
}

// frame is one folder of a way.
type frame struct {
	dir  *dir // nil while closed
	name string
	info fs.FileInfo
	// folders are the names of child folders not entered yet.
	folders []string
	emptying
}

// newWay returns a way that starts at the open folder top. The way owns top, also after an error.
func newWay(top *dir, name string) (*way, error) {
	w := &way{}
	return w, w.enter(top, name)
}

// last returns the frame of the deepest folder, which is open.
func (w *way) last() *frame { return &w.frames[len(w.frames)-1] }

// enter appends an open folder to the way. The way owns the folder, also after an error.
func (w *way) enter(child *dir, name string) error {
	info, err := child.stat()
	if err != nil {
		child.close()
		return err
	}
	w.frames = append(w.frames, frame{dir: child, name: name, info: info})
	if len(w.frames)-w.closed > window {
		w.closed++
		w.frames[w.closed].dir.close()
		w.frames[w.closed].dir = nil
	}
	return nil
}

// openParent opens the parent of the last folder, if closed.
func (w *way) openParent() error {
	above := len(w.frames) - 2
	if above < 0 || w.frames[above].dir != nil {
		return nil
	}
	dir, err := w.reopen(above)
	if err != nil {
		return err
	}
	info, err := dir.stat()
	if err == nil && !os.SameFile(info, w.frames[above].info) {
		err = ErrMoved
	}
	if err != nil {
		dir.close()
		return err
	}
	w.frames[above].dir = dir
	w.closed--
	return nil
}

// leave closes the last folder and returns to its parent. It reports whether the last folder was the top.
func (w *way) leave() (done bool) {
	w.last().dir.close()
	w.frames = w.frames[:len(w.frames)-1]
	return len(w.frames) == 0
}

func (w *way) close() {
	for _, f := range w.frames {
		if f.dir != nil {
			f.dir.close()
		}
	}
	w.frames = nil
}

// maxText is how long a path in an error may be, in bytes. Longer paths are shortened.
const maxText = 256

// text returns the path from the top to name in the last folder, for an error.
func (w *way) text(name string) string {
	var b strings.Builder
	for _, f := range w.frames[1:] {
		if b.Len()+len(f.name) > maxText {
			b.WriteString("…/")
			break
		}
		b.WriteString(f.name)
		b.WriteByte('/')
	}
	return b.String() + name
}

// SPDX-License-Identifier: Apache-2.0

package subpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/internal/missing"
	"github.com/keelson-dev/keelson/internal/tree"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// The reasons for a refusal by Prepare; match with errors.Is.
var (
	// errPath: the subPath is not relative, has a "..", or is too long.
	errPath = errors.New("is not a path inside of the volume")
	// errEscapes: a link in the path leads out of the volume.
	errEscapes = errors.New("leads out of the volume")
)

const (
	dirMode  = 0o750
	fileMode = 0o640
	maxPath  = 4096
)

// Options are the options of New.
type Options struct {
	// Mounter makes the bind mounts. Defaults to mount.Detect().
	Mounter mount.Mounter
}

// Subpaths prepares parts of volumes and removes them. Its only state is the mounts, and it is safe
// for concurrent use.
type Subpaths struct{ mounter mount.Mounter }

// New returns Subpaths. The error is always nil.
func New(o Options) (*Subpaths, error) {
	if o.Mounter == nil {
		o.Mounter = mount.Detect()
	}
	return &Subpaths{o.Mounter}, nil
}

// Request is a part of a volume for a container.
type Request struct {
	// Place is the place of the volume.
	Place volumemanager.Place
	// Volume is the host path of the volume, Mounted.Path.
	Volume string
	// SubPath is the part, relative and slash-separated, with variables expanded. Missing elements
	// are created as folders, with the mode of the volume's folder.
	SubPath string
	// Container and Index, the index of the volumeMount, select the part's own folder.
	Container string
	Index     int
}

// Prepare returns the path for the container runtime to mount. A repeated call returns the same
// path, and binds again if the part was replaced by another file or folder. After an error nothing
// new is mounted. Errors name the volume and the subPath.
func (s *Subpaths) Prepare(ctx context.Context, r Request) (string, error) {
	host, err := s.prepare(ctx, r)
	if err != nil {
		return "", fmt.Errorf("volume %q: subPath %s: %w", r.Place.Inner, shown(r.SubPath), err)
	}
	return host, nil
}

// PrepareSubpath implements volumemanager.SubpathPreparer with Prepare.
func (s *Subpaths) PrepareSubpath(ctx context.Context, p volumemanager.Place, volume, subPath, container string, index int) (string, error) {
	return s.Prepare(ctx, Request{Place: p, Volume: volume, SubPath: subPath, Container: container, Index: index})
}

func (s *Subpaths) prepare(ctx context.Context, r Request) (string, error) {
	if err := r.check(); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(r.Volume)
	if err != nil {
		return "", tree.Cause(err)
	}
	defer root.Close()
	sub := path.Clean(r.SubPath)
	part, err := openPart(root, sub)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDirs(root, sub); err != nil {
			return "", err
		}
		part, err = openPart(root, sub)
	}
	if err != nil {
		return "", err
	}
	defer part.Close()
	return s.bind(ctx, r, part)
}

func (r Request) check() error {
	if err := r.Place.Check(); err != nil {
		return err
	}
	c := r.Container
	switch {
	case len(r.SubPath) > maxPath, strings.HasPrefix(r.SubPath, "/"), strings.IndexByte(r.SubPath, 0) >= 0,
		slices.Contains(strings.Split(r.SubPath, "/"), ".."):
		return errPath
	case c == "" || c == "." || strings.ContainsAny(c, "/\x00") || strings.HasPrefix(c, "..") || r.Index < 0:
		return fmt.Errorf("container %q, mount %d: no path element", c, r.Index)
	}
	return nil
}

// shown quotes s for an error. Texts of more than 64 bytes are cut.
func shown(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("%q… (%d bytes)", s[:64], len(s))
	}
	return strconv.Quote(s)
}

// makeDirs creates the missing folders of sub, each with the mode of the volume's folder.
func makeDirs(root *os.Root, sub string) error {
	info, err := root.Stat(".")
	if err != nil {
		return tree.Cause(err)
	}
	done := ""
	for element := range strings.SplitSeq(sub, "/") {
		done = path.Join(done, element)
		err := root.Mkdir(done, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return escapes(err)
		}
		if err := chmodDir(root, done, info.Mode()); err != nil {
			return escapes(err)
		}
	}
	return nil
}

// chmodDir sets the mode regardless of the umask. It uses a descriptor, because a container may replace
// the folder meanwhile.
func chmodDir(root *os.Root, name string, mode fs.FileMode) error {
	dir, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Chmod(".", mode&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
}

// escapes returns errEscapes for the error of os.Root about an escaping path, which package os does not
// export. It returns other errors unchanged.
func escapes(err error) error {
	if err = tree.Cause(err); strings.Contains(err.Error(), "escapes") {
		return errEscapes
	}
	return err
}

// CleanSubpaths unmounts and removes the parts of a volume. It does not access the mounted files,
// which may hang, and removes empty folders only. It implements volumemanager.Subpaths.
func (s *Subpaths) CleanSubpaths(ctx context.Context, p volumemanager.Place) error {
	if err := p.Check(); err != nil {
		return err
	}
	root, err := os.OpenRoot(p.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	top, err := filepath.Rel(p.Root, p.SubpathsDir())
	if err != nil {
		return err
	}
	var failed []error
	containers, _ := tree.List(root, top) // a missing folder has no parts
	for _, container := range containers {
		dir := filepath.Join(top, container.Name)
		indices, _ := tree.List(root, dir)
		for _, index := range indices {
			part := filepath.Join(dir, index.Name)
			err := s.mounter.Unmount(ctx, filepath.Join(p.Root, part))
			if err == nil {
				err = missing.Ignore(root.Remove(part))
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("volume %q: subpath %s of container %q: %w", p.Inner, index.Name, container.Name, tree.Cause(err)))
			}
		}
		failed = append(failed, removeEmpty(root, dir, failed))
	}
	failed = append(failed, removeEmpty(root, top, failed))
	if errors.Join(failed...) == nil {
		_ = root.Remove(filepath.Dir(top)) // the folder may contain parts of the pod's other volumes
	}
	return errors.Join(failed...)
}

// removeEmpty removes a folder. It does nothing if failed contains an error, because a mount may
// remain in the folder.
func removeEmpty(root *os.Root, dir string, failed []error) error {
	if errors.Join(failed...) != nil {
		return nil
	}
	return missing.Ignore(root.Remove(dir))
}
